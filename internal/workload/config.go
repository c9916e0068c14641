package workload

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Config is the schema of the file that describes further kinds of workloads.
type Config struct {
	Workloads []ConfiguredKind `json:"workloads"`
}

// ConfiguredKind describes a kind of workload that confrev does not know by itself.
type ConfiguredKind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	// Template is the path of the pod template; "spec.template" if empty.
	Template string `json:"template"`
	// Holder is the kind of the objects that keep the workload's templates alive, as its controller creates them; each must have
	// the workload as its controller.
	Holder ConfiguredHolder `json:"holder"`
}

// ConfiguredHolder describes a kind of holder. Template is the path of its pod template, for kinds that confrev does not know.
type ConfiguredHolder struct {
	Group    string `json:"group"`
	Version  string `json:"version"`
	Kind     string `json:"kind"`
	Template string `json:"template"`
}

const defaultPath = "spec.template"

var (
	kindForm    = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	versionForm = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)
	pathForm    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*$`)
)

// ParseConfig reads a file of configured kinds. An unknown field is an error, and so is a kind that confrev knows by itself. The
// error joins one error for each faulty entry; ParseConfig returns the other kinds together with it.
func ParseConfig(data []byte) ([]Kind, error) {
	var config Config
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return nil, err
	}
	var kinds []Kind
	var problems []error
	for i, configured := range config.Workloads {
		kind := configured.kind()
		err := errors.Join(check(kind.GVK, kind.Path), check(kind.Holder.GVK, kind.Holder.Path))
		if err == nil && slices.ContainsFunc(slices.Concat(Standard(), kinds), func(k Kind) bool { return k.GVK.GroupKind() == kind.GVK.GroupKind() }) {
			err = fmt.Errorf("%s is already known", kind.GVK.GroupKind())
		}
		if err == nil && slices.ContainsFunc(kinds, func(k Kind) bool { return k.Holder.GVK == kind.Holder.GVK && k.Holder != kind.Holder }) {
			err = fmt.Errorf("holders of kind %s have their template at another path for another kind", kind.Holder.GVK.GroupKind())
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("workloads[%d]: %w", i, err))
			continue
		}
		kinds = append(kinds, kind)
	}
	return kinds, errors.Join(problems...)
}

func (c ConfiguredKind) kind() Kind {
	return Kind{
		GVK:  schema.GroupVersionKind{Group: c.Group, Version: c.Version, Kind: c.Kind},
		Path: orDefault(c.Template), Holder: c.Holder.kind(),
	}
}

// kind returns the holder's kind. For kinds that confrev knows, the path is known too.
func (c ConfiguredHolder) kind() HolderKind {
	gvk := schema.GroupVersionKind{Group: c.Group, Version: c.Version, Kind: c.Kind}
	if _, known := typed[gvk]; known {
		return HolderKind{GVK: gvk}
	}
	return HolderKind{GVK: gvk, Path: orDefault(c.Template)}
}

func orDefault(path string) string {
	if path == "" {
		return defaultPath
	}
	return path
}

func check(gvk schema.GroupVersionKind, path string) error {
	switch {
	case !kindForm.MatchString(gvk.Kind):
		return fmt.Errorf("kind %q is invalid: it must be in CamelCase, such as Deployment", gvk.Kind)
	case !versionForm.MatchString(gvk.Version):
		return fmt.Errorf("version %q of %s is invalid: it must be a version such as v1", gvk.Version, gvk.Kind)
	case path != "" && !pathForm.MatchString(path):
		return fmt.Errorf("template %q of %s is invalid: it must be a path such as spec.template", path, gvk.Kind)
	}
	return nil
}
