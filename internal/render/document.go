package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// File is a file of manifests as it was read.
type File struct {
	// Name is for messages.
	Name string
	Data []byte
}

// document is one YAML document of a file, or one object of a JSON file. If it is not changed, it is written as it was read, byte
// for byte.
type document struct {
	file string
	// marker is the line "---" before it, if there is one; body is the rest, and line the number of its first line.
	marker, body string
	line         int
	// node is the YAML tree, without aliases. It is nil if there is nothing but comments, or nothing that is an object.
	node *yaml.Node
	// json is the same as JSON. It is nil until it is needed, except in a JSON file.
	json []byte
	// value is the same as plain values, nil until it is needed. unlike is a part of node that kubectl reads differently, if
	// there is one.
	value  map[string]any
	unlike *yaml.Node
	// changed is true if node is no longer what body says. added are objects to write after it.
	changed bool
	added   []*yaml.Node
}

func parse(file File) ([]*document, error) {
	data := bytes.TrimPrefix(file.Data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return nil, (&document{file: file.Name, line: 1}).errorAt(0, "it is not UTF-8")
	}
	if documents, ok := parseJSON(file.Name, 1, data); ok {
		return documents, nil
	}
	var documents []*document
	// kubectl reads lines, and terminates the last one too.
	for _, d := range split(file.Name, endLine(string(data))) {
		parsed, err := d.parseAny()
		if err != nil {
			return nil, err
		}
		documents = append(documents, parsed...)
	}
	return documents, nil
}

// parseAny reads a document that may be JSON.
func (d *document) parseAny() ([]*document, error) {
	err := d.parse()
	if err == nil {
		return []*document{d}, nil
	}
	objects, ok := parseJSON(d.file, d.line, []byte(d.body))
	if !ok {
		return nil, err
	}
	objects[0].marker = d.marker
	return objects, nil
}

// split splits a YAML stream before each line that begins a document.
func split(file, text string) []*document {
	var documents []*document
	current, begin, at, line := &document{file: file, line: 1}, 0, 0, 0
	end := func() {
		current.body += text[begin:at]
		if current.marker+current.body != "" {
			documents = append(documents, current)
		}
	}
	for content := range strings.Lines(text) {
		line++
		if rest, marks := strings.CutPrefix(content, "---"); marks && strings.TrimLeft(rest, " \t\r\n") != rest || content == "---" {
			end()
			current, begin = &document{file: file, marker: content, line: line + 1}, at+len(content)
			if words := strings.TrimSpace(rest); words != "" && !strings.HasPrefix(words, "#") {
				// The document itself begins on this line. The spaces keep the columns of what follows.
				current.marker, current.body, current.line = "---\n", "   "+rest, line
			}
		}
		at += len(content)
	}
	end()
	return documents
}

// parse reads the YAML tree. It resolves aliases, so that changing one place changes only that place.
func (d *document) parse() error {
	if d.empty() {
		return nil
	}
	decoder := yaml.NewDecoder(strings.NewReader(d.body))
	var node yaml.Node
	if err := decoder.Decode(&node); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return d.syntax(err)
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return d.errorAt(0, "want a line --- between documents")
	}
	if !isMapping(root(&node)) {
		return nil
	}
	if hasAlias(&node) {
		// Aliases that contain themselves, and excessive aliases, are errors here.
		if err := d.readJSON(); err != nil {
			return err
		}
		resolve(&node)
	}
	d.node = &node
	return nil
}

