package render

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/kustomize/kyaml/utils"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// Reference is a field that names a source.
type Reference struct {
	Kind pin.Kind
	// Of selects the objects that have the field, by their kind. An empty field of it selects anything.
	Of resid.Gvk
	// Path is the path of the field, through all items of lists.
	Path []string
}

// nameReferences is the part of kustomize's transformer configuration that says which fields contain names. Its other parts are
// ignored.
type nameReferences struct {
	NameReference []struct {
		resid.Gvk
		FieldSpecs []struct {
			resid.Gvk
			Path string `json:"path"`
			// Create has no effect on names, but kustomize's own configuration contains it.
			Create bool `json:"create"`
		} `json:"fieldSpecs"`
	} `json:"nameReference"`
}

// ParseReferences reads the field nameReference of a file in kustomize's format. Fields that name objects other than sources are
// ignored.
func ParseReferences(data []byte) ([]Reference, error) {
	var config nameReferences
	if err := sigsyaml.Unmarshal(data, &config); err != nil {
		return nil, err
	}
	if len(config.NameReference) == 0 {
		return nil, errors.New("it has no nameReference")
	}
	return config.references()
}

func (c nameReferences) references() ([]Reference, error) {
	var references []Reference
	for i, target := range c.NameReference {
		kind := pin.Kind(strings.ToLower(target.Kind))
		if target.Group != "" || kind != pin.ConfigMap && kind != pin.Secret {
			continue
		}
		for j, field := range target.FieldSpecs {
			if field.Path == "" {
				return nil, fmt.Errorf("nameReference[%d].fieldSpecs[%d]: it has no path", i, j)
			}
			references = append(references, Reference{kind, field.Gvk, utils.PathSplitter(field.Path, "/")})
		}
	}
	return references, nil
}

// references makes the configured fields of an object name revisions.
func (r *renderer) references(o *object) error {
	kind := resid.Gvk{Group: o.gvk.Group, Version: o.gvk.Version, Kind: o.gvk.Kind}
	for _, reference := range r.References {
		if !kind.IsSelected(&reference.Of) {
			continue
		}
		for _, name := range fields(o.node, reference.Path) {
			if err := r.renameReference(o, pin.Source{Kind: reference.Kind, Name: name.Value}, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *renderer) renameReference(o *object, named pin.Source, name *yaml.Node) error {
	values, err := o.values()
	if err != nil || isLeftAlone(o, values) {
		return err
	}
	uses, err := r.selectUses(o, values, []podspec.Use{{Source: named, All: true}})
	if err != nil || len(uses) == 0 {
		return err
	}
	revision, err := r.revisionOf(r.sources[place{named, o.namespace}])
	if err != nil {
		return err
	}
	revision.live = true
	o.rename(name, revision.name)
	return nil
}

// fields returns the scalars at a path, through all items of lists. (kustomize's fieldspec filter is not used: see
// docs/design/architecture.md.)
func fields(node *yaml.Node, path []string) []*yaml.Node {
	var found []*yaml.Node
	switch {
	case node == nil:
	case node.Kind == yaml.SequenceNode:
		for _, item := range node.Content {
			found = append(found, fields(item, path)...)
		}
	case len(path) > 0:
		found = fields(child(node, strings.TrimSuffix(path[0], "[]")), path[1:])
	case node.Kind == yaml.ScalarNode:
		found = []*yaml.Node{node}
	}
	return found
}
