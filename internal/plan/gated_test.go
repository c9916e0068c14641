package plan_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/test/gen"
)

var (
	manual   = waiting.Gate{Reason: waiting.Manual, By: "manual"}
	onDeploy = waiting.Gate{Reason: waiting.OnDeploy, By: "on-deploy"}
)

// now is when the plans of these tests are made; frozen ends an hour later.
var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func frozen(t *testing.T) waiting.Gate {
	t.Helper()
	g, err := waiting.ParseFreeze("2026-11-22T13:00:00Z", "freeze")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// twoSources makes the input of a workload whose sources app and web have both changed.
func twoSources() plan.Input {
	return plan.Input{
		Uses:    []podspec.Use{useAll, {Source: web, All: true}},
		Sources: map[pin.Source]plan.Source{app: source("b", "a@1"), web: other("web", 2)},
		Pins:    gen.Pins("configmap/app=app-a@1,configmap/web=web-w@1"),
		Now:     now,
	}
}

// Rules 33 and 34: a source that waits for an act does so by itself; what waits for a time waits together.
func TestSourcesThatWait(t *testing.T) {
	const advanced, waits, pinned = plan.Advanced, plan.Waiting, plan.Pinned
	for name, test := range map[string]struct {
		workload, app, web []waiting.Gate
		change             func(*plan.Input)
		want               map[pin.Source]plan.Verdict
		reasons            map[pin.Source]waiting.Reason
	}{
		"nothing is said": {want: map[pin.Source]plan.Verdict{app: advanced, web: advanced}},
		"the workload waits for a person": {
			workload: []waiting.Gate{manual}, want: map[pin.Source]plan.Verdict{app: waits, web: waits},
			reasons: map[pin.Source]waiting.Reason{app: waiting.Manual, web: waiting.Manual},
		},
		"one source waits for a person": {
			app: []waiting.Gate{manual}, want: map[pin.Source]plan.Verdict{app: waits, web: advanced}, reasons: map[pin.Source]waiting.Reason{app: waiting.Manual},
		},
		"one source is frozen, and the other waits with it": {
			app: []waiting.Gate{frozen(t)}, want: map[pin.Source]plan.Verdict{app: waits, web: waits},
			reasons: map[pin.Source]waiting.Reason{app: waiting.Frozen, web: waiting.Frozen},
		},
		"one source is frozen, and has not changed": {
			app: []waiting.Gate{frozen(t)}, want: map[pin.Source]plan.Verdict{app: plan.InSync, web: advanced},
			change: func(in *plan.Input) { in.Sources[app] = source("a", "a@1") },
		},
		"what waits for a person does not wait for a time, nor make others": {
			app: []waiting.Gate{frozen(t), manual}, want: map[pin.Source]plan.Verdict{app: waits, web: advanced}, reasons: map[pin.Source]waiting.Reason{app: waiting.Manual},
		},
		"a first pin is never delayed": {
			workload: []waiting.Gate{manual, frozen(t)}, want: map[pin.Source]plan.Verdict{app: pinned, web: waits}, reasons: map[pin.Source]waiting.Reason{web: waiting.Manual},
			change: func(in *plan.Input) { delete(in.Pins, app) },
		},
		"a first pin does not let others through a freeze": {
			workload: []waiting.Gate{frozen(t)}, want: map[pin.Source]plan.Verdict{app: pinned, web: waits}, reasons: map[pin.Source]waiting.Reason{web: waiting.Frozen},
			change: func(in *plan.Input) { delete(in.Pins, app) },
		},
		"a freeze is over": {
			workload: []waiting.Gate{frozen(t)}, want: map[pin.Source]plan.Verdict{app: advanced, web: advanced},
			change: func(in *plan.Input) { in.Now = now.Add(time.Hour) },
		},
		"a deploy": {
			app: []waiting.Gate{onDeploy}, web: []waiting.Gate{manual}, want: map[pin.Source]plan.Verdict{app: advanced, web: waits},
			reasons: map[pin.Source]waiting.Reason{web: waiting.Manual}, change: func(in *plan.Input) { in.Occasion, in.Deploys = plan.Change, true },
		},
		"a restart is no deploy": {
			app: []waiting.Gate{onDeploy}, want: map[pin.Source]plan.Verdict{app: waits, web: advanced},
			reasons: map[pin.Source]waiting.Reason{app: waiting.OnDeploy}, change: func(in *plan.Input) { in.Occasion = plan.Change },
		},
		"a deploy during a freeze": {
			app: []waiting.Gate{frozen(t)}, want: map[pin.Source]plan.Verdict{app: waits, web: waits},
			reasons: map[pin.Source]waiting.Reason{app: waiting.Frozen, web: waiting.Frozen}, change: func(in *plan.Input) { in.Occasion, in.Deploys = plan.Change, true },
		},
		"a hold stays one": {
			app: []waiting.Gate{manual}, want: map[pin.Source]plan.Verdict{app: plan.Held, web: advanced},
			change: func(in *plan.Input) {
				in.Sources[app] = source("b", "a@1 b@2")
				in.Holders = []plan.Holder{{Order: 1, Pins: gen.Pins("configmap/app=app-b@2,configmap/web=web-w@1")}}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := twoSources()
			if test.change != nil {
				test.change(&in)
			}
			in.Gates = test.workload
			for source, own := range map[pin.Source][]waiting.Gate{app: test.app, web: test.web} {
				known := in.Sources[source]
				known.Gates = own
				in.Sources[source] = known
			}
			p := makePlan(t, in)
			verdicts, reasons := map[pin.Source]plan.Verdict{}, map[pin.Source]waiting.Reason{}
			for _, d := range p.Decisions {
				if verdicts[d.Source] = d.Verdict; d.Wait.Reason != "" {
					reasons[d.Source] = d.Wait.Reason
				}
				if moves := d.Verdict == advanced || d.Verdict == pinned; moves != (d.To != d.From) {
					t.Errorf("%s is %s, and moves from %s to %s", d.Source, d.Verdict, d.From, d.To)
				}
			}
			if diff := gocmp.Diff(test.want, verdicts); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
			if !maps.Equal(test.reasons, reasons) {
				t.Errorf("they wait for %v, want %v", reasons, test.reasons)
			}
		})
	}
}

// Rule 34: what is pinned and what only restarts the workload are one rollout, so they wait together.
func TestPinsAndHashesWaitTogether(t *testing.T) {
	pinned := planCase{content: "b", revisions: "a@1", pins: "a@1"}.input()
	hashed := rotating("a@1", "b", nil)
	pinned.Now, hashed.Now = now, now
	for name, test := range map[string]struct {
		pins, hashes []waiting.Gate
		replaced     bool
		wantP, wantH plan.Verdict
	}{
		"nothing is said":                      {wantP: plan.Advanced, wantH: plan.Advanced},
		"the pinned source is frozen":          {pins: []waiting.Gate{frozen(t)}, wantP: plan.Waiting, wantH: plan.Waiting},
		"the other one is frozen":              {hashes: []waiting.Gate{frozen(t)}, wantP: plan.Waiting, wantH: plan.Waiting},
		"one waits for a person":               {pins: []waiting.Gate{manual}, wantP: plan.Waiting, wantH: plan.Advanced},
		"the pods are about to read it anyway": {hashes: []waiting.Gate{frozen(t)}, replaced: true, wantP: plan.Advanced, wantH: plan.Advanced},
	} {
		t.Run(name, func(t *testing.T) {
			pins, hashes := clone(pinned), clone(hashed)
			hashes.Live, hashes.Replaced = true, test.replaced
			for _, of := range []struct {
				in    plan.Input
				gates []waiting.Gate
			}{{pins, test.pins}, {hashes, test.hashes}} {
				known := of.in.Sources[app]
				known.Gates = of.gates
				of.in.Sources[app] = known
			}
			p, h := plan.Both(pins, hashes)
			if p.Decisions[0].Verdict != test.wantP || h.Decisions[0].Verdict != test.wantH {
				t.Errorf("%s and %s, want %s and %s", p.Decisions[0].Verdict, h.Decisions[0].Verdict, test.wantP, test.wantH)
			}
		})
	}
}

// A plan during which something waits is that of the same moment with fewer moves: it never moves what it would not move otherwise.
func TestGatesOnlyKeepPinsWhereTheyAre(t *testing.T) {
	for _, gates := range [][]waiting.Gate{{manual}, {onDeploy}, {frozen(t)}} {
		in := twoSources()
		free := plan.Make(in)
		in.Gates = gates
		for i, d := range plan.Make(in).Decisions {
			if d.To != d.From && d.To != free.Decisions[i].To {
				t.Errorf("%v: %s moves to %s, and to %s without", gates, d.Source, d.To, free.Decisions[i].To)
			}
		}
		if waits := plan.Make(in); waits.Changed() || !slices.Equal(waits.Pins.Sources(), in.Pins.Sources()) {
			t.Errorf("%v: %s", gates, waits.Pins)
		}
	}
}

// Rule 39: while a change is stopped, a workload without a pin gets what others work with, if that has the keys that it requires.
func TestAFirstPinWhileAChangeIsStopped(t *testing.T) {
	stopped := waiting.ForStop("configmap/app")
	for name, test := range map[string]struct {
		use           podspec.Use
		turn          waiting.Wait
		instead, want string
		unknown       bool
	}{
		"others work with another":           {use: useKey, turn: stopped, instead: "a@1", want: "a@1"},
		"it lacks a key":                     {use: useKey, turn: stopped, instead: "k@2", want: "c@3"},
		"it lacks a key that is optional":    {use: useOptKey, turn: stopped, instead: "k@2", want: "k@2"},
		"no one knows what is in it":         {use: useKey, turn: stopped, instead: "a@1", unknown: true, want: "c@3"},
		"no one knows and no key is needed":  {use: useAll, turn: stopped, instead: "a@1", unknown: true, want: "a@1"},
		"it is gone":                         {use: useAll, turn: stopped, instead: "b@1", want: "c@3"},
		"nothing else is known to work":      {use: useAll, turn: stopped, want: "c@3"},
		"the change is not stopped":          {use: useAll, instead: "a@1", want: "c@3"},
		"others have to wait for their turn": {use: useAll, turn: waiting.Turn(waiting.Wave, "steps", "configmap/app", now), instead: "a@1", want: "c@3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := source("c", "a@1 k@2")
			s.Turn, s.Instead = test.turn, short(test.instead)
			if test.unknown {
				for i := range s.Revisions {
					s.Revisions[i].Digests = nil
				}
			}
			for _, occasion := range []plan.Occasion{plan.Edit, plan.Change, plan.Request} {
				in := plan.Input{Uses: []podspec.Use{test.use}, Sources: map[pin.Source]plan.Source{app: s}, Occasion: occasion, Now: now}
				p := plan.Make(in)
				d := p.Decisions[0]
				if d.Verdict != plan.Pinned || d.To != short(test.want) || p.Pins[app] != d.To || !p.Urgent() || (d.Wait == stopped) != (test.turn == stopped) {
					t.Errorf("%+v", d)
				}
				// It then waits as the others do, and gets the change with them. It keeps its pin, whatever others work with by then.
				in.Pins = p.Pins
				later := s
				later.Instead = short("k@2")
				in.Sources = map[pin.Source]plan.Source{app: later}
				if again := plan.Make(in).Decisions[0]; test.turn == stopped && d.To != d.Current && (again.Verdict != plan.Waiting || again.To != d.To) {
					t.Errorf("then %+v", again)
				}
			}
		})
	}
}

