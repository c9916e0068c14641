// Package workload describes the kinds of workloads, and of the holders that keep their templates. Everything that differs between
// kinds is here, and no other package switches on a kind. It must not read from the API server or write to it.
package workload

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// Kind adapts one kind of workload: an object with a pod template. Kinds are values: equal values are the same kind.
type Kind struct {
	GVK schema.GroupVersionKind
	// Path is the path of the pod template, such as "spec.template".
	Path string
	// Holder is the kind of the objects that keep this kind's templates alive.
	Holder HolderKind
	// Refers is true if objects of this kind may use the template of another workload, which they name: spec.workloadRef of Argo
	// Rollouts.
	Refers bool
	// Pauses is true if a new object with spec.paused gets no holder (rule 7). A Rollout of Argo Rollouts gets one anyway.
	Pauses bool
	// Restores is true if holders have the annotations of their workload, and kubectl rollout undo gives them back to it (k8s.io/kubectl,
	// DeploymentRollbacker). No undo touches those of other kinds.
	Restores bool
	// Restarts is true if spec.restartAt makes the kind's controller replace older pods: Argo Rollouts evicts them.
	Restarts bool
	// Ordered is true if the kind's controller waits for each pod to become ready before it replaces it, even if it never does.
	Ordered bool
	// Fixed is true if the template can never change, so that pins must be there from the start.
	Fixed bool
}

// The kinds that confrev knows without configuration.
var (
	Deployment  = Kind{GVK: appsv1.SchemeGroupVersion.WithKind("Deployment"), Path: "spec.template", Holder: ReplicaSet, Pauses: true, Restores: true}
	StatefulSet = Kind{GVK: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), Path: "spec.template", Holder: ControllerRevision, Ordered: true}
	DaemonSet   = Kind{GVK: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), Path: "spec.template", Holder: ControllerRevision}
	CronJob     = Kind{GVK: batchv1.SchemeGroupVersion.WithKind("CronJob"), Path: "spec.jobTemplate.spec.template", Holder: Job}
	Rollout     = Kind{
		GVK:  schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"},
		Path: "spec.template", Holder: ReplicaSet, Refers: true, Restarts: true,
	}
)

// StandAloneJob is a Job that no controller created. It is its own holder, and its template never changes, so it is pinned when
// it is created or never.
var StandAloneJob = Kind{GVK: Job.GVK, Path: "spec.template", Holder: Job, Fixed: true}

// Standard lists the kinds that confrev knows without configuration. Not every cluster serves all of them.
func Standard() []Kind { return []Kind{Deployment, StatefulSet, DaemonSet, CronJob, Rollout} }

// RunsJobs reports whether the pods of this kind run to completion, with the configuration that they started with, and are not
// replaced.
func (k Kind) RunsJobs() bool { return k.Holder == Job }

// StartsJobs reports whether a change to the template only takes effect with the next Job, so that nothing is restarted.
func (k Kind) StartsJobs() bool { return k.RunsJobs() && !k.Fixed }

// Resource returns kubectl's name for the kind, for messages and metrics: "deployment".
func (k Kind) Resource() string { return strings.ToLower(k.GVK.Kind) }

// New returns an empty object to read into.
func (k Kind) New() client.Object { return newObject(k.GVK) }

// NewList returns an empty list to read into.
func (k Kind) NewList() client.ObjectList { return newList(k.GVK) }

// TemplatePointer returns the JSON pointer of the pod template, such as "/spec/template".
func (k Kind) TemplatePointer() string { return "/" + strings.ReplaceAll(k.Path, ".", "/") }

// Template returns an object's pod template, which the caller must not change. It is empty if the object has none. It returns an
// error if the value at the path is not a pod template.
func (k Kind) Template(obj client.Object) (*corev1.PodTemplateSpec, error) {
	return templateOf(obj, k.Path)
}

// Pins returns the pins of an object's template. If they are malformed, it returns an error and no pins.
func (k Kind) Pins(obj client.Object) (pin.Set, error) { return pin.Parse(k.PinsText(obj)) }

// PinsText returns the text of the pins of an object's template, which may be malformed. It is empty if the object has no valid template.
func (k Kind) PinsText(obj client.Object) string {
	template, err := k.Template(obj)
	if err != nil {
		return ""
	}
	return template.Annotations[keys.Pins]
}

// Paused reports whether an object is paused.
func (k Kind) Paused(obj client.Object) bool {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return o.Spec.Paused
	case *unstructured.Unstructured:
		paused, _, err := unstructured.NestedBool(o.Object, "spec", "paused")
		return err == nil && paused
	}
	return false
}

