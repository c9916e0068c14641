//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/test/gen"
)

func inMode(mode optin.Mode) deploymentOption { return gen.Annotated(keys.Mode, mode.Name) }

func (w *world) hashes(deployment string) string {
	w.Helper()
	return w.Deployment(deployment).Spec.Template.Annotations[keys.Hashes]
}

// waitFollowed waits until a Deployment in mode restart has noted, on itself or its template, what it follows.
func (w *world) waitFollowed(deployment string, objects ...string) {
	w.Helper()
	w.Eventually(deployment+" follows "+strings.Join(objects, ", "), func() string {
		d := w.Deployment(deployment)
		notes := d.Annotations[keys.Hashes] + "," + d.Spec.Template.Annotations[keys.Hashes]
		for _, object := range objects {
			if !strings.Contains(notes, object+"=") {
				return "notes " + notes
			}
		}
		return ""
	})
}

// waitRestarted waits until a Deployment has restarted for an object, and rolled out.
func (w *world) waitRestarted(deployment, object, before string) {
	w.Helper()
	w.Eventually(deployment+" restarted for "+object, func() string {
		now := w.hashes(deployment)
		if now == before || !strings.Contains(now, object+"=") {
			return "hashes " + now
		}
		return w.NotRolledOut(deployment)
	})
}

// restarting makes a Deployment in mode restart that reads ConfigMap web.
func restarting(t *testing.T, options ...deploymentOption) *world {
	t.Helper()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A", "other", "1"),
		deployment("web", append([]deploymentOption{inMode(optin.Restart), envKey("web", "color", false)}, options...)...))
	w.waitFollowed("web", "configmap/web")
	return w
}

// Mode restart: no copies, one rollout for each change that matters, none for opting in; an undo is left alone.
func TestModeRestartRollsOncePerChange(t *testing.T) {
	t.Parallel()
	w := restarting(t)
	w.Kubectl("annotate", "configmap", "web", "note=x")
	w.Edit("web", "other", "2")
	w.Barrier()
	if got := w.hashes("web"); got != "" {
		t.Errorf("restarted for opting in, for a key that it does not use, or for metadata: %s", got)
	}

	w.Edit("web", "color", "B")
	w.waitRestarted("web", "configmap/web", "")
	w.WaitEvent("Restarted", "web", "configmap/web changed")
	second := w.hashes("web")
	w.Edit("web", "color", "C")
	w.waitRestarted("web", "configmap/web", second)
	third := w.hashes("web")
	if got := len(w.ReplicaSets("web")); got != 3 {
		t.Errorf("%d ReplicaSets, want 3", got)
	}
	if got := w.Revisions("web"); len(got) != 0 {
		t.Errorf("made a revision: %s", got[0].Name)
	}

	w.Undo("web")
	w.WaitHeld("web", "web")
	w.Barrier()
	if got := w.hashes("web"); got != second {
		t.Errorf("the undo was undone: %s, want %s", got, second)
	}
	// Its pods started on C, which was live. B is a change for them, although the template says B already.
	w.Edit("web", "color", "B")
	w.waitRestarted("web", "configmap/web", second)
	second = w.hashes("web")
	// Rule 5: content that was there before is new again.
	w.Edit("web", "color", "A")
	w.waitRestarted("web", "configmap/web", second)
	fourth := w.hashes("web")
	w.Edit("web", "color", "C")
	w.waitRestarted("web", "configmap/web", fourth)
	if got := w.hashes("web"); got == third {
		t.Errorf("content C a second time has the number of the first: %s", got)
	}
}

// Rule 6: a source that was not there when the workload opted in, and appears.
func TestModeRestartRollsWhenAnOptionalSourceAppears(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(deployment("web", inMode(optin.Restart), envKey("web", "color", true)))
	w.waitFollowed("web", "configmap/web")
	w.Barrier()
	if got := w.Events("SourceMissing", "web"); len(got) > 0 {
		t.Errorf("warned of an optional source: %s", got)
	}
	w.Create(configMap("web", "color", "A"))
	w.waitRestarted("web", "configmap/web", "")
	before := w.hashes("web")
	w.Kubectl("delete", "configmap", "web")
	w.Barrier()
	if got := w.hashes("web"); got != before {
		t.Errorf("restarted when its source went: %s", got)
	}
}

