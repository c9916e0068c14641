package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"confrev.io/confrev/internal/workload"
)

// config is the schema of the options in YAML.
type config struct {
	Mode      Mode     `json:"mode"`
	Namespace string   `json:"namespace"`
	KeepFor   []string `json:"keepFor"`
	workload.Config
	nameReferences
}

// ParseOptions reads options in YAML. An unknown field is an error.
func ParseOptions(data []byte) (options Options, err error) {
	var config config
	if err := sigsyaml.UnmarshalStrict(data, &config); err != nil {
		return Options{}, err
	}
	options.Namespace = config.Namespace
	if config.Mode != "" {
		if options.Mode, err = ParseMode(string(config.Mode)); err != nil {
			return Options{}, err
		}
	}
	if options.Keep, err = ParseTools(config.KeepFor); err != nil {
		return Options{}, err
	}
	workloads, err := json.Marshal(config.Config)
	if err != nil {
		return Options{}, err
	}
	if options.Kinds, err = workload.ParseConfig(workloads); err != nil {
		return Options{}, err
	}
	options.References, err = config.references()
	return options, err
}

// overriddenBy returns the options with those that first sets in their place. Lists of both are joined.
func (o Options) overriddenBy(first Options) Options {
	return Options{
		Mode: cmp.Or(first.Mode, o.Mode), Namespace: cmp.Or(first.Namespace, o.Namespace), Kinds: slices.Concat(o.Kinds, first.Kinds),
		References: slices.Concat(o.References, first.References), Keep: slices.Concat(o.Keep, first.Keep),
	}
}

// functionKind is the kind of a functionConfig whose spec contains the options.
const functionKind = "Render"

// resourceList returns the stream's document if it is the input of a function (KRM Functions Specification v1), or nil.
func resourceList(documents []*document) *document {
	var list *document
	for _, d := range documents {
		if d.node == nil {
			continue
		}
		group, _, _ := strings.Cut(text(root(d.node), "apiVersion"), "/")
		if list != nil || group != "config.kubernetes.io" || text(root(d.node), "kind") != "ResourceList" {
			return nil
		}
		list = d
	}
	return list
}

// configure reads options from a ResourceList, if there is one with options.
func (r *renderer) configure(list *document) error {
	if list == nil {
		return nil
	}
	values, err := list.values()
	if err != nil || values["functionConfig"] == nil {
		return err
	}
	function := &unstructured.Unstructured{}
	function.Object, _ = values["functionConfig"].(map[string]any)
	options, err := functionOptions(function)
	if err != nil {
		return list.errorAt(child(root(list.node), "functionConfig").Line, "functionConfig: %v", err)
	}
	r.Options = r.overriddenBy(options)
	return nil
}

// functionOptions reads a functionConfig. kpt passes a function's arguments as a ConfigMap, even if there are none.
func functionOptions(function *unstructured.Unstructured) (Options, error) {
	var spec any
	switch kind := function.GetKind(); kind {
	case functionKind:
		spec = function.Object["spec"]
	case "ConfigMap":
		var err error
		if spec, err = fromTexts(function.Object["data"]); err != nil {
			return Options{}, err
		}
	default:
		return Options{}, fmt.Errorf("kind %q: want %s or ConfigMap", kind, functionKind)
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return Options{}, err
	}
	return ParseOptions(data)
}

// fromTexts converts texts to options: plain words stay as they are, tools are separated by commas, and anything else is YAML.
func fromTexts(data any) (map[string]any, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	var texts map[string]string
	if err := json.Unmarshal(text, &texts); err != nil {
		return nil, err
	}
	options := map[string]any{}
	for key, text := range texts {
		var value any = text
		switch key {
		case "keepFor":
			value = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
		case "workloads", "nameReference":
			if err := sigsyaml.Unmarshal([]byte(text), &value); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
		options[key] = value
	}
	return options, nil
}

// result is a message of a function. Severities are info, warning and error.
type result struct{ severity, message string }

func (r *renderer) results() []result {
	var results []result
	for _, made := range r.made() {
		results = append(results, result{"info", fmt.Sprintf("%s is %s", made.Source, made.Revision)})
	}
	for _, warning := range r.warnings {
		results = append(results, result{"warning", fmt.Sprintf("%s: %s", warning.object, warning.note)})
	}
	return results
}

// report adds results to a ResourceList, if there is one.
func report(list *document, results []result) {
	if list == nil || len(results) == 0 {
		return
	}
	sequence := &yaml.Node{Kind: yaml.SequenceNode, Tag: yaml.NodeTagSeq}
	for _, result := range results {
		item := &yaml.Node{Kind: yaml.MappingNode, Tag: yaml.NodeTagMap}
		put(item, "message", stringNode(result.message))
		put(item, "severity", stringNode(result.severity))
		sequence.Content = append(sequence.Content, item)
	}
	put(root(list.node), "results", sequence)
	list.changed = true
}

// failureList returns a ResourceList as it was, with a result that describes the error, because kpt shows results.
func failureList(list *document, why error) []byte {
	if list == nil {
		return nil
	}
	again, err := parse(File{Name: list.file, Data: []byte(list.body)})
	if err != nil {
		return nil
	}
	report(resourceList(again), []result{{"error", why.Error()}})
	text, err := write(again)
	if err != nil {
		return nil
	}
	return text
}
