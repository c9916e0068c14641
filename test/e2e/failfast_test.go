//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/env"
)

// crashing returns the status of a container that has crashed so often. KWOK runs no containers, so tests say what a kubelet would.
func crashing(times int32) corev1.ContainerStatus {
	end := &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "password: canary", FinishedAt: metav1.Now()}
	return corev1.ContainerStatus{
		Name: "app", Image: "app:1", ImageID: "app:1", RestartCount: times - 1,
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: end},
	}
}

// podsWith returns the pods that have a pin.
func (w *world) podsWith(source pin.Source, p pin.Pin) []corev1.Pod {
	w.Helper()
	pods := &corev1.PodList{}
	w.Must(cluster.Client.List(w.Ctx, pods, client.InNamespace(w.NS)))
	return slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		set, err := pin.Parse(pod.Annotations[keys.Pins])
		return err != nil || set[source] != p || pod.DeletionTimestamp != nil
	})
}

// crash waits until there is a running pod with a pin, and makes its container crash.
func (w *world) crash(source pin.Source, p pin.Pin, status corev1.ContainerStatus) (crashed corev1.Pod) {
	w.Helper()
	w.Eventually("a pod with the change crashes", func() string {
		pods := w.podsWith(source, p)
		i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return len(pod.Status.ContainerStatuses) > 0 })
		if i < 0 {
			return fmt.Sprintf("none of %d pods runs", len(pods))
		}
		crashed = pods[i]
		before := client.MergeFrom(crashed.DeepCopy())
		crashed.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		for j := range crashed.Status.Conditions {
			if c := &crashed.Status.Conditions[j]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
				c.Status = corev1.ConditionFalse
			}
		}
		if err := cluster.Client.Status().Patch(w.Ctx, &crashed, before); err != nil {
			return err.Error()
		}
		return ""
	})
	return crashed
}

// podsAreLookedAt waits until confrev has looked at pods of the namespace twice more.
func (w *world) podsAreLookedAt() {
	w.Helper()
	mark, err := cluster.AuditNow()
	w.Must(err)
	w.Eventually("confrev looks at the pods", func() string {
		requests, err := cluster.Requests(mark, func(r env.Request) bool {
			return r.Verb == "list" && r.Object.Resource == "pods" && r.Object.Namespace == w.NS && strings.HasPrefix(r.UserAgent, "confrev/")
		})
		w.Must(err)
		if len(requests) < 2 {
			return fmt.Sprintf("%d times so far", len(requests))
		}
		return ""
	})
}

// Rule 41: a crash in a pod of each kind stops the change, and is rolled back where confrev may; what waits never gets it.
func TestEveryKindFailsFast(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		if s.name == aCronJob.name {
			theJobFails(w, s)
			return
		}
		a, first := w.launch(s, "web")
		w.Kubectl("annotate", "configmap/"+a.conf, keys.OnFailure+"=undo", keys.Bake+"=1h")
		a.Edit(a.conf, sourceKey, "B")
		source := pin.Source{Kind: pin.ConfigMap, Name: a.conf}
		var second pin.Pin
		a.Eventually("it takes the change", func() string {
			if second = a.pinned().conf; second == first.conf {
				return "it has not"
			}
			return ""
		})
		if s.name == aStepwiseCanary.name {
			// A canary that waits for a person still runs pods with the change.
			a.isAt(spread.Parked, "Paused: CanaryPauseStep")
		}
		w.crash(source, second, crashing(2))
		w.WaitEvent("ChangeFailed", "web", "revision 2 of configmap/"+a.conf+" failed: container app crashed 2 times.")
		if s.templated == workload.Rollout {
			// Argo Rollouts has an abort of its own.
			w.WaitEvent("ChangeFailed", "web", "confrev leaves it to Argo Rollouts to go back here (kubectl argo rollouts abort web -n "+w.NS+")")
			w.Barrier()
			if got := a.pinned().conf; got != second {
				t.Errorf("it is pinned to %s", got)
			}
		} else {
			a.Eventually("it goes back", func() string {
				if got := a.pinned().conf; got != first.conf {
					return "it is pinned to " + got.String()
				}
				return ""
			})
		}
		w.confrev("status", "configmap/"+a.conf).ends(4, "revision 2 is Stopped", s.templated.Resource()+"/web failed with it")
		// What confrev rolled back takes the change when a person continues it.
		w.confrev("resume", "configmap/"+a.conf).ends(0, "continues")
		a.takes(second)
	})
}

// theJobFails does the same with a CronJob: the first Job with the change fails, after one without it has succeeded.
func theJobFails(w *world, s subject) {
	a, first := w.launch(s, "web")
	w.Kubectl("annotate", "configmap/"+a.conf, keys.OnFailure+"=undo", keys.MaxRolling+"=1")
	a.patch(`{"spec":{"jobTemplate":{"spec":{"activeDeadlineSeconds":1}}}}`)
	a.Edit(a.conf, sourceKey, "B")
	var second pin.Pin
	a.Eventually("it takes the change", func() string {
		if second = a.pinned().conf; second == first.conf {
			return "it has not"
		}
		return ""
	})
	end := w.noMorePods()
	startJob(a)
	w.WaitEvent("ChangeFailed", "web", "revision 2 of configmap/"+a.conf+" failed: its first Job with the change failed.")
	a.Eventually("it goes back", func() string {
		if got := a.pinned().conf; got != first.conf {
			return "it is pinned to " + got.String()
		}
		return ""
	})
	end()
	// The next Job may take its time.
	a.patch(`{"spec":{"jobTemplate":{"spec":{"activeDeadlineSeconds":null}}}}`)
	w.confrev("resume", "configmap/"+a.conf).ends(0, "continues")
	a.takes(second)
	// The Job that failed does not count a second time.
	startJob(a)
	w.Eventually("it is complete", func() string {
		if s := w.spreadOf(a.conf); s.State != view.Complete {
			return fmt.Sprintf("%+v", s)
		}
		return ""
	})
}

