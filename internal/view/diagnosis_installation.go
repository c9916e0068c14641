package view

import (
	"context"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/version"
	"confrev.io/confrev/internal/workload"
)

const installChart = "install or upgrade the chart: see docs/install.md"

// versions compares the versions of all that takes part.
func (d *doctor) versions(context.Context) error {
	d.Versions = Versions{Server: d.Server, Plugin: version.String()}
	if err := version.Supports(d.Server); err != nil {
		d.addFinding(SeverityError, "KubernetesTooOld", workload.Deployment.GVK, client.ObjectKey{Namespace: d.Installation.Namespace, Name: "confrev"},
			"upgrade Kubernetes: see docs/support.md", "%v", err)
	}
	if d.Installation.Deployment == nil {
		return nil
	}
	d.Versions.Controller = d.Installation.Deployment.Labels["app.kubernetes.io/version"]
	release := version.Release()
	if release != "" && d.Versions.Controller != "" && strings.TrimPrefix(release, "v") != strings.TrimPrefix(d.Versions.Controller, "v") {
		d.addFinding(SeverityInfo, "VersionsDiffer", workload.Deployment.GVK, client.ObjectKeyFromObject(d.Installation.Deployment),
			"use the plugin of the controller's version", "the controller is %s, this plugin %s", d.Versions.Controller, release)
	}
	return nil
}

// installed reports whether an admission object of the chart is there; ok is false when the user may not look.
func (d *doctor) installed(ctx context.Context, part gate.Part) (found, ok bool, err error) {
	return d.read(ctx, metadata.New(part.GVK()), "", d.Installation.Options.PolicyPrefix+part.Suffix)
}

// demand adds a finding if an admission object of the chart is not there, and reports whether it is.
func (d *doctor) demand(ctx context.Context, part gate.Part, s Severity, reason, fix string) (bool, error) {
	found, seen, err := d.installed(ctx, part)
	if err == nil && seen && !found {
		d.addFinding(s, reason, part.GVK(), client.ObjectKey{Name: d.Installation.Options.PolicyPrefix + part.Suffix}, fix, "it is not there, so %s", part.Without)
	}
	return found, err
}

// policies looks for what resolves pins: the policies of the API server, or the webhook for pods; and for what refuses pods that either missed.
func (d *doctor) policies(ctx context.Context) error {
	webhook, seen, err := d.installed(ctx, gate.ByWebhook)
	if err != nil || !seen {
		return err
	}
	parts := gate.Refusing
	if !webhook {
		parts = slices.Concat(gate.ByPolicy, gate.Refusing)
	}
	for _, part := range parts {
		if _, err := d.demand(ctx, part, SeverityError, "PolicyMissing", installChart); err != nil {
			return err
		}
	}
	return nil
}

// guards looks for the policies that protect revisions, and for their bindings, without which they have no effect. They may be turned off.
func (d *doctor) guards(ctx context.Context) error {
	const anyone = "revisions in use may be deleted by anyone who may delete ConfigMaps"
	for suffix, without := range map[string]string{
		"-guard-revisions": anyone, "-guard-anchors": anyone,
		"-guard-keys": "anyone who may create Secrets may choose the key of a namespace's hashes, and test guesses of its Secrets",
	} {
		for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
			part := gate.Part{Kind: kind, Suffix: suffix, Without: without}
			found, err := d.demand(ctx, part, SeverityInfo, "NoGuard", "")
			if err != nil {
				return err
			}
			if !found {
				break
			}
		}
	}
	return nil
}

// webhook looks at the webhook for workloads and at the clients that it trusts.
func (d *doctor) webhook(ctx context.Context) error {
	name := d.Installation.Options.PolicyPrefix + "-pin-workloads"
	gvk, about := admissionv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration"), client.ObjectKey{Name: name}
	configuration := &admissionv1.MutatingWebhookConfiguration{}
	found, seen, err := d.read(ctx, configuration, "", name)
	if err != nil || !seen {
		return err
	}
	if !found {
		d.addFinding(SeverityWarning, "WebhookMissing", gvk, about, "set webhook.enabled in the chart's values",
			"it is not there, so a deploy and its configuration are two rollouts")
		return nil
	}
	for _, w := range configuration.Webhooks {
		if len(w.ClientConfig.CABundle) == 0 {
			d.addFinding(SeverityWarning, "NoCABundle", gvk, about,
				"confrev, or cert-manager, writes it: is it running, and may it patch this object?",
				"webhook %s has no caBundle, so the API server continues without it", w.Name)
		}
	}
	return nil
}

