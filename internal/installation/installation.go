// Package installation finds the controller, and returns what the user may see of it: where it works, and the options to plan with. It asks
// the API server with the rights of the user who asks, and writes nothing.
package installation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/operator"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// DefaultNamespace is where the chart's documentation installs the controller.
const DefaultNamespace = "confrev-system"

// Installation is what the user may see of the controller's installation.
type Installation struct {
	// Deployment is nil if there is none, or none that the user may see.
	Deployment *appsv1.Deployment
	// Namespace is where it is, or where it was searched for.
	Namespace string
	// Others are further Deployments that look like it.
	Others []appsv1.Deployment
	// Refused is why the user may not see it; empty otherwise.
	Refused string
	// Options are those of the controller, or the chart's defaults.
	Options operator.Options
	// Problem says which options could not be read.
	Problem error
}

// Kinds returns the kinds of workloads that it handles.
func (i Installation) Kinds() []workload.Kind {
	return slices.Concat(workload.Standard(), i.Options.Kinds)
}

// Handles reports whether objects of a kind are sources or workloads of confrev's.
func (i Installation) Handles(gvk schema.GroupVersionKind) bool { return i.New(gvk) != nil }

// New returns an empty object of a kind that confrev handles; nil for others.
func (i Installation) New(gvk schema.GroupVersionKind) client.Object {
	for _, kind := range pin.Kinds {
		if revision.GVK(kind) == gvk {
			return revision.NewSource(kind)
		}
	}
	for _, kind := range i.Kinds() {
		if kind.GVK == gvk {
			return kind.New()
		}
	}
	return nil
}

// Notes say what of the installation is not known.
func (i Installation) Notes() []string {
	var notes []string
	if len(i.Others) > 0 {
		var names []string
		for _, other := range i.Others {
			names = append(names, other.Namespace+"/"+other.Name)
		}
		notes = append(notes, fmt.Sprintf("several controllers are installed: %s/%s is used, and not %s; choose with --controller-namespace",
			i.Deployment.Namespace, i.Deployment.Name, strings.Join(names, ", ")))
	}
	if i.Problem != nil {
		notes = append(notes, fmt.Sprintf("the controller's options could not be read, so the chart's defaults are used: %v", i.Problem))
	}
	return notes
}

// Find finds the controller that works in the namespace target, or in all if that is empty, to plan with its options. It
// looks in one namespace, or in all if that is empty. Users who may not list Deployments in all namespaces may still see it where the
// documentation installs it, in the target, or where the target's own RoleBinding says that it is.
func Find(ctx context.Context, c client.Client, namespace, target string) (Installation, error) {
	found := Installation{Options: DefaultOptions(), Namespace: cmp.Or(namespace, DefaultNamespace)}
	all, err := controllers(ctx, c, namespace, target)
	if apierrors.IsForbidden(err) && namespace == "" {
		all, err = found.visible(ctx, c, target)
	}
	if apierrors.IsForbidden(err) {
		found.Refused = err.Error()
		return found, nil
	}
	if err != nil || len(all) == 0 {
		return found, err
	}
	found.Deployment, found.Namespace, found.Others = &all[0], all[0].Namespace, all[1:]
	options, err := optionsOf(ctx, c, found.Deployment)
	if found.Problem = err; err == nil {
		found.Options = options
	}
	return found, nil
}

// visible returns the controllers that someone may see who works in the namespace target only. The error is the first refusal if they see
// none. If the target's RoleBinding shows that confrev is limited to namespaces, the options say so, whatever else is hidden.
func (i *Installation) visible(ctx context.Context, c client.Reader, target string) ([]appsv1.Deployment, error) {
	places := []string{DefaultNamespace}
	if limited := limitedBy(ctx, c, target); limited != "" {
		i.Namespace, i.Options.Namespace = limited, limited
		i.Options.WatchNamespaces, i.Options.Injection = []string{target}, optin.Template
		places = []string{limited, DefaultNamespace}
	}
	if target != "" {
		places = append(places, target)
	}
	var refusal error
	for _, place := range places {
		all, err := controllers(ctx, c, place, target)
		switch {
		case apierrors.IsForbidden(err):
			refusal = cmp.Or(refusal, err)
		case err != nil || len(all) > 0:
			return all, err
		}
	}
	return nil, refusal
}

