package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// hashed returns what becomes of a template and its workload's notes when configmap/app holds now, "" if it is not there.
func hashed(t *testing.T, mode optin.Mode, required bool, pins, stamped, noted, now string) (wantStamped, wantNoted string, p plan.Plan) {
	t.Helper()
	use := podspec.Use{Source: gen.Source("configmap/app"), All: true, Required: required}
	d := gen.Deployment("web", gen.Annotated(keys.Hashes, noted))
	d.Spec.Template.Annotations = map[string]string{keys.Pins: pins, keys.Hashes: stamped}
	seen := &observed{
		template: &d.Spec.Template, optInHashes: pin.Set{}, config: optin.Config{Mode: mode},
		hashes: plan.Input{Live: true, Uses: []podspec.Use{use}, Sources: map[pin.Source]plan.Source{}},
	}
	(&Engine{Kind: workload.Deployment}).readNotes(d, seen)
	seen.contents = map[pin.Source]contents{use.Source: {plan.Source{Present: now != "", Name: now}, now}}
	seen.derive()
	want := seen.decide()
	return want.templateHashes(seen).String(), want.workloadHashes(seen).String(), want.hashes
}

// Policy rotate: what the workload notes and what its template gets, by what is there already.
func TestWhatARotatingSourceNotes(t *testing.T) {
	source := gen.Source("secret/cert")
	digests := func(value string) content.Digests {
		return content.Content{Data: map[string][]byte{"tls.crt": []byte(value)}}.Digests()
	}
	hash := func(value string, number int64) string {
		return pin.Set{source: {Revision: digests(value).Sum(true, nil), Number: number}}.String()
	}
	revisionOf := func(value string) plan.Revision {
		return plan.Revision{Name: "cert-bbbbbbbbb" + value, Number: 1, Hash: content.Hash("v1-" + value), Digests: digests(value)}
	}
	pinned := func(value string) string { return "secret/cert=cert-bbbbbbbbb" + value + "@1" }
	tests := map[string]struct {
		pins, stamped, noted, now string
		required                  bool
		lost, replaced            bool
		holders                   []plan.Holder // of pins
		wantStamped, wantNoted    string
		rolls                     bool
	}{
		"new":                                     {now: "b", wantNoted: hash("b", 1)},
		"nothing changed":                         {noted: hash("b", 1), now: "b", wantNoted: hash("b", 1)},
		"rotated":                                 {noted: hash("b", 1), now: "c", wantStamped: hash("c", 2), rolls: true},
		"required, and not there yet":             {required: true, wantNoted: "secret/cert=absent@1"},
		"required, and there at last":             {required: true, noted: "secret/cert=absent@1", now: "b", wantNoted: hash("b", 2)},
		"optional, and there at last":             {noted: "secret/cert=absent@1", now: "b", wantStamped: hash("b", 2), rolls: true},
		"deleted":                                 {stamped: hash("b", 2), wantStamped: hash("b", 2)},
		"pinned from before":                      {pins: pinned("b"), now: "b", wantNoted: hash("b", 1)},
		"pinned from before, and changed":         {pins: pinned("b"), now: "c", wantStamped: hash("c", 2), rolls: true},
		"pinned from before, noted, and changed":  {pins: pinned("b"), noted: hash("b", 1), now: "c", wantStamped: hash("c", 2), rolls: true},
		"pinned to what is lost":                  {pins: pinned("b"), lost: true, now: "c", wantStamped: hash("c", 2), rolls: true},
		"pinned from before, and rolled back":     {pins: pinned("b"), now: "c", holders: []plan.Holder{{Order: 1, Pins: pin.Set{source: {Revision: "cert-bbbbbbbbbc", Number: 2}}}}, wantNoted: hash("c", 1)},
		"pinned from before, and a deploy":        {pins: pinned("b"), now: "b", replaced: true, wantNoted: hash("b", 1)},
		"an earlier template, and what it reads":  {stamped: hash("b", 2), noted: hash("c", 3), now: "c", wantNoted: hash("c", 3)},
		"such a template, rotated":                {stamped: hash("b", 2), noted: hash("c", 3), now: "b", wantStamped: hash("b", 4), rolls: true},
		"such a template, and a deploy":           {stamped: hash("b", 2), noted: hash("c", 3), now: "d", replaced: true, wantStamped: hash("d", 4), rolls: true},
		"a note from before the template's stamp": {stamped: hash("c", 3), noted: hash("b", 2), now: "c", wantStamped: hash("c", 3)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			use := podspec.Use{Source: source, All: true, Required: test.required}
			d := gen.Deployment("web", gen.Annotated(keys.Hashes, test.noted))
			d.Spec.Template.Annotations = map[string]string{keys.Pins: test.pins, keys.Hashes: test.stamped}
			seen := newObserved(d.Namespace, view{})
			seen.template, seen.config, seen.hashes.Uses, seen.hashes.Replaced = &d.Spec.Template, optin.Config{Mode: optin.Revision}, []podspec.Use{use}, test.replaced
			observed := plan.Source{Present: test.now != "", Hash: content.Hash("v1-" + test.now), Digests: digests(test.now), Name: "cert-bbbbbbbbb" + test.now}
			if test.pins != "" && !test.lost {
				observed.Revisions = []plan.Revision{revisionOf("b")}
			}
			seen.sources[source] = revision.Observation{Source: observed}
			seen.pins.Holders = test.holders
			(&Engine{Kind: workload.Deployment}).readNotes(d, seen)
			name := ""
			if test.now != "" {
				name = digests(test.now).Sum(true, nil)
			}
			seen.contents[source] = contents{Source: plan.Source{Present: test.now != "", Digests: digests(test.now), Name: name, Rotates: true}}
			seen.derive()
			want := seen.decide()
			if got := want.templateHashes(seen).String(); got != test.wantStamped && want.changes() || want.hashes.Changed() != test.rolls {
				t.Errorf("stamped %q, want %q; rolls: %v", got, test.wantStamped, want.hashes.Changed())
			}
			if got := want.workloadHashes(seen).String(); got != test.wantNoted {
				t.Errorf("noted %q, want %q", got, test.wantNoted)
			}
		})
	}
}

