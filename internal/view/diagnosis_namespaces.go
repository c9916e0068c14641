package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
)

// admission looks for what takes part in requests: policies, guards and webhooks. A controller that is limited to namespaces has none, and
// what that means is no fault.
func (d *doctor) admission(ctx context.Context) error {
	if d.Installation.Options.Namespaced() {
		d.addFinding(SeverityInfo, "Namespaced", workload.Deployment.GVK, client.ObjectKey{Namespace: d.Installation.Namespace, Name: d.Installation.Options.PolicyPrefix}, "",
			"it is limited to %s, without admission policies, guards and webhooks: revisions in use may be deleted by anyone who may delete ConfigMaps, "+
				"a deploy and its configuration are two rollouts, and Jobs that no CronJob creates and labels of namespaces are not considered",
			strings.Join(d.Installation.Options.WatchNamespaces, ", "))
		return nil
	}
	for _, examine := range []func(context.Context) error{d.policies, d.guards, d.webhook} {
		if err := examine(ctx); err != nil {
			return err
		}
	}
	return nil
}

// unwatched finds workloads that opted in where the controller does not work.
func (d *doctor) unwatched(context.Context) error {
	if !d.Installation.Options.Namespaced() {
		return nil
	}
	count := map[string]int{}
	for _, kind := range d.Kinds {
		for _, obj := range d.Snapshot.Objects(kind.GVK) {
			if track := obj.GetAnnotations()[keys.Track]; track != "" && track != "none" && !d.Installation.WorksIn(obj.GetNamespace()) {
				count[obj.GetNamespace()]++
			}
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(count)) {
		d.addFinding(SeverityWarning, "NotWatched", corev1.SchemeGroupVersion.WithKind("Namespace"), client.ObjectKey{Name: namespace},
			"add it to the chart's value watchNamespaces", "%d of its workloads have %s, and the controller in namespace %s works only in %s",
			count[namespace], keys.Track, d.Installation.Namespace, strings.Join(d.Installation.Options.WatchNamespaces, ", "))
	}
	return nil
}

// overlaps finds other controllers that work in the same namespaces.
func (d *doctor) overlaps(context.Context) error {
	if d.Installation.Deployment == nil {
		return nil
	}
	all := append([]appsv1.Deployment{*d.Installation.Deployment}, d.Installation.Others...)
	for i, one := range all {
		for _, other := range all[:i] {
			if where := installation.Overlap(&one, &other); where != "" {
				d.addFinding(SeverityWarning, "Overlap", workload.Deployment.GVK, client.ObjectKeyFromObject(&one),
					"uninstall one of them, or limit both to different namespaces",
					"it works in %s, and so does %s/%s: each may undo what the other writes", where, other.Namespace, other.Name)
			}
		}
	}
	return nil
}

// places returns the namespaces in which the controller needs its rights; an empty one stands for the whole cluster.
func (d *doctor) places() []string {
	if d.Installation.Options.Namespaced() {
		return d.Installation.Options.WatchNamespaces
	}
	return []string{""}
}

// inPlace returns where a right is missing, for a message.
func inPlace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %s", namespace)
}