// Going back to before the first hash is no reason to restart again: the pods start again anyway.
func TestUndoToBeforeTheFirstHashIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "set", Annotations: map[string]string{keys.Track: "all", keys.Mode: optin.Restart.Name}},
		Spec:       appsv1.StatefulSetSpec{Replicas: new(int32(1)), ServiceName: "set"},
	}
	like := deployment("set", envFrom("web"))
	set.Spec.Selector, set.Spec.Template = like.Spec.Selector, like.Spec.Template
	w.Create(configMap("web", "color", "A"), set)
	hashes := func() string {
		w.Must(w.Get("set", set))
		return set.Spec.Template.Annotations[keys.Hashes]
	}
	w.Eventually("it is followed", func() string {
		if hashes(); set.Annotations[keys.Hashes] == "" {
			return "no note"
		}
		return ""
	})
	w.Edit("web", "color", "B")
	w.Eventually("it restarts", func() string {
		if hashes() == "" || set.Status.ObservedGeneration < set.Generation {
			return fmt.Sprintf("hashes %q, generation %d, seen %d", hashes(), set.Generation, set.Status.ObservedGeneration)
		}
		return ""
	})
	restarted, generation := hashes(), set.Generation
	w.Kubectl("rollout", "undo", "statefulset/set")
	w.Barrier()
	// The webhook cannot tell this from a kubectl replace, and there is no other content to go back to.
	if got := hashes(); got != restarted || set.Generation != generation {
		t.Errorf("the undo changed the template to %s, in generation %d after %d", got, set.Generation, generation)
	}
	w.Edit("web", "color", "C")
	w.Eventually("the next change restarts it", func() string {
		if got := hashes(); got == restarted {
			return "hashes " + got
		}
		return ""
	})
	w.Barrier()
	if hashes(); set.Generation != generation+1 {
		t.Errorf("the next change went from generation %d to %d, want one rollout", generation, set.Generation)
	}
}

// What confrev missed while it was down is caught up with; what it did not miss is no restart.
func modeRestartCatchesUp(m *member) {
	w := restarting(m.T)
	w.Edit("web", "color", "B")
	w.waitRestarted("web", "configmap/web", "")
	before := w.hashes("web")
	m.next()
	m.next()
	w.Barrier()
	if got := w.hashes("web"); got != before {
		m.Errorf("starting confrev restarted the workload: %s", got)
	}
	m.next()
	w.Edit("web", "color", "C")
	m.next()
	w.waitRestarted("web", "configmap/web", before)
}

// confrev.io/restart-on: sources that the pod reads through the API, and objects of any kind, by a field or as a whole.
func TestRestartOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	w.Create(configMap("web", "k", "v"), configMap("api", "k", "v"), configMap("off", "k", "v"), claim,
		deployment("web", envFrom("web"), gen.Annotated(keys.RestartOn,
			"configmap/api,configmap/off,configmap/later,persistentvolumeclaims.v1./data{.spec.volumeName},pods.v1/x,oops")))
	w.Kubectl("annotate", "configmap", "off", keys.Policy+"=ignore")
	w.WaitPinned("web", "web", "k", "v")
	w.waitFollowed("web", "configmap/api", "persistentvolumeclaims.v1/data")
	w.WaitEvent("RestartOnForbidden", "web", "confrev may not follow pods")
	w.WaitEvent("InvalidRestartOn", "web", `"oops"`)
	pins := w.PinsText("web")

	w.Kubectl("label", "pvc", "data", "y=1")
	w.Edit("off", "k", "w")
	w.Barrier()
	if got := w.hashes("web"); got != "" {
		t.Errorf("restarted for what does not matter: %s", got)
	}
	w.Create(configMap("later", "k", "v"))
	w.waitRestarted("web", "configmap/later", "")
	before := w.hashes("web")
	w.Kubectl("patch", "pvc", "data", "-p", `{"spec":{"volumeName":"pv-1"}}`)
	w.waitRestarted("web", "persistentvolumeclaims.v1/data", before)
	before = w.hashes("web")
	w.Edit("api", "k", "w")
	w.waitRestarted("web", "configmap/api", before)
	if got := w.PinsText("web"); got != pins {
		t.Errorf("pins became %s, were %s", got, pins)
	}
	if got := w.Revisions("api"); len(got) != 0 {
		t.Errorf("made revision %s of what is only followed", got[0].Name)
	}
}

// Rule 18: with injection template, the webhook answers for confrev's own writes too. It must not bring back the pins that they remove.
func modeSwitchedWhileConfrevIsDown(m *member) {
	onlyWithPolicies(m.T)
	w, _ := deployed(m.T)
	m.next()
	// It settles for long enough for the webhook to answer when confrev writes.
	w.Kubectl("annotate", "deployment", "web", keys.Mode+"=restart", keys.Injection+"=template", keys.Settle+"=10s", "--overwrite")
	m.next()
	w.waitRestarted("web", "configmap/web", "")
	if got := w.PinsText("web"); got != "" {
		m.Errorf("the pins %s are left", got)
	}
	w.podsRead("web")
}

