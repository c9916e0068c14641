package workload

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Health is how a workload takes its newest template (rule 37). Unlike Progress, it does not change because a pod is replaced later, or
// because the workload is scaled.
type Health struct {
	Progress
	// RolledOut is true if the newest template is rolled out and at least one pod of it is available.
	RolledOut bool
	// Since is when the rollout was complete; zero if the kind does not record that.
	Since time.Time
	// Disturbed is true while a template is being rolled out.
	Disturbed bool
	// Unseen is true while it is not known whether its controller has seen the template. It counts as Disturbed meanwhile.
	Unseen bool
	// Idle is true if it runs no pods.
	Idle bool
	// FailedAt is when its controller gave up; zero if the kind does not record that.
	FailedAt time.Time
	// Deadline is how long it may make no progress, by its own setting, where its controller does not watch that; zero elsewhere.
	Deadline time.Duration
}

// newReplicaSetAvailable is the reason by which a Deployment's controller says that a rollout is complete
// (k8s.io/kubernetes/pkg/controller/deployment/util).
const newReplicaSetAvailable = "NewReplicaSetAvailable"

// HealthWith returns the health of an object whose holders are known, nil for one that is yet to come. If the newest of them has the object's
// template, its controller has seen that, and what it has not seen is another change: the API server raises the generation of a Deployment even
// for an annotation.
func (k Kind) HealthWith(holders []client.Object, obj client.Object) Health {
	h := k.Health(obj)
	if h.Unseen && k.isShown(obj, holders) {
		h = k.Health(asSeen(obj))
	}
	return h
}

// Health returns the health of an object from the API server, or of one that Compact has reduced. Whether Jobs succeed, their holders show
// (Facts).
func (k Kind) Health(obj client.Object) Health {
	h := Health{Progress: k.Progress(obj)}
	h.RolledOut, h.Disturbed = h.Left == "", h.Left != ""
	switch o := obj.(type) {
	case *appsv1.Deployment:
		h.Idle = desiredReplicas(o.Spec.Replicas) == 0
		h.ofDeployment(o)
	case *appsv1.StatefulSet:
		s := o.Status
		h.Idle = desiredReplicas(o.Spec.Replicas) == 0
		if h.Disturbed = s.ObservedGeneration < o.Generation || s.CurrentRevision != s.UpdateRevision; !h.Disturbed {
			h.RolledOut = s.AvailableReplicas > 0
		}
	case *appsv1.DaemonSet:
		s := o.Status
		h.Idle = s.ObservedGeneration >= o.Generation && s.DesiredNumberScheduled == 0
		h.Disturbed = s.ObservedGeneration < o.Generation || s.UpdatedNumberScheduled < s.DesiredNumberScheduled
	case *unstructured.Unstructured:
		replicas, set := count(o, "spec", "replicas")
		h.Idle = set && replicas == 0
	}
	h.Unseen = h.Left == notSeen
	return h
}

// isShown reports whether the newest holder has an object's template.
func (k Kind) isShown(obj client.Object, holders []client.Object) bool {
	if len(holders) == 0 || slices.Contains(holders, nil) {
		return false
	}
	newest := k.Holder.Facts(slices.MaxFunc(holders, func(a, b client.Object) int { return cmp.Compare(k.Holder.Facts(a).Order, k.Holder.Facts(b).Order) }))
	shown := k.Facts(obj)
	return newest.Code != "" && newest.Code == shown.Code && newest.Pins == shown.Pins && newest.Hashes == shown.Hashes
}

// asSeen returns an object as if its controller had seen its latest change.
func asSeen(obj client.Object) client.Object {
	obj = obj.DeepCopyObject().(client.Object)
	seen := int64(0)
	switch o := obj.(type) {
	case *appsv1.Deployment:
		seen = o.Status.ObservedGeneration
	case *appsv1.StatefulSet:
		seen = o.Status.ObservedGeneration
	case *appsv1.DaemonSet:
		seen = o.Status.ObservedGeneration
	case *unstructured.Unstructured:
		if seen, _ = count(o, "status", "observedGeneration"); seen == 0 {
			seen, _ = strconv.ParseInt(text(o, "status", "observedGeneration"), 10, 64)
		}
	}
	obj.SetGeneration(seen)
	return obj
}

