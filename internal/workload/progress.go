package workload

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RollingOut tells what is left to do until an object's controller has rolled its template out; empty when nothing is. It
// reads what `kubectl rollout status` reads (k8s.io/kubectl/pkg/polymorphichelpers/rollout_status.go), and for a Rollout what
// `kubectl argo rollouts status` reads. A CronJob or Job rolls nothing out.
func (k Kind) RollingOut(obj client.Object) string {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		s := o.Status
		return replacing(s.ObservedGeneration >= o.Generation, wanted(o.Spec.Replicas), s.Replicas, s.UpdatedReplicas, s.AvailableReplicas)
	case *appsv1.StatefulSet:
		return rollingOutStatefulSet(o)
	case *appsv1.DaemonSet:
		s := o.Status
		return replacing(s.ObservedGeneration >= o.Generation, s.DesiredNumberScheduled, s.DesiredNumberScheduled,
			s.UpdatedNumberScheduled, s.NumberAvailable)
	case *unstructured.Unstructured:
		if k.GVK == Rollout.GVK {
			return rollingOutRollout(o)
		}
		return rollingOutOther(o)
	}
	return ""
}

func wanted(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// replacing tells how far the replacement of pods is.
func replacing(seen bool, want, all, updated, available int32) string {
	switch {
	case !seen:
		return "its controller has not seen the change yet"
	case updated < want:
		return fmt.Sprintf("%d of %d pods are new", updated, want)
	case all > updated:
		return fmt.Sprintf("%d old pods are left", all-updated)
	case available < want:
		return fmt.Sprintf("%d of %d pods are available", available, want)
	}
	return ""
}

func rollingOutStatefulSet(o *appsv1.StatefulSet) string {
	s, want := o.Status, wanted(o.Spec.Replicas)
	text := replacing(s.ObservedGeneration >= o.Generation, want, want, s.UpdatedReplicas, s.AvailableReplicas)
	if text != "" && o.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return text + "; a pod is new once it was deleted (updateStrategy OnDelete)"
	}
	if rolling := o.Spec.UpdateStrategy.RollingUpdate; text != "" && rolling != nil && rolling.Partition != nil && *rolling.Partition > 0 {
		return fmt.Sprintf("%s; pods below partition %d stay", text, *rolling.Partition)
	}
	return text
}

func rollingOutRollout(o *unstructured.Unstructured) string {
	// Argo Rollouts writes the generation as text.
	if text(o, "status", "observedGeneration") != strconv.FormatInt(o.GetGeneration(), 10) {
		return "its controller has not seen the change yet"
	}
	if phase := text(o, "status", "phase"); phase != "Healthy" {
		if why := text(o, "status", "message"); why != "" {
			return phase + ": " + why
		}
		return "its phase is " + phase
	}
	if stable := text(o, "status", "stableRS"); stable != text(o, "status", "currentPodHash") {
		return "the new ReplicaSet is not stable yet"
	}
	return ""
}

// rollingOutOther reads the usual fields of a kind that confrev does not know, where they are.
func rollingOutOther(o *unstructured.Unstructured) string {
	seen, ok := count(o, "status", "observedGeneration")
	want, scaled := count(o, "spec", "replicas")
	updated, counted := count(o, "status", "updatedReplicas")
	if ok && seen < o.GetGeneration() {
		return "its controller has not seen the change yet"
	}
	if !scaled || !counted {
		return ""
	}
	all, _ := count(o, "status", "replicas")
	available, known := count(o, "status", "availableReplicas")
	if !known {
		available = want
	}
	return replacing(true, int32(want), int32(all), int32(updated), int32(available)) //nolint:gosec // No workload has so many pods.
}

func text(o *unstructured.Unstructured, path ...string) string {
	value, _, _ := unstructured.NestedString(o.Object, path...)
	return value
}

func count(o *unstructured.Unstructured, path ...string) (int64, bool) {
	n, found, err := unstructured.NestedInt64(o.Object, path...)
	return n, found && err == nil
}
