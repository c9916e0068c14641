//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// What must hold of Deployments must hold of every kind.

// oneKey makes the template of a pod that refers to one key of a ConfigMap and of a Secret.
func oneKey(name, conf, secret string) map[string]any {
	return templateOf(name, corev1.Container{Env: []corev1.EnvVar{
		sourceRef{kind: pin.ConfigMap, name: conf}.env("CONFIGMAP"), sourceRef{kind: pin.Secret, name: secret}.env("SECRET"),
	}})
}

// templateOf makes the template of a pod with one container.
func templateOf(name string, container corev1.Container) map[string]any {
	container.Name, container.Image = "app", "app:1"
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{container}}}
	template.Labels = map[string]string{"app": name}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		panic(err)
	}
	return object
}

// generation returns the template's: it moves with each change of the spec.
func (a *app) generation() int64 {
	a.Helper()
	return a.templateObject().GetGeneration()
}

// Rules 2 and 7: the first holder is right already. Nothing is promoted here: a Rollout that got its pins late would show a canary.
func TestEveryKindsFirstHolderIsPinned(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a := w.app(s, "web")
		a.createSources("A")
		// A Rollout that is there first waits for its Deployment.
		a.referrerFirst = a.templated != a.kind
		a.createWorkload(map[string]string{keys.Track: "all"})
		first := a.pinned()
		if first.conf == (pin.Pin{}) || first.secret == (pin.Pin{}) {
			w.Fatalf("it was created with the pins %s", first)
		}
		if a.start != nil {
			a.start(a)
		}
		a.allRead(first)
		generation := a.generation()
		w.Barrier()
		holders := a.holders()
		if len(holders) != 1 {
			w.Errorf("%d holders, want 1", len(holders))
		}
		for _, holder := range holders {
			if got := w.pinsOf(a.kind.Holder, &holder); !strings.Contains(got, first.conf.String()) || !strings.Contains(got, first.secret.String()) {
				w.Errorf("%s is pinned to %q, want %s", holder.GetName(), got, first)
			}
		}
		if got := a.generation(); got != generation {
			w.Errorf("the generation went from %d to %d", generation, got)
		}
		a.allRead(first)
	})
}

// Rule 4: the holders show the hold, whatever else changes.
func TestEveryKindStaysHeldWhenItsImageChanges(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		if s.rollBack == nil {
			// It has no undo.
			return
		}
		a, first := w.launch(s, "web")
		a.editTo("B")
		a.rollBack(a)
		a.waitHolds()
		a.reads("A")
		a.setImage("app:2")
		if got := a.reads("A"); got != first {
			w.Errorf("with a new image the pins are %s, want %s", got, first)
		}
		w.Barrier()
		if got := a.pinned(); got != first {
			w.Errorf("the pins moved to %s, want %s", got, first)
		}
		a.editTo("C")
	})
}

// setImage changes the image of the template's container.
func (a *app) setImage(image string) {
	a.Helper()
	o := a.templateObject()
	a.Kubectl("patch", strings.ToLower(o.GetKind())+"/"+a.name, "--type=json", "-p",
		fmt.Sprintf(`[{"op":"replace","path":"%s/spec/containers/0/image","value":%q}]`, a.kind.TemplatePointer(), image))
}

// Rules 3 and 6: an unused key rolls nothing; a key or a source that goes leaves the pin; one that comes back is a change like others.
func TestPinsStayWhileSourceIsMissingForEveryKind(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a := w.app(s, "web")
		a.form = oneKey
		a.createSources("A")
		a.createWorkload(map[string]string{keys.Track: "all"})
		first := a.waitPinnedTo("A")
		w.Barrier()
		generation := a.generation()
		unmoved := func(why string) {
			w.Helper()
			w.Barrier()
			if got := a.generation(); got != generation || a.pinned() != first {
				w.Fatalf("%s: generation %d, want %d; pins %s, want %s", why, got, generation, a.pinned(), first)
			}
		}
		w.Edit(a.conf, "unused", "x")
		w.EditSecret(a.secret, "unused", "x")
		unmoved("a key that it does not use changed")

		w.Kubectl("patch", "configmap", a.conf, "--type=json", "-p", `[{"op":"remove","path":"/data/`+sourceKey+`"}]`)
		w.WaitEvent("KeyMissing", a.name, `"`+sourceKey+`"`)
		unmoved("a key that it needs went")
		w.Kubectl("delete", "configmap/"+a.conf, "secret/"+a.secret)
		w.WaitEvent("SourceMissing", a.name, "pods keep using its revision "+first.conf.String())
		unmoved("its sources went")
		if got := a.made(); len(got) < 2 || !slices.Contains(got, first.conf.Revision) || !slices.Contains(got, first.secret.Revision) {
			w.Fatalf("the revisions that it is pinned to went with their sources: left is %q", got)
		}
		a.createSources("B")
		a.waitPinnedTo("B")
	})
}