// limitedBy returns the namespace of the controller that is limited to some namespaces, a given one among them; empty if there is none, or
// none that the user may see.
func limitedBy(ctx context.Context, c client.Reader, namespace string) string {
	binding := &rbacv1.RoleBinding{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "confrev"}, binding)
	if namespace == "" || err != nil || binding.Labels["app.kubernetes.io/name"] != "confrev" || len(binding.Subjects) == 0 {
		return ""
	}
	return binding.Subjects[0].Namespace
}

// WorksIn reports whether the controller works in a namespace.
func (i Installation) WorksIn(namespace string) bool {
	return !i.Options.Namespaced() || slices.Contains(i.Options.WatchNamespaces, namespace)
}

// Elsewhere returns a note that the controller does not work in a namespace, or in all if that is empty; empty if it does.
func (i Installation) Elsewhere(namespace string) string {
	switch {
	case !i.Options.Namespaced() || namespace != "" && i.WorksIn(namespace):
		return ""
	case namespace == "":
		return fmt.Sprintf("the controller in namespace %s is limited to %s: workloads in other namespaces are left out",
			i.Namespace, strings.Join(i.Options.WatchNamespaces, ", "))
	}
	return fmt.Sprintf("the controller in namespace %s is limited to %s: it does nothing in %s",
		i.Namespace, strings.Join(i.Options.WatchNamespaces, ", "), namespace)
}

// controllers returns the Deployments that look like confrev's own: by the chart's label, with its container. A label alone may be
// anyone's. Those that run come first, of these the ones that work in the namespace target, and of these the one where the documentation
// installs it.
func controllers(ctx context.Context, c client.Reader, namespace, target string) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "confrev"})
	all := slices.DeleteFunc(list.Items, func(d appsv1.Deployment) bool { return containerOf(&d) == nil })
	rank := func(d appsv1.Deployment) int {
		switch {
		case Replicas(&d) == 0:
			return 3
		case !worksIn(&d, target):
			return 2
		case d.Namespace != DefaultNamespace:
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b appsv1.Deployment) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// worksIn reports whether a Deployment's controller works in a namespace, or in all if that is empty, by its own flags. Where these are
// not those of this version, it is taken to.
func worksIn(d *appsv1.Deployment, namespace string) bool {
	options, _, err := operator.Read(containerOf(d).Args)
	return err != nil || !options.Namespaced() || slices.Contains(options.WatchNamespaces, namespace)
}

// Replicas returns how many replicas a Deployment is to have.
func Replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// Overlap returns where two controllers that run both work; empty if nowhere, or if their flags cannot be read.
func Overlap(one, other *appsv1.Deployment) string {
	a, _, err := operator.Read(containerOf(one).Args)
	b, _, otherErr := operator.Read(containerOf(other).Args)
	switch {
	case err != nil || otherErr != nil || Replicas(one) == 0 || Replicas(other) == 0:
		return ""
	case !a.Namespaced() && !b.Namespaced():
		return "all namespaces"
	case !a.Namespaced():
		return strings.Join(b.WatchNamespaces, ", ")
	case !b.Namespaced():
		return strings.Join(a.WatchNamespaces, ", ")
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(a.WatchNamespaces), func(n string) bool { return !slices.Contains(b.WatchNamespaces, n) }), ", ")
}

// containerOf returns the controller's container; nil if there is none.
func containerOf(d *appsv1.Deployment) *corev1.Container {
	containers := d.Spec.Template.Spec.Containers
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "confrev" })
	if i < 0 {
		return nil
	}
	return &containers[i]
}

// DefaultOptions returns the chart's options. Secrets are looked at until it shows that the controller does not handle them, and so
// is what confrev.io/restart-on names, with the rights of the user who asks.
func DefaultOptions() operator.Options {
	options := operator.Options{PolicyPrefix: "confrev", Grace: 10 * time.Minute}
	options.Injection, options.Secrets, options.RestartOnAny, options.Namespace = optin.Admission, true, true, DefaultNamespace
	return options
}

// optionsOf reads the options from the command line of the controller's container, by the controller's own flags.
func optionsOf(ctx context.Context, c client.Client, d *appsv1.Deployment) (operator.Options, error) {
	options, configured, err := operator.Read(containerOf(d).Args)
	if err != nil {
		return options, fmt.Errorf("flags of deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	options.Namespace = d.Namespace
	if !configured {
		return options, nil
	}
	config := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(d), config); err != nil {
		return options, fmt.Errorf("read the configured kinds: %w", err)
	}
	options.Kinds, err = workload.ParseConfig([]byte(config.Data["workloads.yaml"]))
	return options, err
}
