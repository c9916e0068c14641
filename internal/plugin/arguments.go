package plugin

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
)

// argument is an object that the user named, or all of a kind when the name is empty.
type argument struct {
	schema.GroupKind
	// resource is the kind as messages of the API server have it: deployments.apps.
	resource schema.GroupResource
	name     string
}

// parseArguments reads objects as kubectl takes them: deployment/web deploy/api, deploy web api, or deployments,statefulsets.
func parseArguments(mapper meta.RESTMapper, args []string) ([]argument, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if strings.Contains(args[0], "/") {
		return parseSlashed(mapper, args)
	}
	var all []argument
	for kind := range strings.SplitSeq(args[0], ",") {
		found, err := parseKind(mapper, kind)
		if err != nil {
			return nil, err
		}
		names := args[1:]
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			if strings.Contains(name, "/") {
				return nil, fmt.Errorf("there is no need to name a resource type again: write %s, or %s %s", name, args[0], "NAME")
			}
			all = append(all, argument{found.GroupKind, found.resource, name})
		}
	}
	return all, nil
}

func parseSlashed(mapper meta.RESTMapper, args []string) ([]argument, error) {
	var all []argument
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok || name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%q is no TYPE/NAME, such as deployment/web", arg)
		}
		found, err := parseKind(mapper, kind)
		if err != nil {
			return nil, err
		}
		found.name = name
		all = append(all, found)
	}
	return all, nil
}

// parseKind reads a kind as kubectl takes it: deploy, deployments, deployment.apps, deployments.v1.apps.
func parseKind(mapper meta.RESTMapper, text string) (argument, error) {
	full, short := schema.ParseResourceArg(strings.ToLower(text))
	gvk := schema.GroupVersionKind{}
	err := error(&meta.NoResourceMatchError{})
	if full != nil {
		gvk, err = mapper.KindFor(*full)
	}
	if err != nil {
		gvk, err = mapper.KindFor(short.WithVersion(""))
	}
	if meta.IsNoMatchError(err) {
		return argument{}, fmt.Errorf("the server doesn't have a resource type %q", text)
	}
	if err != nil {
		return argument{}, err
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return argument{}, err
	}
	return argument{GroupKind: gvk.GroupKind(), resource: mapping.Resource.GroupResource()}, nil
}

// source gives the source that an argument names, if it is one.
func (a argument) source() (pin.Source, bool) {
	i := slices.IndexFunc(pin.Kinds, func(kind pin.Kind) bool { return revision.GVK(kind).GroupKind() == a.GroupKind })
	if i < 0 {
		return pin.Source{}, false
	}
	return pin.Source{Kind: pin.Kinds[i], Name: a.name}, true
}
