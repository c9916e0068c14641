package render_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubectlyaml "k8s.io/apimachinery/pkg/util/yaml"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/render"
)

// kubectlReads returns the objects that kubectl reads, those of lists one by one.
func kubectlReads(data []byte) ([]*unstructured.Unstructured, error) {
	decoder := kubectlyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		items, isList, _ := unstructured.NestedSlice(object.Object, "items")
		if !isList && len(object.Object) > 0 {
			objects = append(objects, object)
		}
		for _, item := range items {
			fields, _ := item.(map[string]any)
			objects = append(objects, &unstructured.Unstructured{Object: fields})
		}
	}
}

// errUnreadable says that kubectl would not apply what goes in either.
var errUnreadable = errors.New("kubectl cannot read it")

// changesNothingElse renders a stream and demands that kubectl reads the same before and after, apart from revisions, whose content must
// be their sources', and from references, which must lead to them.
func changesNothingElse(in []byte) (render.Output, error) {
	before, err := kubectlReads(in)
	if err != nil {
		return render.Output{}, errors.Join(errUnreadable, err)
	}
	out, err := render.Render([]render.File{{Name: "in.yaml", Data: in}}, render.Options{})
	if err != nil {
		return out, err
	}
	after, err := kubectlReads(out.Text)
	if err != nil {
		return out, fmt.Errorf("kubectl cannot read what was rendered: %w", err)
	}
	originals := map[string]string{}
	for _, made := range out.Revisions {
		originals[made.Revision] = made.Source.Name
	}
	contents := map[string]*unstructured.Unstructured{}
	rest := after[:0]
	for _, object := range after {
		if original := originals[object.GetName()]; original != "" {
			contents[original] = object
			continue
		}
		rest = append(rest, object)
	}
	if len(rest) != len(before) {
		return out, fmt.Errorf("%d objects became %d", len(before), len(rest))
	}
	for i, object := range before {
		if diff := cmp.Diff(object.Object, withoutRevisions(rest[i], originals)); diff != "" {
			return out, fmt.Errorf("%s was changed: %s", object.GetName(), diff)
		}
		if revision := contents[object.GetName()]; revision != nil {
			if diff := cmp.Diff(object.Object["data"], revision.Object["data"]); diff != "" {
				return out, fmt.Errorf("the content of %s is another in its revision: %s", object.GetName(), diff)
			}
		}
	}
	again, err := render.Render([]render.File{{Name: "in.yaml", Data: out.Text}}, render.Options{})
	if err == nil && !bytes.Equal(out.Text, again.Text) {
		err = errors.New(cmp.Diff(string(out.Text), string(again.Text)))
	}
	if err != nil {
		return out, fmt.Errorf("rendering again: %w", err)
	}
	return out, nil
}

// withoutRevisions returns a workload as it was before it was rendered.
func withoutRevisions(object *unstructured.Unstructured, originals map[string]string) map[string]any {
	if object.GetKind() != "Deployment" {
		return object.Object
	}
	text, err := json.Marshal(object.Object)
	if err != nil {
		panic(err)
	}
	for revision, original := range originals {
		text = bytes.ReplaceAll(text, []byte(`"`+revision+`"`), []byte(`"`+original+`"`))
	}
	var undone map[string]any
	if err := kubectlyaml.Unmarshal(text, &undone); err != nil {
		panic(err)
	}
	unstructured.RemoveNestedField(undone, "metadata", "annotations", "confrev.io/mode")
	if annotations, _, _ := unstructured.NestedMap(undone, "metadata", "annotations"); len(annotations) == 0 {
		unstructured.RemoveNestedField(undone, "metadata", "annotations")
	}
	return undone
}

const (
	script     = ">\n    if test -f /x; then\n      cat /x\n    fi\n"
	configHead = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n"
	envFrom    = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    spec:\n      containers:\n      - name: web\n        envFrom: [{configMapRef: {name: app}}]\n"
)

