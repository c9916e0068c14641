// Package crash finds containers that fail with the configuration of a change, in the pods of a workload (rule 41). It is a function of the
// pods: no client, no clock, no context. It repeats nothing of what a container or its runtime said, which may have content in it.
package crash

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
)

// Default is how many crashes of a container are a failure, unless its workload says otherwise.
const Default = 2

// Change is what a workload has taken.
type Change struct {
	// Template is the workload's, with the pins of the change. Containers that it does not have were injected, and do not count.
	Template *corev1.PodTemplateSpec
	// Since is when it took the change.
	Since time.Time
	// Limit is how many crashes of one container are a failure, in all pods together.
	Limit int
	// Stable is how long a container must have been running again for its earlier crashes to count no longer.
	Stable time.Duration
}

// cannotStart are the reasons for which a container is not even started, and which a reference or the command can cause. Images, volumes and
// scheduling are not among them: a pin cannot make them fail.
var cannotStart = []string{"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// Find returns what fails in the pods of a workload that have the pins of its template; empty if nothing does. A container that fails in
// the workload's other pods too, which have other configuration, proves nothing.
func Find(change Change, pods []corev1.Pod, now time.Time) string {
	pins := change.Template.Annotations[keys.Pins]
	crashes, broken := map[string]int{}, map[string]string{}
	elsewhere := map[string]bool{}
	for i := range pods {
		pod := &pods[i]
		if isDisturbed(pod) {
			continue
		}
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			reason, exits := look(status, change, now)
			if pod.Annotations[keys.Pins] != pins {
				elsewhere[status.Name] = elsewhere[status.Name] || reason != "" || exits > 0
				continue
			}
			crashes[status.Name] += exits
			if reason != "" {
				broken[status.Name] = reason
			}
		}
	}
	for _, container := range slices.Concat(change.Template.Spec.InitContainers, change.Template.Spec.Containers) {
		switch name := container.Name; {
		case elsewhere[name]:
		case broken[name] != "":
			return fmt.Sprintf("container %s cannot start: %s", name, broken[name])
		case crashes[name] >= max(1, change.Limit):
			return fmt.Sprintf("container %s crashed %s", name, times(crashes[name]))
		}
	}
	return ""
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// isDisturbed reports whether a pod ends, or was ended, for a reason that has nothing to do with its configuration: it was deleted, evicted
// or preempted, or its node went away.
func isDisturbed(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Reason != "" || slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}

// look returns why a container cannot start, if it cannot, and how often it crashed since the change. A failed liveness or startup probe
// ends a container with an exit code as well, and so does a lack of memory.
func look(status corev1.ContainerStatus, change Change, now time.Time) (reason string, exits int) {
	if waiting := status.State.Waiting; waiting != nil && slices.Contains(cannotStart, waiting.Reason) {
		return waiting.Reason, 0
	}
	last := status.LastTerminationState.Terminated
	ended := status.State.Terminated
	for _, end := range []*corev1.ContainerStateTerminated{last, ended} {
		if end == nil || end.ExitCode == 0 || end.FinishedAt.Time.Before(change.Since) {
			continue
		}
		// Kubernetes shows only the last two ends. Those before had the same configuration, since a pod never gets another.
		exits = int(status.RestartCount)
		if ended != nil || status.State.Waiting != nil {
			exits++
		}
	}
	if running := status.State.Running; running != nil && now.Sub(running.StartedAt.Time) > change.Stable {
		return "", 0
	}
	return "", exits
}
