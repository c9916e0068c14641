package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/operator"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// ControllerNamespace is where the chart's documentation installs the controller.
const ControllerNamespace = "confrev-system"

// Installation is what the user may see of the controller's installation.
type Installation struct {
	// Deployment is nil if there is none, or none that the user may see.
	Deployment *appsv1.Deployment
	// Namespace is where it is, or where it was searched for.
	Namespace string
	// others are further Deployments that look like it.
	others []string
	// refused is why the user may not see it; empty otherwise.
	refused string
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
func (i Installation) Handles(gvk schema.GroupVersionKind) bool { return i.empty(gvk) != nil }

// empty returns an empty object of a kind that confrev handles; nil for others.
func (i Installation) empty(gvk schema.GroupVersionKind) client.Object {
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
	if len(i.others) > 0 {
		notes = append(notes, fmt.Sprintf("several controllers are installed: %s/%s is used, and not %s; choose with --controller-namespace",
			i.Deployment.Namespace, i.Deployment.Name, strings.Join(i.others, ", ")))
	}
	if i.Problem != nil {
		notes = append(notes, fmt.Sprintf("the controller's options could not be read, so the chart's defaults are used: %v", i.Problem))
	}
	return notes
}

// FindInstallation finds the controller, to plan with its options, in a namespace, or in all if it is empty. Users who may not
// list Deployments in all namespaces may still see it where the documentation installs it.
func FindInstallation(ctx context.Context, c client.Client, namespace string) (Installation, error) {
	found := Installation{Options: defaultOptions(), Namespace: cmp.Or(namespace, ControllerNamespace)}
	all, err := controllers(ctx, c, namespace)
	if apierrors.IsForbidden(err) && namespace == "" {
		all, err = controllers(ctx, c, ControllerNamespace)
	}
	if apierrors.IsForbidden(err) {
		found.refused = err.Error()
		return found, nil
	}
	if err != nil || len(all) == 0 {
		return found, err
	}
	found.Deployment, found.Namespace = &all[0], all[0].Namespace
	for _, other := range all[1:] {
		found.others = append(found.others, other.Namespace+"/"+other.Name)
	}
	options, err := optionsOf(ctx, c, found.Deployment)
	if found.Problem = err; err == nil {
		found.Options = options
	}
	return found, nil
}

// controllers returns the Deployments that look like confrev's own: by the chart's label, with its container. A label alone may be
// anyone's. Those that run come first, and of these the one where the documentation installs it.
func controllers(ctx context.Context, c client.Reader, namespace string) ([]appsv1.Deployment, error) {
	list := &appsv1.DeploymentList{}
	err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "confrev"})
	all := slices.DeleteFunc(list.Items, func(d appsv1.Deployment) bool { return containerOf(&d) == nil })
	rank := func(d appsv1.Deployment) int {
		switch {
		case replicasOf(&d) == 0:
			return 2
		case d.Namespace != ControllerNamespace:
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b appsv1.Deployment) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, err
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

// defaultOptions returns the chart's options. Secrets are looked at until it shows that the controller does not handle them, and so
// is what confrev.io/restart-on names, with the rights of the user who asks.
func defaultOptions() operator.Options {
	options := operator.Options{PolicyPrefix: "confrev", Grace: 10 * time.Minute}
	options.Injection, options.Secrets, options.RestartOnAny, options.Namespace = optin.Admission, true, true, ControllerNamespace
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