// What kubectl reads is what counts, however it is written.
func TestWhatKubectlReadsStays(t *testing.T) {
	tests := map[string]string{
		"a folded text with more-indented lines, in a source":     envFrom + "---\n" + configHead + "data:\n  run: " + script,
		"the same without an end of line":                         envFrom + "---\n" + configHead + "data:\n  run: >-\n    a\n      b\n    c\n",
		"the same with all of them":                               envFrom + "---\n" + configHead + "data:\n  run: >+\n    a\n      b\n    c\n\n\n  x: z\n",
		"trailing blanks in a folded text":                        envFrom + "---\n" + configHead + "data:\n  run: >\n    a  \n    b \n\n    c\n",
		"a folded text with more-indented lines, in a workload":   envFrom + "        args:\n        - >\n          if test -f /x; then\n            cat /x\n          fi\n---\n" + configHead + "data: {a: b}\n",
		"a folded text of an object that nothing refers to":       "kind: List\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: other}\n  data:\n    run: >\n      a\n        b\n      c\n" + "- {apiVersion: v1, kind: ConfigMap, metadata: {name: app}, data: {a: b}}\n- {apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: {containers: [{name: web, envFrom: [{configMapRef: {name: app}}]}]}}}}\n",
		"a text that begins with a tab, in JSON":                  `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app"},"data":{"Makefile":"\tgo build\n"}}` + "\n---\n" + envFrom,
		"a text that begins with a tab, in JSON alone":            `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app"},"data":{"Makefile":"\tgo build\n\tgo vet\n"}}`,
		"a text that begins with a tab, in a flow mapping":        "# as YAML\n" + `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app"},"data":{"Makefile":"\tgo build\n"}}` + "\n---\n" + envFrom,
		"a text that begins with a blank line and a tab, in JSON": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app"},"data":{"a":"\n\t\n  b\n","b":" \n\tc","c":"\n\n"}}`,
		"a merge key behind a key that it has too":                envFrom + "---\nx-a: &a {k: merged, l: merged}\n" + configHead + "data: {k: explicit, <<: *a}\n",
		"a merge key before it":                                   envFrom + "---\nx-a: &a {k: merged, l: merged}\n" + configHead + "data: {<<: *a, k: explicit}\n",
		"a merge key behind an image":                             "x-a: &a {image: merged}\n" + envFrom + "        image: explicit\n        <<: *a\n---\n" + configHead + "data: {a: b}\n",
		"several to merge":                                        envFrom + "---\nx-a: &a {k: a, l: a}\nx-b: &b {k: b, m: b}\n" + configHead + "data: {m: explicit, <<: [*a, *b], l: explicit}\n",
		"a merge of merges":                                       envFrom + "---\nx-a: &a {k: a, l: a}\nx-c: &c {<<: *a, k: c}\n" + configHead + "data: {<<: *c}\n",
		"several merge keys":                                      envFrom + "---\nx-a: &a {k: a}\nx-b: &b {k: b}\n" + configHead + "data:\n  <<: *a\n  <<: *b\n",
		"a merge key in quotes is a key":                          envFrom + "---\nx-a: &a {k: a}\n" + configHead + "data: {'<<': x, <<: *a}\n",
		"objects in JSON between lines ---":                       `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other"}}` + "\n---\n" + `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app"},"data":{"k":"a"}}` + "\n---\n" + envFrom,
		"a literal text at the end, and no end of line":           envFrom + "---\n" + configHead + "data:\n  a: |\n    foo",
		"a folded text at the end, and no end of line":            envFrom + "---\n" + configHead + "data:\n  a: >\n    foo",
		"a literal text to be kept, and no end of line":           envFrom + "---\n" + configHead + "data:\n  a: |+\n    foo\n    ",
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := changesNothingElse([]byte(in))
			if err != nil {
				t.Fatalf("%v\n%s", err, out.Text)
			}
			if strings.Contains(in, "Deployment") && len(out.Revisions) != 1 {
				t.Errorf("%d revisions", len(out.Revisions))
			}
			if strings.Contains(string(out.Text), "!!merge") {
				t.Errorf("a merge key stayed in what was changed:\n%s", out.Text)
			}
		})
	}
}

// blockText draws a scalar as a user writes it, within 4 blanks.
var blockText = rapid.Custom(func(t *rapid.T) string {
	style := rapid.SampledFrom([]string{">", ">-", ">+", "|", "|-", "|+", ">2", "|2+", `"`, "'", ""}).Draw(t, "style")
	line := rapid.SampledFrom([]string{"a", "  more", "\ttab", "b  ", "c\t", "", "  ", "# no comment", "- x", "k: v", "\\t", "yes", "1e3"})
	lines := rapid.SliceOfN(line, 1, 5).Draw(t, "lines")
	if style == `"` || style == "'" || style == "" {
		return style + strings.Join(lines, "\n    ") + style
	}
	return style + "\n    " + strings.Join(lines, "\n    ")
})