// Opting in, a rollback to before that, and an object that is not there are no reason to restart. A change is.
func TestWhatARestartingWorkloadNotes(t *testing.T) {
	const (
		a, b, none = "configmap/app=aaa@1", "configmap/app=bbb@2", "configmap/app=absent@1"
		frozen     = "configmap/app=app-bbbbbbbbbb@1"
	)
	tests := map[string]struct {
		mode                      optin.Mode // Restart when it is not given
		required                  bool
		pins, stamped, noted, now string
		wantStamped, wantNoted    string
		restarts                  bool
	}{
		"opting in":                                  {now: "aaa", wantNoted: a},
		"nothing changed":                            {noted: a, now: "aaa", wantNoted: a},
		"a change":                                   {noted: a, now: "bbb", wantStamped: b, restarts: true},
		"stamped, and nothing changed":               {stamped: b, now: "bbb", wantStamped: b},
		"rolled back to before its first hash":       {now: "bbb", wantNoted: "configmap/app=bbb@1"},
		"opting in, and it is not there":             {wantNoted: none},
		"it still is not there":                      {noted: none, wantNoted: none},
		"it appears":                                 {noted: none, now: "aaa", wantStamped: "configmap/app=aaa@2", restarts: true},
		"it appears, and is required":                {required: true, noted: none, now: "aaa", wantNoted: a},
		"it vanishes":                                {noted: a, wantNoted: a},
		"it vanishes from a stamped template":        {stamped: b, wantStamped: b},
		"it comes back as it was":                    {stamped: b, now: "bbb", wantStamped: b},
		"it comes back as another":                   {stamped: b, now: "ccc", wantStamped: "configmap/app=ccc@3", restarts: true},
		"its pods read a frozen revision":            {pins: frozen, now: "aaa", wantStamped: a, restarts: true},
		"its pods read one of another source":        {pins: "configmap/web=web-bbbbbbbbbb@1", now: "aaa", wantNoted: a},
		"it is pinned, and the workload restarts on": {mode: optin.Revision, pins: frozen, now: "aaa", wantNoted: a},
		"a frozen one that is gone":                  {pins: frozen},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.mode == (optin.Mode{}) {
				test.mode = optin.Restart
			}
			stamped, noted, p := hashed(t, test.mode, test.required, test.pins, test.stamped, test.noted, test.now)
			if stamped != test.wantStamped || noted != test.wantNoted || p.Changed() != test.restarts {
				t.Errorf("stamped %q, noted %q, restarts: %v", stamped, noted, p.Changed())
			}
			if again, notedAgain, p := hashed(t, test.mode, test.required, "", stamped, noted, test.now); again != stamped || p.Changed() || test.pins != frozen && notedAgain != noted {
				t.Errorf("it is not stable: then stamped %q, noted %q", again, notedAgain)
			}
		})
	}
}

