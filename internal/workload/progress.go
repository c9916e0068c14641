package workload

import (
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Progress is how far an object's controller has rolled out its template.
type Progress struct {
	// Left says what is left to do. It is empty if the rollout is complete.
	Left string
	// Failed is true if the controller reports that the rollout failed.
	Failed bool
	// NeedsAction is true if the rollout does not continue by itself, so that a person has to act.
	NeedsAction bool
}

const notSeen = "its controller has not seen the change yet"

// Progress returns how far an object's controller has rolled out its template. It reads the same fields as `kubectl rollout status`
// (k8s.io/kubectl/pkg/polymorphichelpers/rollout_status.go; a test of the plugin compares them), and for a Rollout the same as
// `kubectl argo rollouts status`. The rollout of a CronJob or Job is always complete.
func (k Kind) Progress(obj client.Object) Progress {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return progressOfDeployment(o)
	case *appsv1.StatefulSet:
		return progressOfStatefulSet(o)
	case *appsv1.DaemonSet:
		s := o.Status
		text := remainingPods(s.ObservedGeneration >= o.Generation, s.DesiredNumberScheduled, s.DesiredNumberScheduled,
			s.UpdatedNumberScheduled, s.NumberAvailable)
		if text != "" && o.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType && s.UpdatedNumberScheduled < s.DesiredNumberScheduled {
			return Progress{Left: text + onDelete, NeedsAction: s.ObservedGeneration >= o.Generation}
		}
		return Progress{Left: text}
	case *unstructured.Unstructured:
		if k.GVK == Rollout.GVK {
			return progressOfRollout(o)
		}
		return Progress{Left: remainingOfOther(o)}
	}
	return Progress{}
}

const onDelete = "; pods are replaced only when they are deleted (updateStrategy OnDelete)"

func progressOfDeployment(o *appsv1.Deployment) Progress {
	s := o.Status
	seen := s.ObservedGeneration >= o.Generation
	left := remainingPods(seen, desiredReplicas(o.Spec.Replicas), s.Replicas, s.UpdatedReplicas, s.AvailableReplicas)
	exceeded := slices.ContainsFunc(s.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentProgressing && c.Reason == "ProgressDeadlineExceeded"
	})
	if !seen || !exceeded {
		return Progress{Left: left}
	}
	text := "it exceeded its progress deadline"
	if left != "" {
		text += ": " + left
	}
	return Progress{Left: text, Failed: true}
}

func desiredReplicas(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// remainingPods returns what is left of the replacement of pods. It is empty if nothing is.
func remainingPods(seen bool, want, all, updated, available int32) string {
	switch {
	case !seen:
		return notSeen
	case updated < want:
		return fmt.Sprintf("%d of %d pods are new", updated, want)
	case all > updated:
		return fmt.Sprintf("%d old pods are left", all-updated)
	case available < want:
		return fmt.Sprintf("%d of %d pods are available", available, want)
	}
	return ""
}

func progressOfStatefulSet(o *appsv1.StatefulSet) Progress {
	s, want := o.Status, desiredReplicas(o.Spec.Replicas)
	seen := s.ObservedGeneration >= o.Generation
	text := remainingPods(seen, want, want, s.UpdatedReplicas, s.AvailableReplicas)
	if text == "" || !seen || s.UpdatedReplicas >= want {
		return Progress{Left: text}
	}
	if o.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return Progress{Left: text + onDelete, NeedsAction: true}
	}
	if rolling := o.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil && *rolling.Partition > 0 {
		done := s.UpdatedReplicas >= want-*rolling.Partition && s.AvailableReplicas >= want
		return Progress{Left: fmt.Sprintf("%s; pods below partition %d stay", text, *rolling.Partition), NeedsAction: done}
	}
	return Progress{Left: text}
}

func progressOfRollout(o *unstructured.Unstructured) Progress {
	// Argo Rollouts writes the generation as text.
	if text(o, "status", "observedGeneration") != strconv.FormatInt(o.GetGeneration(), 10) {
		return Progress{Left: notSeen}
	}
	if phase := text(o, "status", "phase"); phase != "Healthy" {
		left := "its phase is " + phase
		if why := text(o, "status", "message"); why != "" {
			left = phase + ": " + why
		}
		return Progress{Left: left, Failed: phase == "Degraded", NeedsAction: phase == "Paused" && !resumesItself(o)}
	}
	if stable := text(o, "status", "stableRS"); stable != text(o, "status", "currentPodHash") {
		return Progress{Left: "the new ReplicaSet is not stable yet"}
	}
	return Progress{}
}

// resumesItself reports whether a paused Rollout resumes without a person: after the duration of its canary's step, or after
// autoPromotionSeconds.
func resumesItself(o *unstructured.Unstructured) bool {
	if paused, _, _ := unstructured.NestedBool(o.Object, "spec", "paused"); paused {
		return false
	}
	if seconds, _ := count(o, "spec", "strategy", "blueGreen", "autoPromotionSeconds"); seconds > 0 {
		return true
	}
	steps, _, _ := unstructured.NestedSlice(o.Object, "spec", "strategy", "canary", "steps")
	at, known := count(o, "status", "currentStepIndex")
	if !known || at < 0 || at >= int64(len(steps)) {
		return false
	}
	step, _ := steps[at].(map[string]any)
	_, timed, _ := unstructured.NestedFieldNoCopy(step, "pause", "duration")
	return timed
}

// remainingOfOther reads the fields that most kinds have in common, as far as a kind that confrev does not know has them.
func remainingOfOther(o *unstructured.Unstructured) string {
	seen, ok := count(o, "status", "observedGeneration")
	want, scaled := count(o, "spec", "replicas")
	updated, counted := count(o, "status", "updatedReplicas")
	if ok && seen < o.GetGeneration() {
		return notSeen
	}
	if !scaled || !counted {
		return ""
	}
	all, _ := count(o, "status", "replicas")
	available, known := count(o, "status", "availableReplicas")
	if !known {
		available = want
	}
	return remainingPods(true, int32(want), int32(all), int32(updated), int32(available)) //nolint:gosec // No workload has so many pods.
}

func text(o *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(o.Object, path...)
	return value
}

func count(o *unstructured.Unstructured, path ...string) (int64, bool) {
	n, found, err := unstructured.NestedInt64(o.Object, path...)
	return n, found && err == nil
}
