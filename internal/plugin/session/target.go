package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/operator"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/internal/workload"
)

// Target is the one workload that a verb is about.
type Target struct {
	Kind   workload.Kind
	Object client.Object
	// Installation has the options to plan with.
	Installation installation.Installation
}

// String returns the form that kubectl takes: "deployment/web".
func (t Target) String() string { return t.Kind.Resource() + "/" + t.Object.GetName() }

// Namespaced returns what ends each command that is proposed: " -n shop". It may be pasted where another namespace is the default.
func (t Target) Namespaced() string { return Namespaced(t.Object.GetNamespace()) }

// Namespaced returns the flag of a namespace, with a space before it.
func Namespaced(namespace string) string { return " -n " + namespace }

// FindTarget reads a workload. One that has its template in another workload leads there.
func (p *Session) FindTarget(ctx context.Context, c *Connection, name string) (Target, error) {
	found, err := p.FindNamed(ctx, c, name)
	if err != nil {
		return Target{}, err
	}
	named, referred, refers := found.Kind.WorkloadRef(found.Object)
	if !refers {
		return found, nil
	}
	if slices.ContainsFunc(found.Installation.Kinds(), func(k workload.Kind) bool { return k.GVK.GroupKind() == named }) {
		return read(ctx, c, found.Object.GetNamespace(), view.Object{GroupKind: named, Name: referred}, found.Installation)
	}
	return Target{}, fmt.Errorf("the pod template of %s is in %s %s, which is not a kind of workload that confrev handles", found, named, referred)
}

// FindNamed reads the workload that is named, as the kind that the installation handles it by: the API server may prefer another version.
func (p *Session) FindNamed(ctx context.Context, c *Connection, name string) (Target, error) {
	objects, err := p.Objects([]string{name})
	if err != nil {
		return Target{}, err
	}
	installed, err := installation.Find(ctx, c, p.ControllerNamespace, c.Namespace)
	if err != nil {
		return Target{}, err
	}
	return read(ctx, c, c.Namespace, objects[0], installed)
}

func read(ctx context.Context, c client.Reader, namespace string, named view.Object, installed installation.Installation) (Target, error) {
	for _, kind := range installed.Kinds() {
		if kind.GVK.GroupKind() == named.GroupKind {
			obj := kind.New()
			return Target{kind, obj, installed}, c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: named.Name}, obj)
		}
	}
	if installed.Problem != nil {
		return Target{}, installed.Problem
	}
	return Target{}, fmt.Errorf("%s/%s is not a workload that confrev handles: it handles %s",
		strings.ToLower(named.Kind), named.Name, plurals(installed.Kinds()))
}

func plurals(kinds []workload.Kind) string {
	var names []string
	for _, kind := range kinds {
		names = append(names, kind.GVK.Kind+"s")
	}
	return strings.Join(names, ", ")
}

// Assess plans for one workload as the controller would, asking the API server for no more than that needs.
func (t Target) Assess(ctx context.Context, c *Connection) (*view.Planner, rollout.Assessment, error) {
	kinds := []workload.Kind{t.Kind}
	for _, kind := range workload.Standard() {
		if kind.Refers && kind != t.Kind {
			kinds = append(kinds, kind)
		}
	}
	options := t.options()
	planner, err := view.NewPlannerOf(ctx, c, options, t.Object.GetNamespace(), kinds)
	if apierrors.IsForbidden(err) && len(kinds) > 1 {
		// Those who may not see the kinds that refer to workloads have no objects of them that have their template in this one.
		planner, err = view.NewPlannerOf(ctx, c, options, t.Object.GetNamespace(), kinds[:1])
	}
	if err != nil {
		return nil, rollout.Assessment{}, err
	}
	obj := planner.Workload(t.Kind, client.ObjectKeyFromObject(t.Object))
	if obj == nil {
		obj = t.Object
	}
	look, err := planner.Assess(ctx, t.Kind, obj)
	return planner, look, err
}

// options returns the controller's options, and what the workload shows of them: whether it handles Secrets, and where it injects.
func (t Target) options() operator.Options {
	options := t.Installation.Options
	pins, _ := t.Kind.Pins(t.Object)
	if t.Installation.Deployment == nil {
		options.Secrets = false
	}
	for source := range pins {
		options.Secrets = options.Secrets || source.Kind == pin.Secret
	}
	template, err := t.Kind.Template(t.Object)
	if err == nil && podspec.Original(&template.Spec, pins) != &template.Spec {
		options.Injection = optin.Template
	}
	return options
}

// Config returns what a workload asks for, by its own annotations and labels and those of its namespace. A namespace that may not be read says nothing.
func (t Target) Config(ctx context.Context, c client.Reader) (optin.Config, error) {
	namespace := index.Namespace()
	if !t.Installation.Options.Namespaced() {
		err := c.Get(ctx, client.ObjectKey{Name: t.Object.GetNamespace()}, namespace)
		if err != nil && !apierrors.IsForbidden(err) {
			return optin.Config{}, err
		}
	}
	return t.Kind.Config(t.Object, namespace, optin.Defaults{Compat: t.Installation.Options.Compat}), nil
}
