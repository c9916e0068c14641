//go:build node

package node

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Each retry of a Job reads what its CronJob was pinned to when the Job was created, whatever the source says by then: the
// kubelet's retries in the same pod, and the Job controller's, which are new pods.
func TestJobRetriesWithItsFirstConfiguration(t *testing.T) {
	t.Parallel()
	for _, policy := range []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Create(configMap("app", "mode", "crash"))
			pod := probe(byVolume("configmap/app"), byEnv("configmap/app", "mode"))
			pod.RestartPolicy = policy
			pins := w.deploy(cronJob, pod)
			for i, mode := range []string{"green", "red", "white"} {
				w.waitAttempts(i + 1)
				for _, pod := range w.pods() {
					w.checkReading(fmt.Sprintf("attempt %d", i+1), w.startedWith(pod), reading{
						Env:   map[string]string{"CFG_ENV_mode": "crash"},
						Files: map[string]string{volumePath("configmap/app", "mode"): "crash"},
					})
				}
				w.Edit("app", "mode", mode)
				pins = w.waitOtherPins(cronJob, pins)
			}
		})
	}
}

// waitAttempts waits until a Job's containers were started so often.
func (w *world) waitAttempts(n int) {
	w.Helper()
	w.Eventually(fmt.Sprintf("attempt %d", n), func() string {
		attempts := 0
		for _, pod := range w.pods() {
			attempts += 1 + int(restarts(pod))
		}
		if attempts < n {
			return fmt.Sprintf("%d attempts", attempts)
		}
		return ""
	})
}
