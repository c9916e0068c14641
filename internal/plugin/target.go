package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/controller"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/internal/workload"
)

// target is the one workload that a verb is about.
type target struct {
	kind workload.Kind
	obj  client.Object
	// installation has the options to plan with.
	installation view.Installation
}

// String gives the form that kubectl takes: "deployment/web".
func (t target) String() string { return t.kind.Resource() + "/" + t.obj.GetName() }

// splitArgs tells the workload from what follows it. Like kubectl, it takes both TYPE/NAME and TYPE NAME.
func splitArgs(args []string) (workload string, rest []string, err error) {
	switch {
	case len(args) == 0:
		return "", nil, fmt.Errorf("which workload? Name one, such as deployment/web")
	case strings.Contains(args[0], "/"):
		return args[0], args[1:], nil
	case len(args) == 1 || strings.Contains(args[1], "/"):
		return "", nil, fmt.Errorf("%q is not a workload: want TYPE/NAME, such as deployment/%s", args[0], args[0])
	}
	return args[0] + "/" + args[1], args[2:], nil
}

// parseSource reads the name of a source as kubectl takes it: configmap/app, cm/app, secrets/db.
func parseSource(text string) (pin.Source, error) {
	kind, name, _ := strings.Cut(text, "/")
	switch strings.ToLower(kind) {
	case "cm", "configmap", "configmaps":
		kind = string(pin.ConfigMap)
	case "secret", "secrets":
		kind = string(pin.Secret)
	}
	return pin.ParseSource(kind + "/" + name)
}

func parseSources(texts []string) ([]pin.Source, error) {
	var sources []pin.Source
	for _, text := range texts {
		source, err := parseSource(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
	}
	return sources, nil
}

// find reads a workload. One that has its template in another workload leads there.
func (p *plugin) find(ctx context.Context, c *connection, name string) (target, error) {
	found, err := p.named(ctx, c, name)
	if err != nil {
		return target{}, err
	}
	named, referred, refers := found.kind.WorkloadRef(found.obj)
	if !refers {
		return found, nil
	}
	for _, kind := range found.installation.Kinds() {
		if kind.GVK.GroupKind() == named {
			obj := kind.New()
			err := c.Get(ctx, client.ObjectKey{Namespace: found.obj.GetNamespace(), Name: referred}, obj)
			return target{kind, obj, found.installation}, err
		}
	}
	return target{}, fmt.Errorf("the pod template of %s is in %s %s, which is not a kind of workload that confrev handles", found, named, referred)
}

// named reads a workload, and what the installation handles it by.
func (p *plugin) named(ctx context.Context, c *connection, name string) (target, error) {
	info, err := p.info(c, name)
	if err != nil {
		return target{}, err
	}
	installed, err := view.FindInstallation(ctx, c, p.controllerNamespace)
	if err != nil {
		return target{}, err
	}
	return asTarget(ctx, c, info, installed)
}

// info reads one object as kubectl does.
func (p *plugin) info(c *connection, name string) (*resource.Info, error) {
	infos, err := p.factory.NewBuilder().Unstructured().NamespaceParam(c.namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(false, name).SingleResourceType().Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	if len(infos) != 1 {
		return nil, fmt.Errorf("%q names %d objects, want one", name, len(infos))
	}
	return infos[0], nil
}

// asTarget finds the kind that an object is handled as. The API server prefers one version of a kind, and the controller may
// be configured with another; then the object is read again in that one.
func asTarget(ctx context.Context, c client.Reader, info *resource.Info, installed view.Installation) (target, error) {
	named := info.Mapping.GroupVersionKind
	for _, kind := range installed.Kinds() {
		if kind.GVK.GroupKind() != named.GroupKind() {
			continue
		}
		obj := kind.New()
		if kind.GVK != named {
			return target{kind, obj, installed}, c.Get(ctx, client.ObjectKey{Namespace: info.Namespace, Name: info.Name}, obj)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info.Object)
		if err != nil {
			return target{}, err
		}
		return target{kind, obj, installed}, runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj)
	}
	if installed.Problem != nil {
		return target{}, installed.Problem
	}
	return target{}, fmt.Errorf("%s/%s is not a workload that confrev handles: it handles %s",
		strings.ToLower(named.Kind), info.Name, plurals(installed.Kinds()))
}

func plurals(kinds []workload.Kind) string {
	var names []string
	for _, kind := range kinds {
		names = append(names, kind.GVK.Kind+"s")
	}
	return strings.Join(names, ", ")
}

// look plans for one workload as the controller would, asking the API server for no more than that needs.
func (t target) look(ctx context.Context, c *connection) (*controller.Planner, controller.Look, error) {
	kinds := []workload.Kind{t.kind}
	for _, kind := range workload.Standard() {
		if kind.Refers && kind != t.kind {
			kinds = append(kinds, kind)
		}
	}
	options := t.options()
	planner, err := controller.NewPlannerOf(ctx, c, options, t.obj.GetNamespace(), kinds)
	if apierrors.IsForbidden(err) && len(kinds) > 1 {
		// Those who may not see the kinds that refer to workloads have no objects of them that have their template in this one.
		planner, err = controller.NewPlannerOf(ctx, c, options, t.obj.GetNamespace(), kinds[:1])
	}
	if err != nil {
		return nil, controller.Look{}, err
	}
	obj := planner.Workload(t.kind, client.ObjectKeyFromObject(t.obj))
	if obj == nil {
		obj = t.obj
	}
	look, err := planner.Look(ctx, t.kind, obj, false)
	return planner, look, err
}

// options are those of the controller, and what the workload shows of them: whether it handles Secrets, and where it injects.
func (t target) options() controller.Options {
	options := t.installation.Options
	pins, _ := t.kind.Pins(t.obj)
	if t.installation.Deployment == nil {
		options.Secrets = false
	}
	for source := range pins {
		options.Secrets = options.Secrets || source.Kind == pin.Secret
	}
	template, err := t.kind.Template(t.obj)
	if err == nil && podspec.Original(&template.Spec, pins) != &template.Spec {
		options.Injection = optin.Template
	}
	return options
}