// Rule 9.
func TestDeletedRevisionIsRestoredForEveryKind(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a, first := w.launch(s, "web")
		a.waitOwned(first)
		w.Barrier()
		generation := a.generation()
		w.unguarded("delete", "configmap/"+first.conf.Revision, "secret/"+first.secret.Revision)
		a.waitMade(first)
		a.waitOwned(first)
		w.WaitEvent("RevisionRecreated", a.name, first.conf.Revision)
		w.WaitEvent("RevisionRecreated", a.name, first.secret.Revision)
		w.Barrier()
		if got := a.generation(); got != generation || a.pinned() != first {
			w.Errorf("generation %d, want %d; pins %s, want %s", got, generation, a.pinned(), first)
		}
	})
}

// Rule 18: the same manifest again, in each of kubectl's ways, changes nothing of the template, and shows no difference.
func TestApplyingEveryKindAgainChangesNothing(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a := w.app(s, "web")
		a.createSources("A")
		manifest := a.manifest(map[string]string{keys.Track: "all"})
		w.KubectlIn(manifest, "apply", "-f", "-")
		first := a.reads("A")
		w.Barrier()
		template := at(a.templateObject().Object, a.kind.Path)
		unchanged := func(how string) {
			w.Helper()
			w.Barrier()
			if diff := cmp.Diff(template, at(a.templateObject().Object, a.kind.Path)); diff != "" {
				w.Fatalf("%s changed the template (-before +after):\n%s", how, diff)
			}
		}
		w.KubectlIn(manifest, "apply", "-f", "-")
		unchanged("apply")
		if diff := w.diff(manifest, "-f", "-"); diff != "" {
			w.Errorf("diff shows\n%s", diff)
		}
		// Argo Rollouts writes back whole objects, and owns fields since.
		w.KubectlIn(manifest, "apply", "--server-side", "--force-conflicts", "-f", "-")
		unchanged("apply --server-side")
		// Argo Rollouts also writes the selector of a Service. Of confrev's there is nothing.
		if diff := w.diff(manifest, "--server-side", "--force-conflicts", "-f", "-"); strings.Contains(diff, keys.Prefix) {
			w.Errorf("diff --server-side shows\n%s", diff)
		}
		w.Eventually("replaced", func() string {
			_, err := cluster.Run(w.Ctx, manifest, "kubectl", "--namespace", w.NS, "replace", "-f", "-")
			// kubectl reads before it writes, and a controller may write in between.
			if err != nil && strings.Contains(err.Error(), "the object has been modified") {
				return err.Error()
			}
			w.Must(err)
			return ""
		})
		unchanged("replace")
		if got := a.pinned(); got != first {
			w.Errorf("the pins are %s, want %s", got, first)
		}
		a.editTo("B")
	})
}

// manifest writes the workload, and what it needs, as its user would.
func (a *app) manifest(annotations map[string]string) string {
	a.Helper()
	list := map[string]any{"apiVersion": "v1", "kind": "List"}
	var items []any
	for _, obj := range a.objects(annotations) {
		items = append(items, obj.Object)
	}
	list["items"] = items
	text, err := json.Marshal(list)
	a.Must(err)
	return string(text)
}

// Rule 18: a namespace goes with its workloads, and confrev meets no error on the way.
func TestEveryKindGoesWithItsNamespace(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a, first := w.launch(s, "web")
		a.waitOwned(first)
		w.Kubectl("delete", "namespace", w.NS, "--timeout="+(4*patience).String())
		elsewhere := newWorld(w.T)
		elsewhere.Barrier()
		for _, line := range errorsLogged(w.T, w.NS) {
			w.Errorf("logged: %s", line)
		}
	})
}