// empty reports whether the document contains only comments and directives.
func (d *document) empty() bool {
	for line := range strings.Lines(d.body) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

func root(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.DocumentNode && len(node.Content) == 1 {
		return node.Content[0]
	}
	return node
}

func hasAlias(node *yaml.Node) bool {
	if node.Kind == yaml.AliasNode || node.Tag == yaml.MergeTag {
		return true
	}
	return slices.ContainsFunc(node.Content, hasAlias)
}

// readJSON translates the document as kubectl does.
func (d *document) readJSON() error {
	if d.json != nil {
		return nil
	}
	translated, err := sigsyaml.YAMLToJSON([]byte(d.body))
	if err != nil {
		return d.syntax(err)
	}
	d.json = translated
	return nil
}

func (d *document) values() (map[string]any, error) {
	if d.value != nil {
		return d.value, nil
	}
	if err := d.readJSON(); err != nil {
		return nil, err
	}
	if err := utiljson.Unmarshal(d.json, &d.value); err != nil {
		return nil, d.errorAt(0, "%v", err)
	}
	if unlike := differences(d.node, d.value); len(unlike) > 0 {
		d.unlike = unlike[0]
	}
	return d.value, nil
}

// ambiguous returns the error that parsers read a text differently.
func (d *document) ambiguous(at *yaml.Node) error {
	return d.errorAt(at.Line, "kubectl reads this differently from other programs: write it differently")
}

// errorAt returns an error that names the place. line counts from 1 within the document; 0 is the document itself.
func (d *document) errorAt(line int, format string, args ...any) error {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	return fmt.Errorf("%s:%d: %s", d.file, d.line+max(line, 1)-1, text)
}

var (
	lineForm = regexp.MustCompile(`line (\d+): `)
	// quotedForm is what the YAML parser's errors quote from the text, which may be a password that begins with an asterisk.
	quotedForm = regexp.MustCompile("(anchor |decode \\S+ |map key: )('.*'|`.*`|.*$)")
)

// syntax turns an error of the YAML parser, which may have several lines, into one that names its place in the file.
func (d *document) syntax(err error) error {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "), "yaml: ")
	text = strings.Join(strings.Fields(text), " ")
	text = quotedForm.ReplaceAllString(text, "$1…")
	match := lineForm.FindStringSubmatchIndex(text)
	if match == nil {
		return d.errorAt(0, "%s", text)
	}
	line, err := strconv.Atoi(text[match[2]:match[3]])
	if err != nil {
		line = 0
	}
	return d.errorAt(line, "%s", text[match[1]:])
}

// text returns the document as it should be written, without its own marker.
func (d *document) text() (string, error) {
	body := d.body
	if d.changed {
		if d.unlike != nil {
			return "", d.ambiguous(d.unlike)
		}
		changed, err := d.encode(d.node)
		if err != nil {
			return "", err
		}
		body = changed
	}
	for _, node := range d.added {
		added, err := d.encode(node)
		if err != nil {
			return "", err
		}
		body = endLine(body) + "---" + d.lineEnd() + added
	}
	return body, nil
}

// encode returns a tree as text, with the indentation and line endings of the document's file. A flow mapping, such as JSON,
// becomes lines. What kubectl would read differently is quoted; if that does not help, it is an error.
func (d *document) encode(node *yaml.Node) (string, error) {
	written := node
	if root(node).Style&yaml.FlowStyle != 0 {
		written = restyled(node)
	}
	spellOut(written, false)
	for {
		text, err := d.print(written)
		if err != nil {
			return "", err
		}
		var read any
		unlike := []*yaml.Node{written}
		if err := kubectlReads([]byte(text), &read); err == nil {
			unlike = differences(written, read)
		}
		if len(unlike) == 0 {
			// The tree may have been restyled before it was written.
			if unlike = differences(node, read); len(unlike) > 0 {
				return "", d.ambiguous(unlike[0])
			}
			return text, nil
		}
		if !requote(unlike) {
			return "", d.ambiguous(unlike[0])
		}
	}
}

func (d *document) print(node *yaml.Node) (string, error) {
	style := yaml.SequenceIndentStyle(yaml.DeriveSeqIndentStyle(d.body))
	text, err := yaml.MarshalWithOptions(node, &yaml.EncoderOptions{SeqIndent: style})
	if err != nil {
		return "", d.errorAt(root(node).Line, "%v", err)
	}
	return strings.ReplaceAll(string(text), "\n", d.lineEnd()), nil
}

// requote changes multi-line texts to a more robust style, and reports whether there were any: folded ones become literal, so
// that people can still read them, and literal ones are quoted.
func requote(nodes []*yaml.Node) (changed bool) {
	for _, node := range nodes {
		switch {
		case node.Kind != yaml.ScalarNode:
			changed = requote(node.Content) || changed
		case node.Style&yaml.FoldedStyle != 0:
			node.Style = node.Style&^yaml.FoldedStyle | yaml.LiteralStyle
			changed = true
		case node.Style&(yaml.DoubleQuotedStyle|yaml.TaggedStyle) == 0 && strings.Contains(node.Value, "\n"):
			node.Style = yaml.DoubleQuotedStyle
			changed = true
		}
	}
	return changed
}

// spellOut writes out what would be read differently after encoding: omitted values within braces, and texts whose first
// non-empty line begins with a tab.
func spellOut(node *yaml.Node, within bool) {
	switch {
	case node.Kind != yaml.ScalarNode:
	case within && node.Tag == yaml.NodeTagNull && node.Value == "":
		node.Value = "null"
	case strings.Contains(node.Value, "\n") && strings.HasPrefix(strings.TrimLeft(node.Value, "\n"), "\t"):
		node.Style = node.Style&yaml.TaggedStyle | yaml.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		spellOut(child, within || node.Style&yaml.FlowStyle != 0)
	}
}

func (d *document) lineEnd() string {
	if strings.Contains(d.body, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// restyled returns a copy of a tree without the styles of its parts.
func restyled(node *yaml.Node) *yaml.Node {
	plain := *node
	plain.Style = 0
	plain.Content = make([]*yaml.Node, len(node.Content))
	for i, child := range node.Content {
		plain.Content[i] = restyled(child)
	}
	return quoted(&plain)
}

func endLine(text string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		return text + "\n"
	}
	return text
}

func write(documents []*document) ([]byte, error) {
	var out strings.Builder
	for _, d := range documents {
		text, err := d.text()
		if err != nil {
			return nil, err
		}
		if d.marker == "" && out.Len() > 0 && text != "" {
			out.WriteString("---\n")
		}
		out.WriteString(endLine(d.marker))
		out.WriteString(endLine(text))
		d.node, d.added = nil, nil
	}
	return []byte(out.String()), nil
}
