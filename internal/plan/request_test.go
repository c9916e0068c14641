package plan_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

// Rule 21.2: code and pins tell an undo from a deploy.
func TestUndo(t *testing.T) {
	const a, b, both = "configmap/app=app-a@1", "configmap/app=app-b@2", "configmap/app=app-a@1,configmap/web=web-x@1"
	is := func(code, pins string) plan.Template { return plan.Template{Code: code, Pins: gen.Pins(pins)} }
	history := []plan.Template{is("1", a), is("2", b)}
	tests := map[string]struct {
		old, request plan.Template
		holders      []plan.Template
		want         string
		is           bool
	}{
		"back to both":                                  {is("2", b), is("1", a), history, a, true},
		"forward to both":                               {is("1", a), is("2", b), history, b, true},
		"to the code only":                              {is("2", b), is("1", b), history, "", false},
		"to the pins only":                              {is("2", b), is("2", a), history, "", false},
		"to new code":                                   {is("2", b), is("3", b), history, "", false},
		"nothing":                                       {is("2", b), is("2", b), history, "", false},
		"to other code with the same pins":              {is("2", a), is("1", a), []plan.Template{is("1", a), is("2", a)}, a, true},
		"to a holder from before the pins":              {is("2", b), is("1", ""), []plan.Template{is("1", ""), is("2", b)}, b, true},
		"the same, asked again":                         {is("2", b), is("1", b), []plan.Template{is("1", ""), is("2", b)}, b, true},
		"to one that lacks a pin":                       {is("2", both), is("1", a), []plan.Template{is("1", a), is("2", both)}, both, true},
		"a replace by a manifest, with no holder of it": {is("2", b), is("2", ""), history, "", false},
		"a replace by a manifest that ran unpinned":     {is("1", b), is("1", ""), []plan.Template{is("1", ""), is("1", b)}, "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pins, to := plan.Undo(test.old, test.request, test.holders, nil)
			if is := len(to) > 0; is != test.is || pins.String() != test.want {
				t.Errorf("%v, %q; want %v, %q", to, pins, test.is, test.want)
			}
		})
	}
}

// Rules 21.2 and 21.6: a webhook that is called again knows an undo from which it dropped pins.
func TestAnUndoIsKnownAgain(t *testing.T) {
	const a, b, both = "configmap/app=app-a@1", "configmap/app=app-b@2", "configmap/app=app-a@1,configmap/web=web-x@1"
	is := func(code, pins string) plan.Template { return plan.Template{Code: code, Pins: gen.Pins(pins)} }
	web := pin.Source{Kind: pin.ConfigMap, Name: "web"}
	tests := map[string]struct {
		old, request plan.Template
		holders      []plan.Template
		dropped      bool
		is           bool
	}{
		"of what the holder has":           {is("2", b), is("1", a), []plan.Template{is("1", both), is("2", b)}, true, true},
		"of what the template had":         {is("2", both), is("1", a), []plan.Template{is("1", a), is("2", both)}, true, true},
		"of nothing, so it is a deploy":    {is("2", b), is("1", a), []plan.Template{is("1", both), is("2", b)}, false, false},
		"a restart of what dropped it":     {is("1", a), is("1", a), []plan.Template{is("1", both), is("1", a)}, true, false},
		"a restart that drops it":          {is("1", both), is("1", a), []plan.Template{is("1", both), is("2", b)}, true, false},
		"a deploy of code that had it too": {is("2", b), is("1", b), []plan.Template{is("1", both), is("2", b)}, true, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pins, to := plan.Undo(test.old, test.request, test.holders, map[pin.Source]bool{web: test.dropped})
			if is := len(to) > 0; is != test.is || is && pins.String() != a {
				t.Errorf("%v, %q; want %v", to, pins, test.is)
			}
		})
	}
}

// Rule 21.5: templates may differ in what is not code, such as the time of a restart. The request may go back to each of them.
func TestAnUndoOfSeveralHoldersAlike(t *testing.T) {
	const a, b = "configmap/app=app-a@1", "configmap/app=app-b@2"
	is := func(code, pins string) plan.Template { return plan.Template{Code: code, Pins: gen.Pins(pins)} }
	pins, to := plan.Undo(is("2", b), is("1", a), []plan.Template{is("1", b), is("1", a), is("2", b), is("1", a)}, nil)
	if pins.String() != a || !slices.Equal(to, []int{1, 3}) {
		t.Errorf("%v, %q", to, pins)
	}
}

