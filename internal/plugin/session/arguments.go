package session

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/view"
)

// ParseObjects reads objects as kubectl takes them: deployment/web deploy/api, deploy web api, or deployments,statefulsets.
func ParseObjects(mapper meta.RESTMapper, args []string) ([]view.Object, error) {
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
			return nil, fmt.Errorf("%q is not a TYPE/NAME, such as deployment/web", arg)
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

// NeedsObjects demands that objects are named.
func NeedsObjects(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no object given: kubectl confrev %s; see --help", cmd.Use)
	}
	return nil
}

// Objects reads the objects of a verb that needs names.
func (p *Session) Objects(args []string) ([]view.Object, error) {
	mapper, err := p.Factory.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	all, err := ParseObjects(mapper, args)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(o view.Object) bool { return o.Name == "" }) {
		return nil, errors.New("a name is missing: write TYPE/NAME, such as configmap/app")
	}
	return all, nil
}

// SplitArgs separates the workload from what follows it. Like kubectl, it takes both TYPE/NAME and TYPE NAME.
func SplitArgs(args []string) (workload string, rest []string, err error) {
	switch {
	case len(args) == 0:
		return "", nil, fmt.Errorf("no workload given; name one, such as deployment/web")
	case strings.Contains(args[0], "/"):
		return args[0], args[1:], nil
	case len(args) == 1 || strings.Contains(args[1], "/"):
		return "", nil, fmt.Errorf("%q is not a workload: want TYPE/NAME, such as deployment/%s", args[0], args[0])
	}
	return args[0] + "/" + args[1], args[2:], nil
}

// ParseSource reads the name of a source as kubectl takes it: configmap/app, cm/app, secrets/db.
func ParseSource(text string) (pin.Source, error) {
	kind, name, _ := strings.Cut(text, "/")
	switch strings.ToLower(kind) {
	case "cm", "configmap", "configmaps":
		kind = string(pin.ConfigMap)
	case "secret", "secrets":
		kind = string(pin.Secret)
	}
	return pin.ParseSource(kind + "/" + name)
}

// ParseSources reads sources written as TYPE/NAME.
func ParseSources(texts []string) ([]pin.Source, error) {
	var sources []pin.Source
	for _, text := range texts {
		source, err := ParseSource(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	return sources, nil
}

// Numbered finds a revision by its number. Two writers may have given it to two contents (rule 5).
func Numbered(source pin.Source, revisions []plan.Revision, number int64) (pin.Pin, error) {
	var found []string
	for _, r := range revisions {
		if r.Number == number {
			found = append(found, r.Name)
		}
	}
	switch len(found) {
	case 0:
		return pin.Pin{}, fmt.Errorf("%s has no revision %d: there is %s", source, number, Numbers(revisions))
	case 1:
		return pin.Pin{Revision: found[0], Number: number}, nil
	}
	slices.Sort(found)
	return pin.Pin{}, fmt.Errorf("%s has several revisions %d: %s", source, number, strings.Join(found, ", "))
}

// Numbers lists the numbers of revisions.
func Numbers(revisions []plan.Revision) string {
	if len(revisions) == 0 {
		return "none"
	}
	var numbers []int64
	for _, r := range revisions {
		numbers = append(numbers, r.Number)
	}
	slices.Sort(numbers)
	var texts []string
	for _, number := range slices.Compact(numbers) {
		texts = append(texts, strconv.FormatInt(number, 10))
	}
	return strings.Join(texts, ", ")
}
