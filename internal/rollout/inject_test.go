package rollout

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// state is what a template says: its pins and hashes, and the ConfigMap of its environment and the Secret of its volume.
type state struct{ pins, hashes, app, db string }

func (s state) deployment(modifiers ...gen.DeploymentModifier) *appsv1.Deployment {
	modifiers = append(modifiers, gen.Template(gen.EnvFrom("configmap/"+s.app), gen.Volume("secret/"+s.db)))
	for key, value := range map[string]string{keys.Pins: s.pins, keys.Hashes: s.hashes} {
		if value != "" {
			modifiers = append(modifiers, func(d *appsv1.Deployment) {
				metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, key, value)
			})
		}
	}
	return gen.Deployment("web", modifiers...)
}

const (
	both    = "configmap/app=app-bbbbbbbbbb@1,secret/db=db-bbbbbbbbbb@1"
	bothNew = "configmap/app=app-cccccccccc@2,secret/db=db-bbbbbbbbbb@1"
)

// Switching mode or injection of a live workload is one change of its template, and none when there is nothing to change.
// Each case is a template, what is asked, and what the plan's pins are; the patch must lead to the wanted template, and
// from there nowhere.
func TestInjection(t *testing.T) {
	tests := map[string]struct {
		before    state
		mode      optin.Mode // Revision when it is not given
		injection optin.Injection
		pins      string // of the plan
		changed   bool   // the plan changed pins
		release   bool
		after     state
	}{
		"admission, in sync":                    {before: state{both, "", "app", "db"}, injection: optin.Admission, pins: both, after: state{both, "", "app", "db"}},
		"admission, an advance":                 {before: state{both, "", "app", "db"}, injection: optin.Admission, pins: bothNew, changed: true, after: state{bothNew, "", "app", "db"}},
		"template, in sync":                     {before: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}, injection: optin.Template, pins: both, after: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}},
		"template, the first pins":              {before: state{"", "", "app", "db"}, injection: optin.Template, pins: both, changed: true, after: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}},
		"template, an advance":                  {before: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}, injection: optin.Template, pins: bothNew, changed: true, after: state{bothNew, "", "app-cccccccccc", "db-bbbbbbbbbb"}},
		"template, re-applied by its user":      {before: state{both, "", "app", "db"}, injection: optin.Template, pins: both, after: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}},
		"template, half re-applied":             {before: state{both, "", "app-bbbbbbbbbb", "db"}, injection: optin.Template, pins: both, after: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}},
		"from admission to template":            {before: state{both, "", "app", "db"}, injection: optin.Template, pins: both, after: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}},
		"from template to admission":            {before: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}, injection: optin.Admission, pins: both, after: state{both, "", "app", "db"}},
		"from template to admission, advancing": {before: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}, injection: optin.Admission, pins: bothNew, changed: true, after: state{bothNew, "", "app", "db"}},
		"from revision to attach":               {before: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}, mode: optin.Attach, injection: optin.Template, release: true, after: state{"", "", "app", "db"}},
		"from revision by admission to attach":  {before: state{both, "", "app", "db"}, mode: optin.Attach, injection: optin.Admission, release: true, after: state{"", "", "app", "db"}},
		"from revision to restart":              {before: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}, mode: optin.Restart, injection: optin.Template, after: state{"", "", "app", "db"}},
		"a source that is no longer tracked stays": {
			before: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}, injection: optin.Template, pins: "configmap/app=app-bbbbbbbbbb@1", after: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}},
		"and goes with the next change": {
			before: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}, injection: optin.Template, pins: "configmap/app=app-cccccccccc@2", changed: true,
			after: state{"configmap/app=app-cccccccccc@2", "", "app-cccccccccc", "db"}},
		"also with a switch of injection": {
			before: state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}, injection: optin.Admission, pins: "configmap/app=app-bbbbbbbbbb@1",
			after: state{"configmap/app=app-bbbbbbbbbb@1", "", "app", "db"}},
		"a reference to something else is no one's business": {
			before: state{both, "", "other", "db"}, injection: optin.Admission, pins: both, after: state{both, "", "other", "db"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.mode == (optin.Mode{}) {
				test.mode = optin.Revision
			}
			before := test.before.deployment(gen.Tracking("all"))
			after := test.after.deployment(gen.Tracking("all"))
			got := inject(t, before, test.mode, test.injection, test.pins, test.changed, test.release)
			if diff := cmp.Diff(after, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again := inject(t, after, test.mode, test.injection, test.pins, false, false)
			if diff := cmp.Diff(after, again); diff != "" {
				t.Errorf("it is not stable (-once +twice):\n%s", diff)
			}
		})
	}
}