// Rule 21.1: which of a request's pins count.
func TestChosen(t *testing.T) {
	tests := map[string]struct {
		old, request string
		pins         string
		chosen       bool
		refused      bool
	}{
		"none, as kubectl replace does":            {old: "a@1", pins: "a@1"},
		"the same":                                 {old: "a@1", request: "a@1", pins: "a@1"},
		"confrev's own, when it is asked again":    {old: "a@1", request: "b@2", pins: "a@1"},
		"another revision of the source":           {old: "a@1", request: "c@3", pins: "c@3", chosen: true},
		"one that is none":                         {old: "a@1", request: "a2@7", pins: "a@1", refused: true},
		"one that is none, where there was no pin": {request: "a2@7", refused: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := planCase{content: "b", revisions: "a@1 b@2 c@3", pins: test.old}.input()
			in.Sources[app] = source("b", "a@1 b@2 c@1")
			pins, chosen, refused := plan.ChosenPins(in, set(test.request))
			if diff := cmp.Diff(set(test.pins), pins, cmpopts.EquateEmpty()); diff != "" || chosen[app] != test.chosen || (len(refused) > 0) != test.refused {
				t.Errorf("chosen %v, refused %v; pins (-want +got):\n%s", chosen, refused, diff)
			}
		})
	}
}

// Rule 21.1: what was chosen stays, although a deploy includes what else has changed.
func TestWhatWasChosenStays(t *testing.T) {
	in := planCase{content: "c", revisions: "a@1 b@2", pins: "a@1", holders: []string{"a@1", "b@2"}}.input()
	in.Chosen = map[pin.Source]bool{app: true}
	if d := makePlan(t, in).Decisions[0]; d.Verdict != plan.Waiting {
		t.Errorf("it is %s", d.Verdict)
	}
}