// A template with too much to resolve keeps its pins, but what it restarts on still restarts it.
func TestATemplateWithTooManyReferencesKeepsItsPins(t *testing.T) {
	var many []gen.PodSpecModifier
	for i := range podspec.MaxReferences + 1 {
		many = append(many, gen.Env("configmap/app", fmt.Sprint("k", i)))
	}
	keepsItsPins(t, notice.TooManyReferences, gen.Tracking("all"), gen.Template(many...))
}

// So does one whose list of sources is too long.
func TestATemplateWithATooLongListKeepsItsPins(t *testing.T) {
	list := "configmap/app" + strings.Repeat(",configmap/web", pin.MaxPins)
	keepsItsPins(t, optin.InvalidTrack, gen.Tracking(list), gen.Template(gen.EnvFrom("configmap/app")))
}

func keepsItsPins(t *testing.T, why string, modifiers ...gen.DeploymentModifier) {
	t.Helper()
	d := gen.Deployment("web", append(modifiers, gen.Annotated(keys.RestartOn, "configmap/extra"), gen.Pinned(pinA))...)
	r := &Engine{Kind: workload.Deployment, Kinds: &workload.Kinds{}, Client: fake.NewClientBuilder().Build()}
	seen := newObserved(d.Namespace, view{reader: r.Client})
	seen.template, seen.config = &d.Spec.Template, r.Kind.Config(d, index.Namespace(), r.Options.Defaults())
	seen.warnings = seen.config.Problems
	if err := r.selectUses(t.Context(), d, seen); err != nil {
		t.Fatal(err)
	}
	if !seen.unbounded || len(seen.pins.Uses) > 0 || textsOf(seen.hashes.Uses) != "configmap/extra" ||
		len(seen.warnings) != 1 || seen.warnings[0].Reason != why {
		t.Fatalf("unbounded: %v, pinned %q, hashed %q, warned %+v", seen.unbounded, textsOf(seen.pins.Uses), textsOf(seen.hashes.Uses), seen.warnings)
	}
	r.readNotes(d, seen)
	seen.hashes.Pins = pin.Set{gen.Source("configmap/extra"): {Revision: "aaa", Number: 1}}
	seen.hashes.Sources[gen.Source("configmap/extra")] = plan.Source{Present: true, Name: "bbb"}
	for _, injection := range []optin.Injection{optin.Admission, optin.Template} {
		seen.config.Injection = injection
		want := seen.decide()
		if want.pins.Pins.String() != pinA || want.pins.Changed() || want.release || len(want.inject) > 0 {
			t.Errorf("%s: pins %q, changed: %v, %+v", injection, want.pins.Pins, want.pins.Changed(), want.inject)
		}
		if !want.hashes.Changed() || want.hashes.Pins.String() != "configmap/extra=bbb@2" {
			t.Errorf("%s: hashes %q", injection, want.hashes.Pins)
		}
		got := sent(t, d, seen, want)
		if got.Spec.Template.Annotations[keys.Pins] != pinA || got.Spec.Template.Annotations[keys.Hashes] != "configmap/extra=bbb@2" {
			t.Errorf("%s: the template has %v", injection, got.Spec.Template.Annotations)
		}
	}
}

