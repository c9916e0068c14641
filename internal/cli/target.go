package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/controller"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/workload"
)

// target is the one workload that a verb is about.
type target struct {
	kind workload.Kind
	obj  client.Object
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
	found, kinds, err := p.named(ctx, c, name)
	if err != nil {
		return target{}, err
	}
	named, referred, refers := found.kind.Referred(found.obj)
	if !refers {
		return found, nil
	}
	for _, kind := range kinds {
		if kind.GVK.GroupKind() == named {
			obj := kind.New()
			err := c.Get(ctx, client.ObjectKey{Namespace: found.obj.GetNamespace(), Name: referred}, obj)
			return target{kind, obj}, err
		}
	}
	return target{}, fmt.Errorf("the pod template of %s is in %s %s, which is not a kind of workload that confrev handles", found, named, referred)
}

// named reads a workload, and gives the kinds that confrev handles.
func (p *plugin) named(ctx context.Context, c *connection, name string) (target, []workload.Kind, error) {
	info, err := p.info(c, name)
	if err != nil {
		return target{}, nil, err
	}
	kinds, err := handledWith(ctx, c, info.Mapping.GroupVersionKind)
	if err != nil {
		return target{}, nil, err
	}
	found, err := asTarget(info, kinds)
	return found, kinds, err
}

// handledWith gives the kinds of workloads that confrev handles. Only for one that is not among the standard kinds, the installation
// is asked for those that it is configured with.
func handledWith(ctx context.Context, c *connection, named schema.GroupVersionKind) ([]workload.Kind, error) {
	standard := workload.Standard()
	if slices.ContainsFunc(standard, func(k workload.Kind) bool { return k.GVK == named }) {
		return standard, nil
	}
	installed, err := findInstallation(ctx, c)
	if err == nil {
		err = installed.problem
	}
	return append(standard, installed.options.Kinds...), err
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

func asTarget(info *resource.Info, kinds []workload.Kind) (target, error) {
	named := info.Mapping.GroupVersionKind
	for _, kind := range kinds {
		if kind.GVK != named {
			continue
		}
		obj := kind.New()
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(info.Object)
		if err != nil {
			return target{}, err
		}
		return target{kind, obj}, runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj)
	}
	return target{}, fmt.Errorf("%s/%s is not a workload that confrev handles: it handles %s",
		strings.ToLower(named.Kind), info.Name, plurals(kinds))
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
	if t.kind != workload.Rollout {
		kinds = append(kinds, workload.Rollout)
	}
	options := t.options()
	planner, err := controller.NewPlannerOf(ctx, c, options, t.obj.GetNamespace(), kinds)
	if apierrors.IsForbidden(err) && len(kinds) > 1 {
		// Who may not see Rollouts has none that has its template in this workload.
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

// options are those of the controller, as far as the workload shows them: whether it handles Secrets, and where it injects.
func (t target) options() controller.Options {
	options := controller.Options{Injection: optin.Admission}
	pins, _ := t.kind.Pins(t.obj)
	for source := range pins {
		options.Secrets = options.Secrets || source.Kind == pin.Secret
	}
	template, err := t.kind.Template(t.obj)
	if err == nil && podspec.Original(&template.Spec, pins) != &template.Spec {
		options.Injection = optin.Template
	}
	return options
}