func (h *Health) ofDeployment(o *appsv1.Deployment) {
	s := o.Status
	seen := s.ObservedGeneration >= o.Generation
	i := slices.IndexFunc(s.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == appsv1.DeploymentProgressing })
	if i < 0 {
		// Without a progress deadline there is no such condition.
		return
	}
	if h.Failed {
		h.FailedAt = s.Conditions[i].LastTransitionTime.Time
	}
	h.Disturbed = !seen || s.Conditions[i].Reason != newReplicaSetAvailable || s.Replicas > s.UpdatedReplicas
	h.RolledOut = !h.Disturbed && s.UpdatedReplicas >= min(1, desiredReplicas(o.Spec.Replicas)) && s.AvailableReplicas > 0
	if h.RolledOut {
		h.Since = s.Conditions[i].LastUpdateTime.Time
	}
	if h.Disturbed && seen && s.Conditions[i].Reason == newReplicaSetAvailable && o.Spec.ProgressDeadlineSeconds != nil {
		// It goes back to a ReplicaSet that it had. Its controller takes that for complete, whatever becomes of its pods.
		h.Deadline = time.Duration(*o.Spec.ProgressDeadlineSeconds) * time.Second
	}
}

// keptStatus are the fields of a custom resource's status that Health reads.
var keptStatus = []string{
	"observedGeneration", "replicas", "updatedReplicas", "availableReplicas", "phase", "message", "stableRS", "currentPodHash", "currentStepIndex",
}

// compactStatus removes everything from a workload's status except for what Health reads.
func compactStatus(obj client.Object) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		s := o.Status
		o.Status = appsv1.DeploymentStatus{
			ObservedGeneration: s.ObservedGeneration, Replicas: s.Replicas, UpdatedReplicas: s.UpdatedReplicas, AvailableReplicas: s.AvailableReplicas,
		}
		for _, c := range s.Conditions {
			if c.Type == appsv1.DeploymentProgressing {
				o.Status.Conditions = []appsv1.DeploymentCondition{{
					Type: c.Type, Status: c.Status, Reason: c.Reason, LastUpdateTime: c.LastUpdateTime, LastTransitionTime: c.LastTransitionTime,
				}}
			}
		}
	case *appsv1.StatefulSet:
		s := o.Status
		o.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: s.ObservedGeneration, Replicas: s.Replicas, UpdatedReplicas: s.UpdatedReplicas, AvailableReplicas: s.AvailableReplicas,
			CurrentRevision: s.CurrentRevision, UpdateRevision: s.UpdateRevision,
		}
	case *appsv1.DaemonSet:
		s := o.Status
		o.Status = appsv1.DaemonSetStatus{
			ObservedGeneration: s.ObservedGeneration, DesiredNumberScheduled: s.DesiredNumberScheduled,
			UpdatedNumberScheduled: s.UpdatedNumberScheduled, NumberAvailable: s.NumberAvailable,
		}
	case *batchv1.CronJob:
		o.Status = batchv1.CronJobStatus{}
	case *unstructured.Unstructured:
		status, ok := o.Object["status"].(map[string]any)
		if !ok {
			delete(o.Object, "status")
			return
		}
		status = maps.Clone(status)
		maps.DeleteFunc(status, func(field string, value any) bool {
			_, isMap := value.(map[string]any)
			_, isList := value.([]any)
			return !slices.Contains(keptStatus, field) || isMap || isList
		})
		o.Object["status"] = status
	}
}

// ended reports whether a Job has ended in one of the two ways.
func ended(obj client.Object, how batchv1.JobConditionType) bool {
	job, ok := obj.(*batchv1.Job)
	return ok && slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == how && c.Status == corev1.ConditionTrue })
}