// Naming a tracked source in restart-on makes all of it count, not only the keys that are used.
func TestRestartOnATrackedSourceCountsAllOfIt(t *testing.T) {
	d := gen.Deployment("web", gen.Tracking("all"), gen.Annotated(keys.Mode, "restart"), gen.Annotated(keys.RestartOn, "configmap/app"),
		gen.Template(gen.Env("configmap/app", "k"), gen.Env("configmap/web", "k")))
	r := &Engine{Kind: workload.Deployment, Kinds: &workload.Kinds{}, Client: fake.NewClientBuilder().Build()}
	seen := newObserved(d.Namespace, view{reader: r.Client})
	seen.template, seen.config = &d.Spec.Template, r.Kind.Config(d, index.Namespace(), r.Options.Defaults())
	if err := r.selectUses(t.Context(), d, seen); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, use := range seen.hashes.Uses {
		all[use.String()] = use.All
	}
	if diff := cmp.Diff(map[string]bool{"configmap/app": true, "configmap/web": false}, all); diff != "" || len(seen.hashes.Uses) != 2 {
		t.Errorf("whether all of it counts (-want +got):\n%s", diff)
	}
}

// A source that belongs to the Rollout that has the Deployment's template is tracked like one of the Deployment's. Without
// consent neither is, which is said.
func TestAnOwnerThatRefersToTheWorkloadCounts(t *testing.T) {
	d, rollout := gen.Deployment("web", gen.Template(gen.EnvFrom("configmap/app"))), workload.Rollout.New()
	rollout.SetUID("uid-of-rollout")
	for name, owner := range map[string]metav1.OwnerReference{"itself": {UID: d.UID}, "the one that refers": {UID: "uid-of-rollout"}} {
		app := gen.ConfigMap("app", nil)
		app.OwnerReferences = []metav1.OwnerReference{owner}
		r := &Engine{Kind: workload.Deployment, Kinds: &workload.Kinds{}, Client: fake.NewClientBuilder().WithObjects(app).Build()}
		for _, uids := range [][]types.UID{{d.UID}, {rollout.GetUID(), d.UID}} {
			for _, consent := range []string{"true", "false"} {
				seen := newObserved(d.Namespace, view{reader: r.Client})
				seen.template, seen.uids = &d.Spec.Template, uids
				seen.config = optin.Read(optin.Metadata{Annotations: map[string]string{keys.Owners: consent}}, optin.Defaults{})
				if err := r.selectUses(t.Context(), d, seen); err != nil {
					t.Fatal(err)
				}
				owned := slices.Contains(uids, owner.UID)
				if (len(seen.pins.Uses) == 1) != (owned && consent == "true") {
					t.Errorf("owned by %s, %d refer, consent %s: %v", name, len(uids)-1, consent, seen.pins.Uses)
				}
				said := slices.ContainsFunc(seen.warnings, func(w notice.Notice) bool { return w.Reason == notice.OwnerIgnored && w.Normal })
				if said != (owned && consent == "false") {
					t.Errorf("owned by %s, %d refer, consent %s: it says %v", name, len(uids)-1, consent, seen.warnings)
				}
			}
		}
	}
}