// inject patches a workload as the reconciler does, at a fake API server.
func inject(t *testing.T, before *appsv1.Deployment, mode optin.Mode, injection optin.Injection, pins string, changed, release bool) *appsv1.Deployment {
	t.Helper()
	seen := &observed{
		namespace: before.Namespace, template: &before.Spec.Template, optInHashes: pin.Set{},
		config: optin.Config{Mode: mode, Injection: injection},
	}
	seen.pins.Pins, _ = pin.Parse(before.Spec.Template.Annotations[keys.Pins])
	want := intent{pins: plan.Plan{Pins: gen.Pins(pins)}, release: release}
	if mode == optin.Revision {
		for source, p := range want.pins.Pins {
			seen.pins.Uses = append(seen.pins.Uses, podspec.Use{Source: source, All: true})
			from := p
			if changed {
				from = seen.pins.Pins[source]
			}
			want.pins.Decisions = append(want.pins.Decisions, plan.Decision{Source: source, From: from, To: p})
		}
	}
	want.inject = seen.injections(want.pins.Pins, want.pins.Changed() || want.release)
	return sent(t, before, seen, want)
}

// sent returns what a fake API server has of a workload after the patch.
func sent(t *testing.T, before *appsv1.Deployment, seen *observed, want intent) *appsv1.Deployment {
	t.Helper()
	c := fake.NewClientBuilder().WithObjects(before.DeepCopy()).Build()
	r := &Engine{Kind: workload.Deployment, Client: c}
	if ops := r.patch(before, seen, want); len(ops) > 0 {
		if err := r.send(t.Context(), before.DeepCopy(), ops); err != nil {
			t.Fatal(err)
		}
	}
	got := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(before), got); err != nil {
		t.Fatal(err)
	}
	got.TypeMeta, got.ResourceVersion = before.TypeMeta, ""
	return got
}

// The hashes of opting in are no reason to restart: they stand on the workload until something changes.
func TestHashesAreNotedUntilTheyAreStamped(t *testing.T) {
	app, web := gen.Source("configmap/app"), gen.Source("configmap/web")
	hash := func(revision string, number int64) pin.Pin { return pin.Pin{Revision: revision, Number: number} }
	tests := map[string]struct {
		baseline, hashes pin.Set
		stamped, noted   string
	}{
		"nothing":                         {nil, nil, "", ""},
		"all are new":                     {pin.Set{app: hash("a", 1)}, pin.Set{app: hash("a", 1)}, "", "configmap/app=a@1"},
		"one changed, the other is noted": {pin.Set{app: hash("a", 1), web: hash("w", 1)}, pin.Set{app: hash("b", 2), web: hash("w", 1)}, "configmap/app=b@2", "configmap/web=w@1"},
		"all changed":                     {pin.Set{app: hash("a", 1)}, pin.Set{app: hash("b", 2)}, "configmap/app=b@2", ""},
		"stamped before":                  {nil, pin.Set{app: hash("b", 2)}, "configmap/app=b@2", ""},
		"the same content with a number":  {pin.Set{app: hash("a", 1)}, pin.Set{app: hash("a", 3)}, "configmap/app=a@3", ""},
		"one that is absent stays noted":  {pin.Set{app: hash("a", 1), web: hash("w", 1)}, pin.Set{app: hash("a", 1)}, "", "configmap/app=a@1,configmap/web=w@1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(test.hashes)
			seen, want := &observed{optInHashes: test.baseline}, intent{hashes: plan.Plan{Pins: test.hashes}}
			if got := want.templateHashes(seen).String(); got != test.stamped {
				t.Errorf("stamped %q, want %q", got, test.stamped)
			}
			if got := want.workloadHashes(seen).String(); got != test.noted {
				t.Errorf("noted %q, want %q", got, test.noted)
			}
			if !maps.Equal(before, test.hashes) {
				t.Error("the plan was changed")
			}
		})
	}
}