// takes waits until an application is pinned to a revision of its ConfigMap.
func (a *app) takes(revision pin.Pin) {
	a.Helper()
	a.Eventually("it takes the change", func() string {
		if got := a.pinned().conf; got != revision {
			return "it is pinned to " + got.String()
		}
		return ""
	})
}

// Rule 41: a workload says how many crashes are a failure. Those of an injected container, of an image, and once are none.
func TestWhatIsNoCrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.Steps: "1", keys.Bake: "1h", keys.OnFailure: "undo"}, "a", "b")
	w.Kubectl("annotate", "deployment/a", keys.Crashes+"=3")
	w.Edit("shared", "color", "B")
	w.allHave(first, "a")
	w.areRolledOut("a")
	injected := crashing(9)
	injected.Name = "mesh"
	source, second := pin.Source{Kind: pin.ConfigMap, Name: "shared"}, w.PinOf("a", "shared")
	for _, status := range []corev1.ContainerStatus{injected, crashing(2)} {
		w.crash(source, second, status)
		w.podsAreLookedAt()
		if have := w.have(first, "a", "b"); !slices.Equal(have, []string{"a"}) {
			t.Fatalf("%v have the change", have)
		}
	}
	w.crash(source, second, crashing(3))
	w.goesBack("a", first)
	w.WaitEvent("ChangeFailed", "a", "revision 2 of configmap/shared failed: container app crashed 3 times. No other workload gets it. It is rolled back here")
}

// Rule 41: a StatefulSet that was rolled back does not replace its stuck pod by itself. confrev evicts it, as far as disruption budgets permit.
func TestAStuckPodIsEvicted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, first := w.launch(complete(aStatefulSet)[0], "web")
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	// More than there are: with those that there are, a pod may go until the controller of budgets has seen that it is not ready.
	budget.Spec.MinAvailable = new(intstr.FromInt32(100))
	w.Create(budget)
	w.Kubectl("annotate", "configmap/"+a.conf, keys.OnFailure+"=undo", keys.Bake+"=1h")
	a.Edit(a.conf, sourceKey, "B")
	var second pin.Pin
	a.Eventually("it takes the change", func() string {
		if second = a.pinned().conf; second == first.conf {
			return "it has not"
		}
		return ""
	})
	source := pin.Source{Kind: pin.ConfigMap, Name: a.conf}
	mark := auditMark(t)
	stuck := w.crash(source, second, crashing(2))
	a.Eventually("it goes back", func() string {
		if got := a.pinned().conf; got != first.conf {
			return "it is pinned to " + got.String()
		}
		return ""
	})
	w.evictionIsRefused(mark, stuck.Name)
	if !slices.ContainsFunc(w.podsWith(source, second), func(pod corev1.Pod) bool { return pod.UID == stuck.UID }) {
		t.Fatal("the stuck pod is gone")
	}
	w.Kubectl("delete", "pdb", "web")
	a.allRead(first)
	w.Eventually("all pods are ready", func() string {
		set := &appsv1.StatefulSet{}
		w.Must(w.Get("web", set))
		if set.Status.ReadyReplicas != *set.Spec.Replicas || set.Status.CurrentRevision != set.Status.UpdateRevision {
			return fmt.Sprintf("%+v", set.Status)
		}
		return ""
	})
}

// evictionIsRefused waits until the API server has refused to evict a pod since a mark.
func (w *world) evictionIsRefused(mark env.AuditMark, pod string) {
	w.Helper()
	uri := fmt.Sprintf("/namespaces/%s/pods/%s/eviction", w.NS, pod)
	w.Eventually("the eviction of "+pod+" is refused", func() string {
		refused := false
		// Not Requests, which leaves out what is answered like this.
		w.Must(cluster.AuditLines(mark, func(line string) error {
			if !strings.Contains(line, uri) {
				return nil
			}
			var r env.Request
			err := json.Unmarshal([]byte(line), &r)
			refused = refused || r.Response.Code == http.StatusTooManyRequests
			return err
		}))
		if !refused {
			return "it has not been tried"
		}
		return ""
	})
}

// Rule 40: who is stuck on faulty content already does not go back to that, but to what it had before.
func TestUndoAllSkipsWhatNeverWorked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.Steps: "1"}, "a", "b")
	end := w.noProgress("a", "b")
	w.Edit("shared", "color", "broken")
	w.allHave(first, "a")
	w.Eventually("it is stuck", func() string {
		if s := stages(w.spreads()); s != "a:Failed b:Waiting" {
			return s
		}
		return ""
	})
	broken := w.PinOf("a", "shared")
	// At once: what fails under undo-all is undone at once, too.
	w.Kubectl("patch", "configmap/shared", "--type=merge", "-p", `{"metadata":{"annotations":{"`+keys.OnFailure+`":"undo-all"}},"data":{"color":"broken, too"}}`)
	w.Eventually("who is stuck takes the repair, which is none", func() string {
		if p := w.PinOf("a", "shared"); p == broken {
			return "it has " + p.String()
		}
		return ""
	})
	w.confrev("advance", "configmap/shared", "--past-wave", "1").ends(0)
	w.WaitEvent("ChangeFailed", "b", "revision 3 of configmap/shared failed")
	w.goesBack("b", first)
	w.goesBack("a", first)
	end()
	w.confrev("status", "configmap/shared").ends(4, "revision 3 is Stopped", "deployment/b failed with it")
}