// Rule 11, also where nothing is copied.
func TestRestartsOfThrottledSourceAreReverted(t *testing.T) {
	app, web := gen.Source("configmap/app"), gen.Source("configmap/web")
	r := &Engine{Store: revision.NewStore(nil, nil, nil, time.Now, nil, 2)}
	seen := &observed{namespace: gen.Namespace, sources: map[pin.Source]revision.Observation{}}
	plans := func(from, to string) intent {
		was, is := pin.Pin{Revision: from, Number: 1}, pin.Pin{Revision: to, Number: 2}
		return intent{hashes: plan.Plan{
			Pins:      pin.Set{app: is, web: was},
			Decisions: []plan.Decision{{Source: app, From: was, To: is}, {Source: web, From: was, To: was}},
		}}
	}
	for _, to := range []string{"aaa", "bbb"} {
		for range 5 { // Many workloads restart for one change.
			if want := plans("old", to); len(r.limit(t.Context(), seen, &want)) > 0 || !want.hashes.Changed() {
				t.Errorf("the change to %s is reverted", to)
			}
		}
	}
	want := plans("bbb", "ccc")
	limited := r.limit(t.Context(), seen, &want)
	if len(limited) != 1 || limited[0].Reason != revision.TooFrequent || want.changes() || want.hashes.Pins[app].Revision != "bbb" {
		t.Errorf("beyond the limit: %+v, %+v", limited, want.hashes)
	}
	// Whole objects change, not only what a workload uses of them.
	seen.sources[web] = revision.Observation{Source: plan.Source{Hash: "v1-x"}}
	for i := range 5 {
		is := pin.Pin{Revision: fmt.Sprint("k", i), Number: 2}
		want := intent{hashes: plan.Plan{Pins: pin.Set{web: is}, Decisions: []plan.Decision{{Source: web, To: is}}}}
		if limited := r.limit(t.Context(), seen, &want); len(limited) > 0 {
			t.Errorf("one content, the hash of other keys of it: %+v", limited)
		}
	}
}

// Rule 11: a change to an object is one change, whatever workloads follow of it. Here, each names another field, and all of them change.
func TestWorkloadsThatNameOtherFieldsCountAChangeOnce(t *testing.T) {
	const perHour, workloads = 3, 10
	claim := pin.Source{Kind: "persistentvolumeclaims.v1", Name: "data"}
	r := &Engine{Store: revision.NewStore(nil, nil, nil, time.Now, nil, perHour)}
	change := func(i, workload int) intent {
		return intent{hashes: plan.Plan{Pins: pin.Set{}, Decisions: []plan.Decision{{
			Source: claim, From: pin.Pin{Revision: "before", Number: int64(i)}, To: pin.Pin{Revision: fmt.Sprintf("change-%d-field-%d", i, workload), Number: int64(i + 1)},
		}}}}
	}
	for i := range perHour + 1 {
		for workload := range workloads {
			triggers, err := optin.ParseRestartOn(fmt.Sprintf("%s{.spec.field%d}", claim, workload))
			if err != nil {
				t.Fatal(err)
			}
			seen := &observed{namespace: gen.Namespace, config: optin.Config{RestartOn: triggers}}
			for range 2 { // As two workloads that name the same.
				want := change(i, workload)
				if limited := r.limit(t.Context(), seen, &want); (len(limited) > 0) != (i >= perHour) {
					t.Errorf("change %d, workload %d: %+v", i+1, workload, limited)
				}
			}
		}
	}
}

