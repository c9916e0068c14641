//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
)

// rolloutWithCertificate makes a Rollout whose canary waits for a promotion, and that mounts Secret cert.
func (w *world) rolloutWithCertificate(replicas int64, annotations map[string]string) *unstructured.Unstructured {
	w.Helper()
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&deployment("web", secretVolume("cert")).Spec.Template)
	w.Must(err)
	rollout := objectOf(workload.Rollout.GVK, "web", aStepwiseCanary.spec("web", template))
	rollout.SetAnnotations(annotations)
	put(rollout.Object, "spec.replicas", replicas)
	w.Create(rollout)
	return rollout
}

// settled waits until a Rollout is done with what it was told, and returns its pods.
func (w *world) settled(rollout *unstructured.Unstructured) map[types.UID]bool {
	w.Helper()
	pods := map[types.UID]bool{}
	w.Eventually("the Rollout is healthy", func() string {
		w.Must(w.Get("web", rollout))
		list := &corev1.PodList{}
		w.Must(cluster.Client.List(w.Ctx, list, client.InNamespace(w.NS), client.MatchingLabels{"app": "web"}))
		clear(pods)
		for _, pod := range list.Items {
			if pod.DeletionTimestamp == nil {
				pods[pod.UID] = true
			}
		}
		if phase := at(rollout.Object, "status.phase"); phase != "Healthy" || int64(len(pods)) != count(rollout.Object, "spec.replicas") ||
			fmt.Sprint(at(rollout.Object, "status.observedGeneration")) != fmt.Sprint(rollout.GetGeneration()) {
			return fmt.Sprintf("%v, with %d pods", phase, len(pods))
		}
		return ""
	})
	return pods
}

// Policy rotate: where a Rollout asks for it and has two replicas, its pods are restarted without an update.
func TestARolloutRestartsForARotatedCredential(t *testing.T) {
	t.Parallel()
	asks := map[string]string{keys.Track: "all", keys.RotateBy: "restart-at"}
	for name, test := range map[string]struct {
		replicas    int64
		annotations map[string]string
		restarts    bool
	}{
		"two replicas":               {replicas: 2, annotations: asks, restarts: true},
		"one replica":                {replicas: 1, annotations: asks},
		"two replicas, not asked to": {replicas: 2, annotations: map[string]string{keys.Track: "all"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Create(certificate("cert", "A"))
			rollout := w.rolloutWithCertificate(test.replicas, test.annotations)
			before := w.settled(rollout)
			noted := rollout.GetAnnotations()[keys.Hashes]
			w.rotate("cert", "B")
			w.WaitEvent("Restarted", "web", "secret/cert was rotated")
			w.Must(w.Get("web", rollout))
			stamped, restartAt := at(rollout.Object, "spec.template.metadata.annotations"), at(rollout.Object, "spec.restartAt")
			if !test.restarts {
				if restartAt != nil || !strings.Contains(fmt.Sprint(stamped), "secret/cert=") {
					t.Errorf("restartAt %v, the template has %v", restartAt, stamped)
				}
				return
			}
			if restartAt == nil || strings.Contains(fmt.Sprint(stamped), "secret/cert=") || rollout.GetAnnotations()[keys.Hashes] == noted {
				t.Errorf("restartAt %v, the template has %v, noted %s, before %s", restartAt, stamped, rollout.GetAnnotations()[keys.Hashes], noted)
			}
			w.Eventually("all pods are new", func() string {
				for uid := range w.settled(rollout) {
					if before[uid] {
						return "one is old"
					}
				}
				return ""
			})
			generation := rollout.GetGeneration()
			w.Barrier()
			if w.Must(w.Get("web", rollout)); rollout.GetGeneration() != generation {
				t.Errorf("it was changed again, to generation %d after %d", rollout.GetGeneration(), generation)
			}
		})
	}
}

// What confrev's own account may do to spec.restartAt: only what the Rollout asks for.
func TestOwnAccountRestartsOptedInRolloutsOnly(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), thief(t)
	w.Create(certificate("cert", "A"))
	rollout := w.rolloutWithCertificate(2, map[string]string{keys.Track: "all"})
	restart := `{"op":"add","path":"/spec/restartAt","value":"2026-01-02T03:04:05Z"}`
	w.steal(c, rollout, "confrev may not change spec.restartAt", restart)
	w.Kubectl("annotate", "rollout.argoproj.io/web", keys.RotateBy+"=restart-at")
	w.Must(w.Get("web", rollout))
	w.steal(c, rollout, "", restart)
	w.steal(c, rollout, "confrev may not change spec.replicas", restart+`,{"op":"replace","path":"/spec/replicas","value":9}`)
	// Asking for restarts is not opting in.
	w.Kubectl("annotate", "--overwrite", "rollout.argoproj.io/web", keys.Track+"=none")
	w.Must(w.Get("web", rollout))
	w.steal(c, rollout, "confrev may not change a workload that does not opt in", restart)
}
