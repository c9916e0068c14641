package workload

import (
	"fmt"
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
	// Works is true if it is RolledOut, or was when its controller last looked, and nothing shows that its template has changed since: the API server
	// raises the generation of a Deployment even for an annotation. It is no evidence of a template that was written a moment ago.
	Works bool
	// Since is when the rollout was complete; zero if the kind does not record that.
	Since time.Time
	// Disturbed is true while a template is being rolled out.
	Disturbed bool
	// Unseen is true until its controller has looked at it after the latest change, whatever that was. It counts as Disturbed meanwhile.
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

// HealthWith returns the health of an object whose holders are known, nil for one that is yet to come.
func (k Kind) HealthWith(holders []client.Object, obj client.Object) Health {
	h := k.Health(obj)
	d, ok := obj.(*appsv1.Deployment)
	if !ok || !h.Unseen || d.Status.AvailableReplicas == 0 {
		return h
	}
	template := k.Facts(d)
	h.Works = slices.ContainsFunc(holders, func(holder client.Object) bool {
		return holder != nil && isComplete(d, holder.GetName()) && k.Holder.Facts(holder).sameTemplate(template)
	})
	return h
}

// workloadGeneration is the field of an Argo Rollout's status for the generation of the Deployment that it last saw, whose template it uses.
const workloadGeneration = "workloadObservedGeneration"

// HealthOf returns the health of an object that rolls out the template of a lender, which may be the object itself. As HealthWith, it is given the holders.
func (k Kind) HealthOf(holders []client.Object, obj, lender client.Object) Health {
	h := k.HealthWith(holders, obj)
	if o, ok := obj.(*unstructured.Unstructured); ok && obj.GetUID() != lender.GetUID() {
		if seen := text(o, "status", workloadGeneration); seen != "" && seen != strconv.FormatInt(lender.GetGeneration(), 10) {
			h.Left, h.RolledOut, h.Works, h.Disturbed, h.Unseen, h.Failed, h.NeedsAction = notSeen, false, false, true, true, false, false
		}
	}
	return h
}

// isComplete reports whether a Deployment's controller has said that a ReplicaSet is rolled out
// (k8s.io/kubernetes/pkg/controller/deployment/progress.go).
func isComplete(d *appsv1.Deployment, replicaSet string) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Reason == newReplicaSetAvailable && c.Message == fmt.Sprintf("ReplicaSet %q has successfully progressed.", replicaSet)
	})
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
		h.Idle = desiredReplicas(o.Spec.Replicas) == 0
		h.ofStatefulSet(o)
	case *appsv1.DaemonSet:
		s := o.Status
		h.Idle = s.ObservedGeneration >= o.Generation && s.DesiredNumberScheduled == 0
		h.Disturbed = s.ObservedGeneration < o.Generation || s.UpdatedNumberScheduled < s.DesiredNumberScheduled
	case *unstructured.Unstructured:
		replicas, set := count(o, "spec", "replicas")
		h.Idle = set && replicas == 0
	}
	h.Unseen, h.Works = h.Left == notSeen, h.RolledOut
	return h
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

func (h *Health) ofStatefulSet(o *appsv1.StatefulSet) {
	s := o.Status
	seen := s.ObservedGeneration >= o.Generation
	if h.Disturbed = !seen || s.CurrentRevision != s.UpdateRevision; !h.Disturbed {
		h.RolledOut = s.AvailableReplicas > 0
	}
	if seen && o.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		// Its controller never makes the two revisions equal again (k8s.io/kubernetes/pkg/controller/statefulset, completeRollingUpdate).
		h.Disturbed = h.Disturbed && s.UpdatedReplicas < desiredReplicas(o.Spec.Replicas)
	}
}

// keptStatus are the fields of a custom resource's status that Health reads.
var keptStatus = []string{
	"observedGeneration", "replicas", "updatedReplicas", "availableReplicas", "phase", "message", "stableRS", "currentPodHash", "currentStepIndex",
	workloadGeneration,
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
					Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, LastUpdateTime: c.LastUpdateTime, LastTransitionTime: c.LastTransitionTime,
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