// jsonText draws a string in JSON.
var jsonText = rapid.Custom(func(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", " ", "\t", "\n", "\r", "yes", ": ", "# ", "😀", "\u2028", "\u0085", "\ufeff", "'", "\"", "\\", "-", "0x1"}), 0, 8).Draw(t, "parts")
	text, err := json.Marshal(strings.Join(parts, ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
})

// drawData draws the data of a ConfigMap, with merge keys between the other keys.
func drawData(t *rapid.T) string {
	var text strings.Builder
	for _, part := range rapid.SliceOfN(rapid.SampledFrom([]string{"k", "l", "m", "<<: *one", "<<: *two", "<<: [*one, *two]", "j: *text"}), 0, 5).Draw(t, "entries") {
		if len(part) == 1 {
			part += ": " + rapid.OneOf(blockText, jsonText).Draw(t, "value")
		}
		text.WriteString("  " + part + "\n")
	}
	return text.String()
}

// refusals are the errors of what the API server would not take either, or might take in two ways.
var refusals = regexp.MustCompile(`^in\.yaml:\d+: \S+: (key "." is defined twice|spec\.template is not a pod template: .*|json: cannot unmarshal .*)$`)

// Whatever style values are written in and wherever merge keys are: kubectl reads the same.
func TestScalarStylesAndMergeKeys(t *testing.T) {
	rendered := 0
	rapid.Check(t, func(t *rapid.T) {
		anchors := "x-one: &one {k: one, l: &text one}\nx-two: &two {<<: *one, k: two, m: two}\n"
		in := anchors + configHead + "data:\n" + drawData(t)
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 1:
			in = "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(in, "\n", "\n  ") + "\n- " + strings.ReplaceAll(envFrom, "\n", "\n  ")
		case 2:
			in = fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app"},"data":{"k":%s,"l":%s}}`, jsonText.Draw(t, "k"), jsonText.Draw(t, "l"))
		}
		if !strings.Contains(in, "Deployment") {
			in = envFrom + "        args:\n        - " + strings.ReplaceAll(rapid.OneOf(blockText, jsonText).Draw(t, "argument"), "\n", "\n        ") + "\n---\n" + in
		}
		if rapid.Bool().Draw(t, "no end of line") {
			in = strings.TrimSuffix(in, "\n")
		}
		out, err := changesNothingElse([]byte(in))
		if len(out.Revisions) > 0 {
			rendered++
		}
		if err != nil && !errors.Is(err, errUnreadable) && !refusals.MatchString(err.Error()) {
			t.Fatalf("%v\n%s\nbecame\n%s", err, in, out.Text)
		}
	})
	if rendered == 0 {
		t.Error("nothing was rendered")
	}
}

// kubectl reads the second one as YAML, and refuses the escapes; confrev knows what is meant.
func TestJSONBetweenYAML(t *testing.T) {
	const smile = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app"},"data":{"k":"\ud83d\ude00"}}` + "\n"
	tests := map[string]string{
		"behind YAML":          envFrom + "---\n" + smile,
		"before YAML":          smile + "---\n" + envFrom,
		"behind JSON":          `{"kind":"Other"}` + "\n---\n" + smile + "---\n" + envFrom,
		"two in one document":  envFrom + "---\n" + smile + `{"kind":"Other"}` + "\n",
		"on the line with ---": envFrom + "--- " + smile,
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := render.Render([]render.File{{Name: "in.yaml", Data: []byte(in)}}, render.Options{})
			if err != nil || len(out.Revisions) != 1 {
				t.Fatalf("%d revisions, %v", len(out.Revisions), err)
			}
			objects, err := kubectlReads(out.Text)
			if err != nil {
				t.Fatalf("%v\n%s", err, out.Text)
			}
			for _, object := range objects {
				if value, _, _ := unstructured.NestedString(object.Object, "data", "k"); object.GetKind() == "ConfigMap" && value != "😀" {
					t.Errorf("%s has %q", object.GetName(), value)
				}
			}
			if again := rendered(t, out.Text, render.Options{}); !bytes.Equal(out.Text, again) {
				t.Error("rendering again:", cmp.Diff(string(out.Text), string(again)))
			}
		})
	}
}