// Mode restart is one rollout for each change, and no copies, for every kind.
func TestModeRestartOfEveryKind(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a := w.app(s, "web")
		a.createSources("A")
		// A Deployment that is referred to opts in by itself; its mode is the Rollout's.
		a.referrerFirst = a.templated != a.kind
		a.createWorkload(map[string]string{keys.Track: "all", keys.Mode: optin.Restart.Name})
		follows := func() string {
			o := a.templateObject()
			inTemplate, _ := at(o.Object, a.kind.Path+".metadata.annotations").(map[string]any)
			return fmt.Sprint(o.GetAnnotations()[keys.Hashes], ",", inTemplate[keys.Hashes])
		}
		w.Eventually("it follows both sources", func() string {
			if notes := follows(); !strings.Contains(notes, "configmap/"+a.conf+"=") || !strings.Contains(notes, "secret/"+a.secret+"=") {
				return "notes " + notes
			}
			return ""
		})
		w.Barrier()
		generation, before := a.generation(), follows()
		a.editBoth("B")
		w.Eventually("it restarts", func() string {
			if follows() == before || a.generation() == generation {
				return "notes " + follows()
			}
			return ""
		})
		w.Barrier()
		if got := a.generation() - generation; got != 1 {
			w.Errorf("an edit of two sources at once changed the template %d times, want 1", got)
		}
		if made := a.made(); len(made) > 0 {
			w.Errorf("it made %q", made)
		}
		if got := a.pinned(); got != (pins{}) {
			w.Errorf("it is pinned to %s", got)
		}
	})
}

// Mode attach makes holders own ConfigMaps and Secrets of every kind, so that they go with the workload, and changes no template.
func TestModeAttachOfEveryKind(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a := w.app(s, "web")
		conf, cred := configMap(a.conf, sourceKey, "A"), secret(a.secret, corev1.SecretTypeOpaque, sourceKey, "A")
		conf.Annotations = map[string]string{keys.Attach: "true"}
		cred.Annotations = conf.Annotations
		w.Create(conf, cred)
		a.createWorkload(map[string]string{keys.Track: "all", keys.Mode: optin.Attach.Name})
		if a.start != nil {
			a.start(a)
		}
		w.Eventually("its holders own the sources", func() string {
			conf, cred := &corev1.ConfigMap{}, &corev1.Secret{}
			if err := errors.Join(w.Get(a.conf, conf), w.Get(a.secret, cred)); err != nil {
				return err.Error()
			}
			holders := a.holders()
			for _, holder := range holders {
				for _, owners := range [][]metav1.OwnerReference{conf.OwnerReferences, cred.OwnerReferences} {
					if !slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return o.UID == holder.GetUID() }) {
						return holder.GetName() + " is no owner"
					}
				}
			}
			if len(holders) == 0 {
				return "no holders"
			}
			return ""
		})
		if got := a.pinned(); got != (pins{}) {
			w.Errorf("it is pinned to %s", got)
		}
		a.remove()
		w.Eventually("the sources go with it", func() string {
			if !w.Gone(a.conf) || !w.secretGone(a.secret) {
				return "still there"
			}
			return ""
		})
	})
}

// Injection template: the template of every kind names the revisions themselves, an edit is one rollout, and an undo holds.
func TestInjectionIntoTheTemplateOfEveryKind(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a := w.app(s, "web")
		a.createSources("A")
		a.createWorkload(map[string]string{keys.Track: "all", keys.Injection: string(optin.Template)})
		first := a.reads("A")
		a.waitNames(first)
		w.Barrier()
		generation := a.generation()
		second := a.editTo("B")
		a.waitNames(second)
		w.Barrier()
		if got := a.generation() - generation; got != 1 {
			w.Errorf("an edit changed the template %d times, want 1", got)
		}
		if a.rollBack == nil {
			return
		}
		a.rollBack(a)
		a.waitHolds()
		w.Barrier()
		if got := a.reads("A"); got != first {
			w.Errorf("after the undo the pins are %s, want %s", got, first)
		}
		a.waitNames(first)
	})
}

// waitNames waits until the template itself names revisions, and nothing else.
func (a *app) waitNames(p pins) {
	a.Helper()
	a.Eventually("the template names "+p.revisions(), func() string {
		template, err := a.templated.Template(a.templateObject())
		a.Must(err)
		if got := readBy(&corev1.Pod{Spec: template.Spec}); got != p.revisions() {
			return "it names " + got
		}
		return ""
	})
}