// controller looks at the Deployment and at its lease.
func (d *doctor) controller(ctx context.Context) error {
	deployment := d.Installation.Deployment
	switch {
	case d.Installation.Refused != "":
		d.note("not judged: %s", d.Installation.Refused)
		return nil
	case deployment == nil:
		d.addFinding(SeverityError, "NotInstalled", workload.Deployment.GVK, client.ObjectKey{Namespace: d.Installation.Namespace, Name: "confrev"},
			installChart, "the controller is not installed, so nothing is pinned and nothing advances")
		return nil
	}
	about := client.ObjectKeyFromObject(deployment)
	logs := "kubectl -n " + about.Namespace + " describe deployment/" + about.Name + "; kubectl -n " + about.Namespace + " logs -l app.kubernetes.io/name=confrev"
	if deployment.Status.ReadyReplicas == 0 {
		d.addFinding(SeverityError, "NotReady", workload.Deployment.GVK, about, logs, "no replica is ready, so nothing is pinned and nothing advances")
	} else if n := installation.Replicas(deployment) - deployment.Status.ReadyReplicas; n > 0 {
		d.addFinding(SeverityWarning, "NotReady", workload.Deployment.GVK, about, logs, "%d of its replicas are not ready", n)
	}
	lease := &coordinationv1.Lease{}
	name := d.Installation.Options.Lease()
	found, seen, err := d.read(ctx, lease, about.Namespace, name)
	if err != nil || !seen || deployment.Status.ReadyReplicas == 0 {
		return err
	}
	spec := lease.Spec
	if !found || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil ||
		d.Now.After(spec.RenewTime.Add(4*time.Duration(*spec.LeaseDurationSeconds)*time.Second)) {
		d.addFinding(SeverityError, "NoLeader", coordinationv1.SchemeGroupVersion.WithKind("Lease"), client.ObjectKey{Namespace: about.Namespace, Name: name},
			logs, "no replica leads, so nothing advances")
	}
	return nil
}

// needed returns the rights without which the controller does not work, as resource.group and verbs (docs/components.md).
func (d *doctor) needed() map[schema.GroupResource][]string {
	write := []string{"get", "list", "watch", "create", "patch", "delete"}
	needed := map[schema.GroupResource][]string{
		{Resource: "configmaps"}:                         write,
		{Group: "apps", Resource: "replicasets"}:         {"get", "list", "watch"},
		{Group: "apps", Resource: "controllerrevisions"}: {"get", "list", "watch"},
		{Group: "batch", Resource: "jobs"}:               {"get", "list", "watch"},
	}
	if !d.Installation.Options.Namespaced() {
		needed[schema.GroupResource{Resource: "namespaces"}] = []string{"get", "list", "watch"}
	}
	if d.Installation.Options.Secrets {
		needed[schema.GroupResource{Resource: "secrets"}] = write
		needed[schema.GroupResource{Resource: "serviceaccounts"}] = []string{"get"}
	}
	for _, kind := range d.Kinds {
		if mapping, err := d.live.RESTMapper().RESTMapping(kind.GVK.GroupKind(), kind.GVK.Version); err == nil {
			needed[mapping.Resource.GroupResource()] = []string{"get", "list", "watch", "patch"}
		}
	}
	return needed
}

// rights asks what the controller's ServiceAccount may. Only those who may ask for others learn it.
func (d *doctor) rights(ctx context.Context) error {
	deployment := d.Installation.Deployment
	if deployment == nil {
		return nil
	}
	for resource, verbs := range d.needed() {
		for _, verb := range verbs {
			for _, namespace := range d.places() {
				if refused, err := d.right(ctx, deployment, namespace, verb, resource); refused || err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// right asks whether the controller has one right. It returns true if the user may not ask that.
func (d *doctor) right(ctx context.Context, deployment *appsv1.Deployment, namespace, verb string, resource schema.GroupResource) (refused bool, err error) {
	account := deployment.Spec.Template.Spec.ServiceAccountName
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   "system:serviceaccount:" + deployment.Namespace + ":" + account,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + deployment.Namespace, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Group: resource.Group, Resource: resource.Resource, Verb: verb,
		},
	}}
	err = d.live.Create(ctx, review)
	if apierrors.IsForbidden(err) {
		d.note("not judged: whether the controller has the rights that it needs: %v", err)
		return true, nil
	}
	if err == nil && !review.Status.Allowed {
		d.addFinding(SeverityError, "RightMissing", workload.Deployment.GVK, client.ObjectKeyFromObject(deployment), installChart,
			"its ServiceAccount %s may not %s %q%s", account, verb, resource.String(), inPlace(namespace))
	}
	return false, err
}

// customResourceDefinition is the kind of the objects that define custom resources.
var customResourceDefinition = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// schemas checks whether the API server keeps what confrev writes to workloads that are custom resources.
func (d *doctor) schemas(ctx context.Context) error {
	for _, kind := range d.Kinds {
		mapping, err := d.live.RESTMapper().RESTMapping(kind.GVK.GroupKind(), kind.GVK.Version)
		if err != nil || !strings.Contains(kind.GVK.Group, ".") {
			// It is not served, or Kubernetes' own.
			continue
		}
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(customResourceDefinition)
		name := mapping.Resource.GroupResource().String()
		// One that another API server serves has no definition.
		found, _, err := d.read(ctx, definition, "", name)
		if err != nil {
			return err
		}
		if found && !kind.KeptBy(definition) {
			d.addFinding(SeverityWarning, "PinsNotKept", customResourceDefinition, client.ObjectKey{Name: name},
				"let the schema keep annotations at "+kind.Path+".metadata: see docs/troubleshooting.md, PinsNotKept",
				"the API server prunes annotations at %s.metadata of every %s, so none is ever pinned", kind.Path, kind.Resource())
		}
	}
	return nil
}