// Those that refer to a workload have an order, and no say in what happens to it: anyone who may create a Rollout could steer a Deployment.
func TestThoseThatReferToAWorkload(t *testing.T) {
	all := &workload.Kinds{}
	all.Add(workload.Rollout)
	refers := func(name, track string) client.Object {
		obj := rolloutOf(name, "apps/v1", "Deployment", "web")
		obj.SetAnnotations(map[string]string{keys.Track: track})
		return obj
	}
	c := fake.NewClientBuilder().WithObjects(refers("b", "all"), refers("a", "none"), rolloutOf("other", "apps/v1", "Deployment", "x")).
		WithIndex(workload.Rollout.New(), index.ByReferred, index.Referred(workload.Rollout)).Build()
	reader := reversed{c}
	for _, reader := range []client.Reader{c, reader} {
		found, err := index.Referring(t.Context(), reader, all, workload.Deployment, gen.Deployment("web"))
		if err != nil || len(found) != 2 || found[0].GetName() != "a" || found[1].GetName() != "b" {
			t.Fatalf("%v, %v", found, err)
		}
		asked, _, err := Config(t.Context(), reader, all, Options{}, workload.Deployment, gen.Deployment("web"))
		if err != nil || asked.Track.Enabled() || asked.Track.None() {
			t.Errorf("%+v, %v", asked.Track, err)
		}
	}
}

// A workload without a template is not told so unless it asks for anything, and nothing is written to an empty one.
func TestObserveATemplateThatIsNone(t *testing.T) {
	tests := map[string]struct {
		spec   map[string]any
		track  string
		warned bool
	}{
		"no template":                         {nil, "all", false},
		"an empty one":                        {map[string]any{"template": map[string]any{}}, "all", false},
		"something else":                      {map[string]any{"template": "x"}, "all", true},
		"something else, that is not tracked": {map[string]any{"template": "x"}, "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			obj := unstructuredOf(fleet.GVK, "web", test.spec)
			obj.SetAnnotations(map[string]string{keys.Track: test.track, keys.RestartOn: "configmap/app"})
			r := &Engine{Kind: fleet, Kinds: &workload.Kinds{}, Now: time.Now, Client: fake.NewClientBuilder().Build()}
			seen, err := r.observe(t.Context(), obj, view{reader: r.Client})
			if err != nil || seen.follows() || (len(seen.warnings) > 0) != test.warned {
				t.Fatalf("follows: %v, %+v, %v", seen.follows(), seen.warnings, err)
			}
			if test.warned && seen.warnings[0].Reason != notice.NoPodTemplate {
				t.Errorf("%+v", seen.warnings)
			}
			want := seen.decide()
			if ops := r.patch(obj, seen, want); want.changes() || len(ops) > 0 {
				t.Errorf("it is written to: %+v", ops)
			}
		})
	}
}

// Rule 4: a source that is pinned and also named in restart-on is held by its pin and by its hash, each with its own note.
func TestHoldOfPinnedRestartTrigger(t *testing.T) {
	both := func(image, value, number string) *appsv1.Deployment {
		hash := "configmap/app=" + content.FromConfigMap(gen.App(value)).Digests().Sum(true, nil) + "@" + number
		d := gen.Web(image, gen.Annotated(keys.RestartOn, "configmap/app"), gen.Pinned(gen.PinOfApp(value, number)))
		metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, keys.Hashes, hash)
		return d
	}
	first, second := both("1", "a", "1"), both("2", "b", "2")
	w := newAdmissionWorld(t, workload.Deployment, gen.App("b"), gen.RevisionOfApp("a", "1"))
	undone := w.admitted(t, first, second, false).(*appsv1.Deployment)
	for key, want := range map[string]string{
		keys.Held: gen.PinOfApp("b", "2"), keys.HeldHashes: second.Spec.Template.Annotations[keys.Hashes],
	} {
		if got := undone.Annotations[key]; !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	// Without a holder that shows the hold, each note speaks for itself.
	next := w.admitted(t, gen.Web("3", func(d *appsv1.Deployment) { undone.DeepCopyInto(d); d.Spec.Template.Spec.Containers[0].Image = "3" }), undone, false)
	if got := next.(*appsv1.Deployment).Spec.Template.Annotations[keys.Pins]; got != gen.PinOfApp("a", "1") {
		t.Errorf("a new image took the pins to %s", got)
	}
}
