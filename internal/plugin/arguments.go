package plugin

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/view"
)

// parseArguments reads objects as kubectl takes them: deployment/web deploy/api, deploy web api, or deployments,statefulsets.
func parseArguments(mapper meta.RESTMapper, args []string) ([]view.Object, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if strings.Contains(args[0], "/") {
		return parseSlashed(mapper, args)
	}
	var all []view.Object
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
			all = append(all, view.Object{GroupKind: found.GroupKind, Resource: found.Resource, Name: name})
		}
	}
	return all, nil
}

func parseSlashed(mapper meta.RESTMapper, args []string) ([]view.Object, error) {
	var all []view.Object
	for _, arg := range args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok || name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("%q is no TYPE/NAME, such as deployment/web", arg)
		}
		found, err := parseKind(mapper, kind)
		if err != nil {
			return nil, err
		}
		found.Name = name
		all = append(all, found)
	}
	return all, nil
}

// parseKind reads a kind as kubectl takes it: deploy, deployments, deployment.apps, deployments.v1.apps.
func parseKind(mapper meta.RESTMapper, text string) (view.Object, error) {
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
		return view.Object{}, fmt.Errorf("the server doesn't have a resource type %q", text)
	}
	if err != nil {
		return view.Object{}, err
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return view.Object{}, err
	}
	return view.Object{GroupKind: gvk.GroupKind(), Resource: mapping.Resource.GroupResource()}, nil
}