func TestThePatchBringsHashes(t *testing.T) {
	app := gen.Source("configmap/app")
	const (
		a = "configmap/app=aaa@1"
		b = "configmap/app=bbb@2"
	)
	noted := func(text string) gen.DeploymentModifier { return gen.Annotated(keys.Hashes, text) }
	tests := map[string]struct {
		before, after *appsv1.Deployment
		baseline      string
		from, to      string
		pins          string // of the plan, where the template has those of "both"
	}{
		"opting in is noted, and no rollout": {
			gen.Deployment("web", gen.Tracking("all")), gen.Deployment("web", gen.Tracking("all"), noted(a)), a, a, a, ""},
		"what is noted stays": {
			gen.Deployment("web", noted(a)), gen.Deployment("web", noted(a)), a, a, a, ""},
		"a change is stamped, and the note goes": {
			gen.Deployment("web", gen.Tracking("all"), noted(a)), state{"", b, "app", "db"}.deployment(gen.Tracking("all")), a, a, b, ""},
		"a further change": {
			state{"", a, "app", "db"}.deployment(), state{"", b, "app", "db"}.deployment(), "", a, b, ""},
		"from revision to restart, pins go and references are as they were": {
			state{both, "", "app-bbbbbbbbbb", "db-bbbbbbbbbb"}.deployment(gen.Tracking("all")), state{"", a, "app", "db"}.deployment(gen.Tracking("all")), "", "", a, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			parse := func(text string) pin.Set {
				hashes, err := pin.ParseHashes(text)
				if err != nil {
					t.Fatal(err)
				}
				return hashes
			}
			seen := &observed{
				template: &test.before.Spec.Template, optInHashes: parse(test.baseline),
				config: optin.Config{Mode: optin.Restart, Injection: optin.Template},
				hashes: plan.Input{Uses: []podspec.Use{{Source: app, All: true}}},
			}
			seen.pins.Pins, _ = pin.Parse(test.before.Spec.Template.Annotations[keys.Pins])
			want := intent{hashes: plan.Plan{Pins: parse(test.to), Decisions: []plan.Decision{{Source: app, From: parse(test.from)[app], To: parse(test.to)[app]}}}}
			want.inject = seen.injections(want.pins.Pins, want.hashes.Changed())
			got := sent(t, test.before, seen, want)
			want2 := test.after.DeepCopy()
			if len(test.before.Spec.Template.Spec.Volumes) == 0 {
				want2.Spec.Template.Spec = test.before.Spec.Template.Spec
			}
			if diff := cmp.Diff(want2, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Some kinds do not count their generations: the version of the whole object stands for it.
func TestThePatchOfAKindWithoutGenerations(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "web", "uid": "1", "resourceVersion": "42"},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{}}},
	}}
	obj.SetGroupVersionKind(fleet.GVK)
	template, err := fleet.Template(obj)
	if err != nil {
		t.Fatal(err)
	}
	seen := &observed{template: template, optInHashes: pin.Set{}, config: optin.Config{Mode: optin.Revision, Injection: optin.Admission}}
	ops := (&Engine{Kind: fleet}).patch(obj, seen, intent{pins: planFor("", pinA, "")})
	data, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"op":"test","path":"/metadata/uid","value":"1"},{"op":"test","path":"/metadata/resourceVersion","value":"42"},` +
		`{"op":"add","path":"/spec/template/metadata","value":{"annotations":{"confrev.io/pins":"configmap/app=app-bbbbbbbbbb@1"}}}]`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
}