// PausedSince returns when an object was paused, if its kind records that.
func (k Kind) PausedSince(obj client.Object) (at time.Time, known bool) {
	if o, ok := obj.(*appsv1.Deployment); ok {
		for _, condition := range o.Status.Conditions {
			if condition.Type == appsv1.DeploymentProgressing && condition.Reason == "DeploymentPaused" {
				return condition.LastTransitionTime.Time, true
			}
		}
	}
	return time.Time{}, false
}

// ToResume returns the command that ends the pause of an object: kubectl's own is only for Deployments.
func (k Kind) ToResume(obj client.Object) string {
	if _, ok := obj.(*appsv1.Deployment); ok {
		return fmt.Sprintf("kubectl rollout resume %s/%s -n %s", k.Resource(), obj.GetName(), obj.GetNamespace())
	}
	return fmt.Sprintf(`kubectl patch %s/%s -n %s --type merge -p '{"spec":{"paused":false}}'`, k.Resource(), obj.GetName(), obj.GetNamespace())
}

// maxPause is how long a new object waits, paused, for a missing source, unless its own deadline is earlier.
const maxPause = 10 * time.Minute

// MaxPause returns how long after its creation an object may stay paused because a source is missing (rule 7): no longer than its
// progress deadline.
func (k Kind) MaxPause(obj client.Object) time.Duration {
	if d, ok := obj.(*appsv1.Deployment); ok && d.Spec.ProgressDeadlineSeconds != nil {
		return min(maxPause, time.Duration(*d.Spec.ProgressDeadlineSeconds)*time.Second)
	}
	return maxPause
}

// Selector returns the labels that distinguish an object's holders from others of the namespace, if its kind has such a selector;
// otherwise it selects everything.
func (k Kind) Selector(obj client.Object) labels.Selector {
	var selector *metav1.LabelSelector
	switch o := obj.(type) {
	case *appsv1.Deployment:
		selector = o.Spec.Selector
	case *appsv1.StatefulSet:
		selector = o.Spec.Selector
	case *appsv1.DaemonSet:
		selector = o.Spec.Selector
	}
	if selector == nil {
		return labels.Everything()
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return labels.Everything()
	}
	return parsed
}

// PodSelector returns labels that an object's pods have: those of its selector, or of its template if its kind has no such field.
func (k Kind) PodSelector(obj client.Object) labels.Selector {
	selector := k.Selector(obj)
	if o, ok := obj.(*unstructured.Unstructured); ok {
		var own metav1.LabelSelector
		if fields, found, err := unstructured.NestedMap(o.Object, "spec", "selector"); err == nil && found && runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &own) == nil {
			if parsed, err := metav1.LabelSelectorAsSelector(&own); err == nil {
				selector = parsed
			}
		}
	}
	if template, err := k.Template(obj); err == nil && selector.Empty() {
		return labels.SelectorFromSet(template.Labels)
	}
	return selector
}

// WorkloadRef returns the workload whose template an object uses (Kind.Refers). ok is false if the object uses its own.
func (k Kind) WorkloadRef(obj client.Object) (kind schema.GroupKind, name string, ok bool) {
	o, isUnstructured := obj.(*unstructured.Unstructured)
	if !k.Refers || !isUnstructured {
		return schema.GroupKind{}, "", false
	}
	// The kind's own controller refuses a malformed reference.
	reference, found, err := unstructured.NestedStringMap(o.Object, "spec", "workloadRef")
	if err != nil || !found {
		return schema.GroupKind{}, "", false
	}
	return schema.FromAPIVersionAndKind(reference["apiVersion"], reference["kind"]).GroupKind(), reference["name"], true
}

// Compact removes what confrev does not need from a workload that is about to be cached. The annotation of client-side apply alone
// is as large as the rest. Its key stays, because a workload without any annotation is patched differently.
func (k Kind) Compact(obj client.Object) {
	obj.SetManagedFields(nil)
	if annotations := obj.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		annotations[corev1.LastAppliedConfigAnnotation] = ""
		obj.SetAnnotations(annotations)
	}
	compactStatus(obj)
}

// Uses returns how an object's template uses sources, as the user wrote it. With injection into the template, references may name
// the revisions of the template's pins, or of earlier pins, which the caller passes as before.
func (k Kind) Uses(obj client.Object, before ...pin.Set) ([]podspec.Use, error) {
	template, err := k.Template(obj)
	if err != nil {
		return nil, err
	}
	// Malformed pins have injected nothing.
	pins, _ := pin.Parse(template.Annotations[keys.Pins])
	return podspec.Uses(podspec.Original(&template.Spec, append([]pin.Set{pins}, before...)...)), nil
}