// Rule 38: a first pin that waits leaves the template as it is, and says what it waits for, unless the controller is about to decide.
func TestAFirstPinThatWaits(t *testing.T) {
	budget := waiting.Turn(waiting.Budget, "annotation confrev.io/max-rolling of configmap/app", "configmap/app", time.Time{})
	for name, until := range map[string]waiting.Wait{"for a place": budget, "for the controller": {}} {
		t.Run(name, func(t *testing.T) {
			in := planCase{content: "a", revisions: "a@1"}.input()
			about := in.Sources[app]
			about.Later, about.Until = true, until
			in.Sources[app] = about
			p := plan.Make(in)
			if d := p.Decisions[0]; d.Verdict != plan.Waiting || d.Wait != until || d.To != (pin.Pin{}) || p.Changed() || p.Urgent() || len(p.Pins) > 0 {
				t.Errorf("%+v, pins %v", d, p.Pins)
			}
			in.Pins = set("b@1")
			if d := plan.Make(in).Decisions[0]; d.Verdict != plan.Advanced {
				t.Errorf("it is for first pins only: %+v", d)
			}
		})
	}
}

// Rule 36: as long as no one can read how many may roll out, workloads that exist already get no first pin.
func TestAFirstPinAndASettingThatCannotBeRead(t *testing.T) {
	budget := waiting.Gate{Reason: waiting.Manual, By: "annotation confrev.io/max-rolling", Invalid: true, Budget: true}
	other := budget
	other.Budget = false
	for name, test := range map[string]struct {
		gate     waiting.Gate
		occasion plan.Occasion
		created  bool
		waits    bool
	}{
		"an edit":        {budget, plan.Edit, false, true},
		"a request":      {budget, plan.Request, false, true},
		"a deploy":       {budget, plan.Change, false, false},
		"a new workload": {budget, plan.Edit, true, false},
		"another one":    {other, plan.Edit, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := planCase{content: "a", revisions: "a@1"}.input()
			in.Occasion, in.New = test.occasion, test.created
			for i, where := range []string{"of the source", "of the namespace"} {
				about := in.Sources[app]
				if in.Gates, about.Gates = nil, []waiting.Gate{test.gate}; i > 0 {
					in.Gates, about.Gates = about.Gates, nil
				}
				in.Sources[app] = about
				if d := plan.Make(in).Decisions[0]; (d.Verdict == plan.Waiting) != test.waits || test.waits && !d.Wait.Invalid {
					t.Errorf("%s: %+v", where, d)
				}
			}
		})
	}
}