// Rule 21.3: between which holders a workload was rolled back.
func TestRolledBack(t *testing.T) {
	tests := map[string]struct {
		holders []string
		want    plan.Rollback
	}{
		"an undo":                        {[]string{"b@2", "a@1"}, plan.Rollback{From: 0, To: 1}},
		"the newest it was held from":    {[]string{"b@2", "b@2", "a@1", "a@1"}, plan.Rollback{From: 1, To: 2}},
		"its number was raised since":    {[]string{"b@1", "a@1"}, plan.Rollback{From: 0, To: 1}},
		"its holder is not there yet":    {[]string{"a@1", "b@2"}, plan.Rollback{From: 1, To: -1}},
		"what it was held from is gone":  {[]string{"a@1"}, plan.Rollback{From: -1, To: -1}},
		"another content was in between": {[]string{"b@2", "c@3", "a@1"}, plan.Rollback{From: 0, To: 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, plan.FindRollback(holders(test.holders...), app, short("b@2"), short("a@1"))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Rule 21.3: the orders of holders count, not that in which they are listed.
func TestRolledBackInAnyOrder(t *testing.T) {
	holder := func(order int64, text string) plan.Holder { return plan.Holder{Order: order, Pins: set(text)} }
	tests := map[string]struct {
		holders []plan.Holder
		want    plan.Rollback
	}{
		"the newest it was held from is listed first": {
			[]plan.Holder{holder(3, "b@2"), holder(1, "b@2"), holder(4, "a@1")}, plan.Rollback{From: 0, To: 2}},
		"the oldest after it is listed first": {
			[]plan.Holder{holder(2, "a@1"), holder(1, "b@2"), holder(3, "a@1")}, plan.Rollback{From: 1, To: 0}},
		"what ran before it is no rollback from it": {
			[]plan.Holder{holder(1, "a@1"), holder(2, "b@2")}, plan.Rollback{From: 1, To: -1}},
		"nor is what is as old": {
			[]plan.Holder{holder(2, "b@2"), holder(2, "a@1")}, plan.Rollback{From: 0, To: -1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, plan.FindRollback(test.holders, app, short("b@2"), short("a@1"))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Rule 21.3: a deploy ends a hold if it changes what was undone.
func TestEndsHold(t *testing.T) {
	code := func(image, log string) podspec.Code { return podspec.Code{"image": image, "env/LOG": log} }
	tests := map[string]struct {
		from, to, before, after podspec.Code
		want                    bool
	}{
		"the same release again":              {code("2", "x"), code("1", "x"), code("1", "x"), code("2", "x"), true},
		"fixed code":                          {code("2", "x"), code("1", "x"), code("1", "x"), code("3", "x"), true},
		"another field":                       {code("2", "x"), code("1", "x"), code("1", "x"), code("1", "debug"), false},
		"no code was undone":                  {code("1", "x"), code("1", "x"), code("1", "x"), code("2", "x"), false},
		"nothing changes":                     {code("2", "x"), code("1", "x"), code("1", "x"), code("1", "x"), false},
		"a field that had changed before":     {code("2", "x"), code("1", "x"), code("3", "x"), code("3", "debug"), false},
		"what was undone, long after another": {code("2", "x"), code("1", "x"), code("1", "debug"), code("2", "debug"), true},
		"a variable that was undone is set":   {code("1", "y"), code("1", "x"), code("1", "x"), code("1", "debug"), true},
		"a field that the rollback removed":   {code("1", "y"), podspec.Code{"image": "1"}, podspec.Code{"image": "1"}, code("1", "z"), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := plan.EndsHold(test.from, test.to, test.before, test.after); got != test.want {
				t.Errorf("ends: %v, want %v", got, test.want)
			}
		})
	}
}

// Rule 21.3: a hold that a deploy ends lets the pin go to current, or says so where it must wait.
func TestAHoldThatADeployEnds(t *testing.T) {
	in := planCase{content: "b", revisions: "a@1 b@2", pins: "a@1", held: "b@2", holders: []string{"b@2", "a@1"}}.input()
	in.Ended = map[pin.Source]bool{app: true}
	if d := plan.Make(in).Decisions[0]; d.Verdict != plan.Advanced || d.To != short("b@2") {
		t.Errorf("it is %s, to %s", d.Verdict, d.To)
	}
	in.Occasion = plan.Request
	p := plan.Make(in)
	if d := p.Decisions[0]; d.Verdict != plan.Waiting || !p.Held[app].Ended {
		t.Errorf("with advance manual it is %s, with the note %s", d.Verdict, p.Held)
	}
	in.Ended, in.Held = nil, p.Held
	if d := plan.Make(in).Decisions[0]; d.Verdict != plan.Waiting {
		t.Errorf("looked at again, it is %s", d.Verdict)
	}
}

// Rule 21.1: a workload that is created on a revision of the past is held from the present content, until that changes.
func TestAWorkloadThatIsCreatedOnAnOldRevision(t *testing.T) {
	in := planCase{content: "b", revisions: "a@1", pins: "a@1"}.input()
	in.New, in.Chosen = true, map[pin.Source]bool{app: true}
	p := makePlan(t, in)
	if d := p.Decisions[0]; d.Verdict != plan.Held || p.Held[app].From != short("b@2") || p.Held[app].On != short("a@1") {
		t.Fatalf("it is %s, with the note %s", d.Verdict, p.Held)
	}
	later := planCase{content: "b", revisions: "a@1", pins: "a@1", holders: []string{"a@1"}}.input()
	later.Held = p.Held
	if d := makePlan(t, later).Decisions[0]; d.Verdict != plan.Held {
		t.Errorf("looked at again, it is %s", d.Verdict)
	}
	later.Sources[app] = source("c", "a@1")
	if d := makePlan(t, later).Decisions[0]; d.Verdict != plan.Advanced {
		t.Errorf("with other content, it is %s", d.Verdict)
	}
	in.Occasion = plan.Request
	if p := makePlan(t, in); p.Decisions[0].Verdict != plan.Waiting || len(p.Held) > 0 {
		t.Errorf("with advance manual it is %s, with the note %s", p.Decisions[0].Verdict, p.Held)
	}
}