// Switching the mode of a live workload: at most one rollout each way, and nothing is orphaned.
func TestSwitchingTheMode(t *testing.T) {
	t.Parallel()
	w, a := deployed(t, gen.HistoryLimit(1))
	w.rolledOutTimes(1)
	w.Kubectl("annotate", "deployment", "web", keys.Mode+"=restart")
	w.waitRestarted("web", "configmap/web", "")
	w.podsRead("web")
	if got := w.PinsText("web"); got != "" {
		t.Errorf("the pins %s are left: pods would read what is frozen", got)
	}
	w.Barrier()
	w.rolledOutTimes(2)
	w.Kubectl("annotate", "deployment", "web", keys.Mode+"-")
	w.WaitPinned("web", "web", "color", "A")
	w.podsRead(a.Revision)
	w.Barrier()
	w.rolledOutTimes(3)
	if got := w.hashes("web"); got != "" {
		t.Errorf("the hashes %s are left", got)
	}
	w.Kubectl("annotate", "deployment", "web", keys.Mode+"=attach")
	w.Eventually("the pins go", func() string { return w.PinsText("web") })
	w.podsRead("web")
	w.Barrier()
	w.rolledOutTimes(4)
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	w.waitGone(a.Revision)
	if w.Gone("web") {
		t.Error("the source went")
	}
}

// From restart to attach and back is no rollout: hashes stay on the template. Without any there, they are noted on the workload.
func TestSwitchingBetweenRestartAndAttachIsNoRollout(t *testing.T) {
	t.Parallel()
	w := restarting(t)
	w.Create(deployment("fresh", inMode(optin.Attach), envKey("web", "color", false)))
	w.Edit("web", "color", "B")
	w.waitRestarted("web", "configmap/web", "")
	w.Barrier()
	hashes, templates := w.hashes("web"), map[string]corev1.PodTemplateSpec{}
	for _, name := range []string{"web", "fresh"} {
		templates[name] = w.Deployment(name).Spec.Template
	}
	unchanged := func(when string) {
		t.Helper()
		w.Barrier()
		for name, template := range templates {
			if diff := cmp.Diff(template, w.Deployment(name).Spec.Template); diff != "" {
				t.Errorf("%s, the template of %s changes (-before +after):\n%s", when, name, diff)
			}
		}
	}
	w.Kubectl("annotate", "--overwrite", "deployment/web", keys.Mode+"=attach")
	unchanged("from restart to attach")
	w.Kubectl("annotate", "--overwrite", "deployment/web", "deployment/fresh", keys.Mode+"=restart")
	w.waitFollowed("fresh", "configmap/web")
	unchanged("from attach to restart")
	w.Edit("web", "color", "C")
	w.waitRestarted("web", "configmap/web", hashes)
	w.waitRestarted("fresh", "configmap/web", "")
}

// Another controller that undoes confrev's pin is not fought forever, where the webhook does not put it back within the
// request.
func workloadThatIsReverted(m *member) {
	// Where a webhook resolves pods too, they would wait for it.
	const canary = "canary-of-the-reverted"
	w, _ := deployed(m.T, gen.Annotated(keys.Settle, "0s"), gen.Replicas(0), canaried(canary))
	m.next()
	for i := range 8 {
		w.Kubectl("patch", "deployment", "web", "--field-manager=operator", "--type=merge", "-p",
			`{"spec":{"template":{"metadata":{"annotations":{"confrev.io/pins":null,"operator":"wants this"}}}}}`)
		if i < 3 {
			w.Eventually("the pin is back", func() string {
				if w.PinsText("web") == "" {
					return "not yet"
				}
				return ""
			})
		}
		if len(w.Events("Reverted", "web")) > 0 {
			break
		}
	}
	w.WaitEvent("Reverted", "web", "\"operator\"")
	w.WaitEvent("Reverted", "web", "undid confrev's change of the pod template 3 times")
	w.tellsNothing(confrev, "Reverted", canary)
	if got := w.PinsText("web"); got != "" {
		m.Errorf("pinned again: %s", got)
	}
	w.Edit("web", "color", "B")
	w.WaitPinned("web", "web", "color", "B")
}

// Rule 4: a source that is pinned and also named in restart-on. An undo holds it as both: the old image runs with its own
// configuration, also when confrev looks again.
func TestUndoHoldsPinnedRestartTrigger(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"),
		deployment("web", envFrom("web"), gen.Annotated(keys.RestartOn, "configmap/web"), gen.Annotated(keys.Settle, never)))
	w.WaitPinned("web", "web", "color", "A")
	w.waitFollowed("web", "configmap/web")
	w.Edit("web", "color", "B")
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	b := w.WaitPinned("web", "web", "color", "B")
	w.Edit("web", "color", "C")
	w.Kubectl("set", "image", "deployment/web", "app=app:3")
	w.WaitPinned("web", "web", "color", "C")
	// With that settle time, a hold that ends would show only after the barriers. An undo keeps settings (rule 21.5).
	w.Kubectl("annotate", "deployment/web", keys.Settle+"-")
	w.Undo("web")
	w.WaitHeld("web", "web")
	w.Barrier()
	if d := w.Deployment("web"); w.PinOf("web", "web") != b || d.Spec.Template.Spec.Containers[0].Image != "app:2" {
		t.Errorf("image %s with %s, want app:2 with %s; notes %v", d.Spec.Template.Spec.Containers[0].Image, w.PinOf("web", "web"), b, d.Annotations)
	}
	w.podsRead(b.Revision)
}
