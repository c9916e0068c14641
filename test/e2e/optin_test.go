//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/gen"
)

// A label of the namespace opts its workloads in, and out again: then they stay as they are, and nothing is orphaned.
func TestNamespaceLabelOptsEveryKindInAndOut(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a, none := w.app(s, "web"), w.app(s, "none")
		for _, other := range []*app{a, none} {
			other.createSources("A")
		}
		a.createWorkload(nil)
		none.createWorkload(map[string]string{keys.Track: "none"})
		w.Barrier()
		if got := a.pinned(); got != (pins{}) {
			w.Fatalf("pinned to %s without opting in", got)
		}
		w.Kubectl("label", "namespace", w.NS, keys.Track+"=all")
		before := a.reads("A")
		a.waitOwned(before)
		w.Barrier()
		if got := none.pinned(); got != (pins{}) {
			w.Errorf("pinned to %s, although confrev.io/track is none", got)
		}

		w.Kubectl("label", "namespace", w.NS, keys.Track+"-")
		a.staysAsItIs(before)
	})
}

// Taking the annotation away, or writing none, changes nothing but that edits are not followed any more.
func TestOptingOutLeavesEveryKindAsItIs(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a, before := w.launch(s, "web")
		a.waitOwned(before)
		w.Barrier()
		w.Kubectl("annotate", a.templated.Resource(), a.name, keys.Track+"=none", "--overwrite")
		a.staysAsItIs(before)
	})
}

// staysAsItIs checks that a workload that has just opted out continues with its pins, replaced pods included, while its
// sources change, and that its revisions go with it.
func (a *app) staysAsItIs(p pins) {
	a.Helper()
	generation := a.templateObject().GetGeneration()
	a.editBoth("unseen")
	a.Barrier()
	if got := a.templateObject().GetGeneration(); got != generation {
		a.Errorf("opting out changed the template: it is pinned to %s, was to %s", a.pinned(), p)
	}
	if a.start != nil {
		a.start(a)
	} else {
		a.Kubectl("delete", "pod", a.living()[0].Name, "--wait=true")
	}
	a.allRead(p)
	a.waitMade(p)
	a.remove()
	a.waitMade()
}

// An ownerReference opts in only where the workload or its namespace consents: anyone who may edit a ConfigMap may have no right
// on the workload.
func TestOwnerReferencesOptInWithConsentOnly(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a := w.app(s, "web")
		a.createSources("A")
		a.createWorkload(nil)
		a.own(a.object().GetAPIVersion(), a.object().GetKind(), string(a.object().GetUID()))
		w.WaitEvent("OwnerIgnored", a.templateObject().GetName(), "configmap/"+a.conf)
		w.Barrier()
		if got := a.pinned(); got != (pins{}) {
			w.Fatalf("an ownerReference pinned it to %s", got)
		}
		w.Kubectl("annotate", "namespace", w.NS, keys.Owners+"=true")
		var p pins
		w.Eventually("the owned source is pinned", func() string {
			if p = a.pinned(); p.conf == (pin.Pin{}) {
				return "not yet"
			}
			return ""
		})
		w.Edit(a.conf, sourceKey, "B")
		w.Eventually("the edit is pinned", func() string {
			if got := a.pinned(); got.conf == p.conf {
				return "not yet"
			}
			return ""
		})
		if got := a.pinned(); got.secret != (pin.Pin{}) {
			w.Errorf("the Secret is pinned to %s", got.secret)
		}
		if notes := w.Events("OwnerIgnored", a.templateObject().GetName()); len(notes) != 1 {
			w.Errorf("it was reported %d times: %q", len(notes), notes)
		}
	})
}

