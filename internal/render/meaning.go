package render

import (
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// differences returns the parts of a tree that kubectl reads differently; value is what it reads for the whole tree. There are
// two parsers, the one that keeps comments and kubectl's, and the result of the first one counts only if the second one agrees.
func differences(node *yaml.Node, value any) []*yaml.Node {
	switch node.Kind {
	case yaml.DocumentNode:
		return differences(root(node), value)
	case yaml.MappingNode:
		return mappingDifferences(node, value)
	case yaml.SequenceNode:
		items, is := value.([]any)
		if !is || len(items) != len(node.Content) {
			return []*yaml.Node{node}
		}
		var found []*yaml.Node
		for i, item := range node.Content {
			found = append(found, differences(item, items[i])...)
		}
		return found
	}
	if read, err := scalarValue(node); err != nil || !sameScalar(read, value) {
		return []*yaml.Node{node}
	}
	return nil
}

// mappingDifferences compares from the end, since the last one of repeated keys counts.
func mappingDifferences(node *yaml.Node, value any) []*yaml.Node {
	fields, is := value.(map[string]any)
	if !is {
		return []*yaml.Node{node}
	}
	var found []*yaml.Node
	seen := make(map[string]bool, len(fields))
	for i := len(node.Content) - 2; i >= 0; i -= 2 {
		key, err := keyText(node.Content[i])
		field, is := fields[key]
		if err != nil || !is {
			return []*yaml.Node{node.Content[i]}
		}
		if !seen[key] {
			seen[key] = true
			found = append(found, differences(node.Content[i+1], field)...)
		}
	}
	if len(seen) != len(fields) {
		return []*yaml.Node{node}
	}
	return found
}

// sameScalar compares numbers by value, because JSON distinguishes 1e3 from 1000 and YAML does not.
func sameScalar(a, b any) bool {
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b || number(a) != nil && number(b) != nil && *number(a) == *number(b)
}

func number(value any) *float64 {
	switch v := value.(type) {
	case float64:
		return &v
	case int64:
		f := float64(v)
		return &f
	}
	return nil
}

// textStyles are the styles of scalars that are always strings.
var textStyles = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// scalarValue returns how kubectl's parser reads a scalar: YAML 1.1 has other booleans and numbers than the tree's parser knows.
func scalarValue(node *yaml.Node) (any, error) {
	plain, tag := node.Style&(textStyles|yaml.TaggedStyle) == 0, node.ShortTag()
	switch {
	case node.Style&yaml.TaggedStyle == 0 && !plain && tag == yaml.NodeTagString, plain && looksLikeText(node.Value):
		return node.Value, nil
	case plain && (node.Value == "true" || node.Value == "false"):
		return node.Value == "true", nil
	}
	bare := *node
	bare.HeadComment, bare.LineComment, bare.FootComment = "", "", ""
	text, err := yaml.Marshal(&yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{&bare}})
	if err != nil {
		return nil, err
	}
	var values []any
	if err := kubectlReads(text, &values); err != nil || len(values) != 1 {
		return nil, err
	}
	return values[0], nil
}

// looksLikeText reports whether an unquoted scalar can only be a string in YAML 1.1. Others may be strings too, but finding out
// is slower.
func looksLikeText(value string) bool {
	switch strings.ToLower(value) {
	case "", "y", "yes", "n", "no", "true", "false", "on", "off", "null":
		return false
	}
	return !strings.ContainsRune("+-.0123456789~<=", rune(value[0])) || strings.Contains(value, "\n")
}

// isWord reports whether a text never needs quotes. Others may not need them either.
func isWord(text string) bool {
	for i := range len(text) {
		if !isLetter(text[i]) && (text[i] < '-' || text[i] > '9') && text[i] != '_' {
			return false
		}
	}
	return looksLikeText(text)
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// keyText returns how kubectl reads a mapping's key, which may be a number.
func keyText(node *yaml.Node) (string, error) {
	value, err := scalarValue(node)
	if text, is := value.(string); is || err != nil {
		return text, err
	}
	if whole, is := value.(int64); is {
		return strconv.FormatInt(whole, 10), nil
	}
	var fields map[string]any
	if err := kubectlReads([]byte("? "+node.Value+"\n: x\n"), &fields); err != nil {
		return "", err
	}
	for key := range fields {
		return key, nil
	}
	return "", nil
}

// kubectlReads reads a document as kubectl does.
func kubectlReads(text []byte, into any) error {
	translated, err := sigsyaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(translated, into)
}

// resolve returns a tree without aliases and merge keys, as kubectl's parser reads it. The order of a mapping's keys counts: a
// merge key overrides those before it and is overridden by those after it.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		named := yaml.CopyYNode(node.Alias)
		if node.HeadComment+node.LineComment+node.FootComment != "" {
			named.HeadComment, named.LineComment, named.FootComment = node.HeadComment, node.LineComment, node.FootComment
		}
		return resolve(named)
	}
	node.Anchor = ""
	for i, part := range node.Content {
		node.Content[i] = resolve(part)
	}
	if isMapping(node) && slices.ContainsFunc(node.Content, func(part *yaml.Node) bool { return part.Tag == yaml.MergeTag }) {
		resolveMerges(node)
	}
	return node
}

func resolveMerges(mapping *yaml.Node) {
	entries := mapping.Content
	mapping.Content = make([]*yaml.Node, 0, len(entries))
	merged := map[string]bool{}
	for i := 0; i+1 < len(entries); i += 2 {
		key, value := entries[i], entries[i+1]
		at := position(mapping, key.Value)
		switch {
		case key.Tag == yaml.MergeTag:
			merge(mapping, value, merged)
		case at >= 0 && merged[key.Value]:
			mapping.Content[at-1], mapping.Content[at] = key, value
			merged[key.Value] = false
		default:
			// A repeated key stays. It is an error in an object that matters.
			mapping.Content = append(mapping.Content, key, value)
		}
	}
}

// merge adds to a mapping what the value of a merge key has: one mapping, or several, of which earlier ones take precedence.
func merge(into, value *yaml.Node, merged map[string]bool) {
	if value.Kind == yaml.SequenceNode {
		for _, mapping := range slices.Backward(value.Content) {
			merge(into, mapping, merged)
		}
		return
	}
	for i := 0; i+1 < len(value.Content); i += 2 {
		key, field := value.Content[i], value.Content[i+1]
		merged[key.Value] = true
		if at := position(into, key.Value); at >= 0 {
			into.Content[at] = field
			continue
		}
		into.Content = append(into.Content, key, field)
	}
}
