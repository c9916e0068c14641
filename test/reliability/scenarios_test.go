//go:build reliability

package reliability

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/test/gen"
)

// scenarios are what confrev does, one kind of work each.
var scenarios = map[string]scenario{
	// Rule 4. Opting in is not a request in which the webhook pins.
	"first pins of workloads that exist": {
		prepare: func(w *world) {
			w.Create(configMap(source, "A"), deployment("a", gen.Untracked), deployment("b", gen.Untracked), statefulSet("s", gen.Untracked))
			w.waitPinned("")
		},
		act: func(w *world) {
			w.annotate(&appsv1.Deployment{}, "a", keys.Track, "all")
			w.annotate(&appsv1.Deployment{}, "b", keys.Track, "all")
			w.annotate(&appsv1.StatefulSet{}, "s", keys.Track, "all")
		},
		done:     func(w *world) string { return w.notPinned("A", nil) },
		rollouts: true,
	},
	"new workloads": {
		prepare: func(*world) {},
		act: func(w *world) {
			w.Create(configMap(source, "A"), deployment("a"), deployment("b"), statefulSet("s"))
		},
		done: func(w *world) string { return w.notPinned("A", nil) },
	},
	"an edit": {
		prepare:  func(w *world) { w.has("A", deployment("a"), deployment("b"), statefulSet("s")) },
		act:      func(w *world) { w.Edit(source, color, "B") },
		done:     func(w *world) string { return w.notPinned("B", nil) },
		rollouts: true,
	},
	// Rules 4 and 21. The webhook would note the hold in the user's own request, and confrev write nothing.
	"an undo that the webhook missed": {
		prepare: func(w *world) {
			w.has("A", deployment("a"), deployment("b"))
			w.Edit(source, color, "B")
			w.waitPinned("B")
		},
		act: func(w *world) {
			cluster.CutWebhook()
			defer cluster.MendWebhook()
			w.Undo("a")
		},
		done: func(w *world) string {
			if complaint := w.notHeld("a"); complaint != "" {
				return complaint
			}
			return w.notPinned("B", map[string]string{"a": "A"})
		},
		rollouts: true,
	},
	// Rule 2: two rollouts without the webhook, so they do not count.
	"a deploy with an edit": {
		prepare: func(w *world) { w.has("A", deployment("a"), deployment("b")) },
		act: func(w *world) {
			w.Edit(source, color, "B")
			w.deploy("a", "app:2")
		},
		done: func(w *world) string { return w.notPinned("B", nil) },
	},
	// Rule 13. Without history, no one uses what was before.
	"an edit that leaves a revision unused": {
		prepare: func(w *world) { w.has("A", deployment("a", gen.HistoryLimit(0))) },
		act:     func(w *world) { w.Edit(source, color, "B") },
		done: func(w *world) string {
			if n := len(w.Revisions(source)); n > 1 {
				return fmt.Sprint(n, " revisions")
			}
			return w.notPinned("B", nil)
		},
		rollouts: true,
	},
	"a deploy in mode attach": {
		prepare: func(w *world) {
			w.Create(attachable(source), deployment("a", gen.Annotated(keys.Mode, optin.Attach.Name), gen.HistoryLimit(0)))
			w.Eventually(source+" is owned", func() string { return w.notAttached(source) })
		},
		act: func(w *world) {
			w.Create(attachable(source + "-2"))
			w.Kubectl("patch", "deployment", "a", "--type=json", "-p",
				`[{"op":"replace","path":"/spec/template/spec/containers/0/envFrom/0/configMapRef/name","value":"`+source+`-2"}]`)
		},
		done: func(w *world) string {
			if !w.Gone(source) {
				return source + " is still there"
			}
			return w.notAttached(source + "-2")
		},
		rollouts: true,
	},
	"an edit in mode restart": {
		prepare: func(w *world) {
			w.Create(configMap(source, "A"), deployment("a", gen.Annotated(keys.Mode, optin.Restart.Name)))
			w.Eventually("a follows "+source, func() string {
				if notes := w.Deployment("a").Annotations[keys.Hashes]; !strings.Contains(notes, source) {
					return notes
				}
				return ""
			})
		},
		act: func(w *world) { w.Edit(source, color, "B") },
		done: func(w *world) string {
			if !strings.Contains(w.Deployment("a").Spec.Template.Annotations[keys.Hashes], source) {
				return "not restarted"
			}
			return w.NotRolledOut("a")
		},
		rollouts: true,
	},
	// Rules 37 and 40.
	"a change that spreads, fails and is undone": {
		prepare: func(w *world) {
			impatient := func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(5)) }
			cm := configMap(source, "A")
			cm.Annotations = map[string]string{keys.Steps: "1", keys.OnFailure: "undo"}
			w.Create(cm, deployment("a", impatient), deployment("b", impatient))
			w.waitPinned("A")
			w.noMorePods()
		},
		act: func(w *world) { w.Edit(source, color, "B") },
		done: func(w *world) string {
			if complaint := w.notHeld("a"); complaint != "" {
				return complaint
			}
			return w.notPinned("A", nil)
		},
		rollouts: true,
	},
}

// has creates the source with a value, and workloads that are pinned to it.
func (w *world) has(value string, workloads ...client.Object) {
	w.Helper()
	w.Create(configMap(source, value))
	w.Create(workloads...)
	w.waitPinned(value)
}

// attachable makes a ConfigMap that confrev may attach, and protects.
func attachable(name string) *corev1.ConfigMap {
	cm := configMap(name, name)
	cm.Annotations = map[string]string{keys.Attach: "true", keys.Protect: "true"}
	return cm
}

// notAttached complains unless Deployment a and a ReplicaSet of it own a ConfigMap, which is protected.
func (w *world) notAttached(name string) string {
	w.Helper()
	cm := &corev1.ConfigMap{}
	w.Must(w.Get(name, cm))
	if len(cm.OwnerReferences) != 2 || len(cm.Finalizers) != 1 {
		return fmt.Sprintf("owners %v, finalizers %q", cm.OwnerReferences, cm.Finalizers)
	}
	return w.NotRolledOut("a")
}

// noMorePods keeps Deployments from rolling anything out: no pod can be created.
func (w *world) noMorePods() {
	w.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	w.Create(quota)
	w.Eventually("the API server refuses pods", func() string {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "probe"}, Spec: *gen.PodSpec()}
		err := cluster.Client.Create(w.Ctx, pod, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "exceeded quota") {
			return fmt.Sprint("the answer is ", err)
		}
		return ""
	})
}
