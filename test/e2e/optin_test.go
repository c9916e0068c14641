//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	cli "confrev.io/confrev/internal/plugin"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
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
		w.barrier()
		if got := a.pinned(); got != (pins{}) {
			w.Fatalf("pinned to %s without opting in", got)
		}
		w.kubectl("label", "namespace", w.ns, keys.Track+"=all")
		before := a.reads("A")
		a.waitOwned(before)
		w.barrier()
		if got := none.pinned(); got != (pins{}) {
			w.Errorf("pinned to %s in spite of none", got)
		}

		w.kubectl("label", "namespace", w.ns, keys.Track+"-")
		a.staysAsItIs(before)
	})
}

// Taking the annotation away, or writing none, changes nothing but that edits are not followed any more.
func TestOptingOutLeavesEveryKindAsItIs(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a, before := w.launch(s, "web")
		a.waitOwned(before)
		w.barrier()
		w.kubectl("annotate", a.templateResource(), keys.Track+"=none", "--overwrite")
		a.staysAsItIs(before)
	})
}

// staysAsItIs checks that a workload that has just opted out goes on with its pins, replaced pods included, while its
// sources change, and that its revisions go with it.
func (a *app) staysAsItIs(p pins) {
	a.Helper()
	generation := a.templateObject().GetGeneration()
	a.editBoth("unseen")
	a.barrier()
	if got := a.templateObject().GetGeneration(); got != generation {
		a.Errorf("opting out changed the template: it is pinned to %s, was to %s", a.pinned(), p)
	}
	if a.start != nil {
		a.start(a)
	} else {
		a.kubectl("delete", "pod", a.living()[0].Name, "--wait=true")
	}
	a.allRead(p)
	a.waitMade(p)
	a.remove()
	a.waitMade()
}

// An ownerReference opts in only where the workload or its namespace consents: whoever may edit a ConfigMap may have no right
// on the workload.
func TestOwnerReferencesOptInWithConsentOnly(t *testing.T) {
	forEachKind(t, func(w *world, s subject) {
		a := w.app(s, "web")
		a.createSources("A")
		a.createWorkload(nil)
		a.own(a.object().GetAPIVersion(), a.object().GetKind(), string(a.object().GetUID()))
		w.waitEvent("OwnerIgnored", a.templateObject().GetName(), "configmap/"+a.conf)
		w.barrier()
		if got := a.pinned(); got != (pins{}) {
			w.Fatalf("an ownerReference pinned it to %s", got)
		}
		w.kubectl("annotate", "namespace", w.ns, keys.Owners+"=true")
		var p pins
		w.eventually("the owned source is pinned", func() string {
			if p = a.pinned(); p.conf == (pin.Pin{}) {
				return "not yet"
			}
			return ""
		})
		w.edit(a.conf, sourceKey, "B")
		w.eventually("the edit is pinned", func() string {
			if got := a.pinned(); got.conf == p.conf {
				return "not yet"
			}
			return ""
		})
		if got := a.pinned(); got.secret != (pin.Pin{}) {
			w.Errorf("the Secret is pinned to %s", got.secret)
		}
		if n := len(w.events("OwnerIgnored", a.templateObject().GetName())); n != 1 {
			w.Errorf("it was said %d times", n)
		}
	})
}

// own makes the workload an owner of its ConfigMap.
func (a *app) own(apiVersion, kind, uid string) {
	a.Helper()
	a.kubectl("patch", "configmap", a.conf, "--type=merge", "-p", fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q}]}}`, apiVersion, kind, a.name, uid))
}

// Policies of sources.
func TestPoliciesLiveAndIgnore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, policy := range []string{"live", "ignore", "revision", "typo"} {
		source := configMap(policy, "k", "A")
		source.Annotations = map[string]string{keys.Policy: policy}
		w.create(source)
	}
	w.create(deployment("web", envFrom("live", "ignore", "revision", "typo")))
	w.waitPinned("web", "revision", "k", "A")
	w.waitPinned("web", "typo", "k", "A")
	w.waitEvent("InvalidMode", "web", `"typo" is not a policy`)
	w.barrier()
	generation := w.deployment("web").Generation
	w.edit("live", "k", "B")
	w.edit("ignore", "k", "B")
	w.barrier()
	if got := w.deployment("web").Generation; got != generation {
		t.Errorf("an edit that is not to be followed changed the template: %s", w.pinsText("web"))
	}
	if got := w.pins("web"); len(got) != 2 {
		t.Errorf("pinned to %s", got)
	}
	w.eventually("pods read the live sources", func() string {
		for _, names := range w.reads() {
			if !strings.HasPrefix(names, "ignore+live+revision-") {
				return names
			}
		}
		return ""
	})
	// A source that comes under another policy: its pin goes with the next change, and not before.
	w.kubectl("annotate", "configmap", "revision", keys.Policy+"=live", "--overwrite")
	w.barrier()
	if got := w.deployment("web").Generation; got != generation {
		t.Errorf("a change of policy alone changed the template: %s", w.pinsText("web"))
	}
	w.edit("typo", "k", "B")
	w.waitPinned("web", "typo", "k", "B")
	if got := w.pins("web"); len(got) != 1 {
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
	} {
		obj := objectOf(webApp, name, spec)
		obj.SetAnnotations(map[string]string{keys.Track: "all"})
		w.create(obj)
	}
	for _, name := range []string{"text", "list", "odd"} {
		w.waitEvent("NoPodTemplate", name, "spec.template of the WebApp is not a pod template")
	}
	w.launch(subjectOf("Configured"), "web")
	got := w.plugin("doctor", "-o", "json")
	var d cli.Diagnosis
	w.must(json.Unmarshal([]byte(got.stdout), &d))
	for _, name := range []string{"text", "list", "odd"} {
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
	w.create(configMap("bare", "k", "v"), bare)
	w.eventually("a template without metadata is pinned", func() string {
		obj := newWebApp()
		w.must(w.get("bare", obj))
		if text := templatePins(obj.Object, "spec.template"); !strings.HasPrefix(text, "configmap/bare=bare-") {
			return text
		}
		return ""
	})
}