// own makes the workload an owner of its ConfigMap.
func (a *app) own(apiVersion, kind, uid string) {
	a.Helper()
	a.Kubectl("patch", "configmap", a.conf, "--type=merge", "-p", fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q}]}}`, apiVersion, kind, a.name, uid))
}

// Policies of sources.
func TestPoliciesLiveAndIgnore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, policy := range []string{"live", "ignore", "revision", "typo"} {
		source := configMap(policy, "k", "A")
		source.Annotations = map[string]string{keys.Policy: policy}
		w.Create(source)
	}
	w.Create(deployment("web", envFrom("live", "ignore", "revision", "typo")))
	w.WaitPinned("web", "revision", "k", "A")
	w.WaitPinned("web", "typo", "k", "A")
	w.WaitEvent("InvalidMode", "web", `"typo" is not a policy`)
	w.Barrier()
	generation := w.Deployment("web").Generation
	w.Edit("live", "k", "B")
	w.Edit("ignore", "k", "B")
	w.Barrier()
	if got := w.Deployment("web").Generation; got != generation {
		t.Errorf("an edit that is not to be followed changed the template: %s", w.PinsText("web"))
	}
	if got := w.Pins("web"); len(got) != 2 {
		t.Errorf("pinned to %s", got)
	}
	w.Eventually("pods read the live sources", func() string {
		for _, names := range w.reads() {
			if !strings.HasPrefix(names, "ignore+live+revision-") {
				return names
			}
		}
		return ""
	})
	// A source that comes under another policy: its pin goes with the next change, and not before.
	w.Kubectl("annotate", "configmap", "revision", keys.Policy+"=live", "--overwrite")
	w.Barrier()
	if got := w.Deployment("web").Generation; got != generation {
		t.Errorf("a change to policy alone changed the template: %s", w.PinsText("web"))
	}
	w.Edit("typo", "k", "B")
	w.WaitPinned("web", "typo", "k", "B")
	if got := w.Pins("web"); len(got) != 1 {
		t.Errorf("pinned to %s", got)
	}
}

// What a configured kind may hold that is no pod template, or half of one, is said; and it stops nothing else.
func TestConfiguredKindWithoutATemplate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, spec := range map[string]map[string]any{
		"nothing":  {},
		"null":     {"template": nil},
		"empty":    {"template": map[string]any{}},
		"nulls":    {"template": map[string]any{"metadata": nil, "spec": map[string]any{"containers": nil, "volumes": nil, "initContainers": nil}}},
		"null-env": {"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "env": nil, "envFrom": nil}}}}},
		"text":     {"template": "see elsewhere"},
		"list":     {"template": []any{"a"}},
		"odd":      {"template": map[string]any{"spec": map[string]any{"containers": "none"}}},
		// Read in no time, and refused anyway: what takes minutes would also stop the controller of this kind.
		"slow": {"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
			"name": "app", "resources": map[string]any{"limits": map[string]any{"cpu": "1e-10000"}}}}}}},
	} {
		obj := objectOf(webApp, name, spec)
		obj.SetAnnotations(map[string]string{keys.Track: "all"})
		w.Create(obj)
	}
	for _, name := range []string{"text", "list", "odd"} {
		w.WaitEvent("NoPodTemplate", name, "spec.template of the WebApp is not a pod template")
	}
	w.WaitEvent("NoPodTemplate", "slow", "spec.template of the WebApp has a quantity of more than 100 characters, or with an exponent of more than 3 digits")
	w.launch(subjectOf("Configured"), "web")
	got := w.plugin("doctor", "-o", "json")
	var d view.Diagnosis
	w.Must(json.Unmarshal([]byte(got.stdout), &d))
	for _, name := range []string{"text", "list", "odd", "slow"} {
		if found(d, "NoPodTemplate", "webapp/"+name) == nil {
			t.Errorf("doctor finds nothing in %s: %+v", name, got)
		}
	}
	if got := w.plugin("status", "-o", "json"); got.status != 0 || !strings.Contains(got.stdout, `"webapp/web"`) {
		t.Errorf("status: %+v", got)
	}

	// A template without metadata gets them.
	bare := objectOf(webApp, "bare", map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "app", "envFrom": []any{map[string]any{"configMapRef": map[string]any{"name": "bare"}}}}}}}})
	bare.SetAnnotations(map[string]string{keys.Track: "all"})
	w.Create(configMap("bare", "k", "v"), bare)
	w.Eventually("a template without metadata is pinned", func() string {
		obj := newWebApp()
		w.Must(w.Get("bare", obj))
		if text := aWebApp.kind.PinsText(obj); !strings.HasPrefix(text, "configmap/bare=bare-") {
			return text
		}
		return ""
	})
}

// A setting that is misspelled, or on the wrong object, does not pass in silence, whether or not anything else opts the workload in.
func TestAMisspelledSettingIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("shared", "color", "A"), deployment("web", envFrom("shared")), deployment("lost", envFrom("shared"), gen.Untracked))
	w.WaitPinned("web", "shared", "color", "A")
	w.Kubectl("annotate", "configmap/shared", "confrev.io/step=1")
	w.WaitEvent("UnknownAnnotation", "web", "annotation confrev.io/step of configmap/shared has no effect: did you mean confrev.io/steps?")
	w.Kubectl("annotate", "deployment/lost", keys.Steps+"=1")
	w.WaitEvent("UnknownAnnotation", "lost", "annotation confrev.io/steps has no effect: it belongs on a source or a namespace")
	if said := w.warned("annotate", "deployment/web", "confrev.io/cashes=1"); !strings.Contains(said, "Warning: confrev: annotation confrev.io/cashes has no effect: did you mean confrev.io/crashes?") {
		t.Errorf("kubectl says %q", said)
	}
	var d view.Diagnosis
	w.pluginJSON(&d, "doctor")
	for _, object := range []string{"deployment/web", "deployment/lost"} {
		if f := found(d, "UnknownAnnotation", object); f == nil {
			t.Errorf("doctor says nothing of %s: %+v", object, d.Findings)
		}
	}
	if pins := w.PinsText("lost"); pins != "" {
		t.Errorf("lost has the pins %s", pins)
	}
	other := newWorld(t)
	other.Create(configMap("shared", "color", "A"), deployment("lost", envFrom("shared"), gen.Untracked))
	other.Kubectl("annotate", "namespace", other.NS, keys.Track+"=all")
	other.WaitEvent("UnknownAnnotation", "lost", "annotation confrev.io/track of the namespace has no effect: write it as a label")
}