// Kinds is the set of kinds of workloads that confrev handles: those that the cluster serves and that confrev may read. It grows
// when a custom resource is installed while confrev runs. It is safe for concurrent use.
type Kinds struct {
	mu               sync.RWMutex
	served, expected []Kind
}

// Expect notes kinds that are added once the cluster serves them and confrev may read them. There may be objects of them before.
func (k *Kinds) Expect(kinds ...Kind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expected = append(slices.Clone(k.expected), kinds...)
}

// Add adds a kind.
func (k *Kinds) Add(kind Kind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.served = append(slices.Clone(k.served), kind)
}

// All returns the kinds, in a slice that the caller must not change.
func (k *Kinds) All() []Kind {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.served
}

// Known returns the kinds and those that are expected, each once.
func (k *Kinds) Known() []Kind {
	k.mu.RLock()
	defer k.mu.RUnlock()
	known := slices.Clone(k.served)
	for _, kind := range k.expected {
		if !slices.Contains(known, kind) {
			known = append(known, kind)
		}
	}
	return known
}

// Holders returns the kinds of holders, each once.
func (k *Kinds) Holders() []HolderKind { return HoldersOf(k.All()) }

// HoldersOf returns the kinds of holders of some kinds, each once.
func HoldersOf(kinds []Kind) []HolderKind {
	var holders []HolderKind
	for _, kind := range kinds {
		if !slices.Contains(holders, kind.Holder) {
			holders = append(holders, kind.Holder)
		}
	}
	return holders
}

// Referring returns the kinds whose objects may use the template of another workload (Kind.Refers).
func (k *Kinds) Referring() []Kind {
	return slices.DeleteFunc(slices.Clone(k.All()), func(kind Kind) bool { return !kind.Refers })
}

// Of returns the kind of the workload that an owner reference names, and reports whether it is one of the kinds.
func (k *Kinds) Of(reference metav1.OwnerReference) (Kind, bool) {
	named := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).GroupKind()
	for _, kind := range k.All() {
		if kind.GVK.GroupKind() == named {
			return kind, true
		}
	}
	return Kind{}, false
}

// IsWorkload reports whether an owner reference names a workload.
func (k *Kinds) IsWorkload(reference metav1.OwnerReference) bool {
	_, is := k.Of(reference)
	return is
}

// IsUser reports whether an owner reference names a workload or a holder.
func (k *Kinds) IsUser(reference metav1.OwnerReference) bool {
	named := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).GroupKind()
	return k.IsWorkload(reference) || slices.ContainsFunc(k.Holders(), func(h HolderKind) bool { return h.GVK.GroupKind() == named })
}

// RestartAtPointer is the JSON pointer of the restart time, for kinds with Restarts. Their controller replaces pods that were created
// before that time.
const RestartAtPointer = "/spec/restartAt"

// RestartAt returns an object's restart time in RFC 3339. It is empty if the object has none.
func (k Kind) RestartAt(obj client.Object) string {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok || !k.Restarts {
		return ""
	}
	return text(o, "spec", "restartAt")
}

// RestartNow returns, in RFC 3339, the restart time that makes a controller replace all present pods.
func RestartNow(now time.Time) string { return now.UTC().Format(time.RFC3339) }

// CanRestart reports whether an object's pods can be replaced one by one while others serve. That takes at least two replicas.
func (k Kind) CanRestart(obj client.Object) bool {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok || !k.Restarts {
		return false
	}
	replicas, set, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return err == nil && set && replicas > 1
}

// Config returns a workload's configuration. It reads the annotations and labels of the workload and of its namespace, and not those of
// workloads that refer to it: anyone who may create one could steer a workload of someone else.
func (k Kind) Config(obj, namespace client.Object, defaults optin.Defaults) optin.Config {
	written := optin.Metadata{Annotations: obj.GetAnnotations(), Labels: obj.GetLabels(),
		Namespace: namespace.GetName(), NamespaceLabels: namespace.GetLabels(), NamespaceAnnotations: namespace.GetAnnotations()}
	if template, err := k.Template(obj); err == nil {
		written.TemplateAnnotations = template.Annotations
	}
	return optin.Read(written, defaults)
}

// RestartCommand returns the command that replaces an object's pods as its kind does it. It is empty for kinds of which no such command is
// known.
func (k Kind) RestartCommand(namespace, name string) string {
	switch {
	case k.RunsJobs():
	case k.Restarts:
		return fmt.Sprintf("kubectl argo rollouts restart %s -n %s", name, namespace)
	case k.GVK.Group == appsv1.GroupName:
		return fmt.Sprintf("kubectl rollout restart %s/%s -n %s", k.Resource(), name, namespace)
	}
	return ""
}
