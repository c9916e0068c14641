package spread_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/test/gen"
)

// members reads "a:Waiting b:Vouched@2": names, stages and stated waves. An exclamation mark is a disturbed member, a
// question mark one that may be.
func members(text string) []spread.Member {
	var all []spread.Member
	for item := range strings.FieldsSeq(text) {
		var m spread.Member
		item, m.Disturbed = strings.CutSuffix(item, "!")
		item, m.Unsure = strings.CutSuffix(item, "?")
		m.Disturbed = m.Disturbed || m.Unsure
		item, wave, stated := strings.Cut(item, "@")
		if stated {
			_, _ = fmt.Sscan(wave, &m.Wave)
		}
		name, stage, _ := strings.Cut(item, ":")
		m.Name, m.Stage = name, spread.Stage(stage)
		all = append(all, m)
	}
	return all
}

func settings(t *testing.T, steps, rolling string) spread.Settings {
	t.Helper()
	s := spread.Settings{By: "test"}
	if steps != "" {
		parsed, err := spread.ParseSteps(steps)
		if err != nil {
			t.Fatal(err)
		}
		s.Steps = parsed
	}
	if rolling != "" {
		amount, err := spread.ParseAmount(rolling)
		if err != nil {
			t.Fatal(err)
		}
		s.MaxRolling = []spread.Amount{amount}
	}
	return s
}

// shape returns the names of each wave: "a|b c".
func shape(s spread.Spread) string {
	var waves []string
	for _, wave := range s.Waves {
		var names []string
		for _, m := range wave.Members {
			names = append(names, m.Name)
		}
		waves = append(waves, strings.Join(names, " "))
	}
	return strings.Join(waves, "|")
}

func going(s spread.Spread) string {
	var names []string
	for _, m := range s.Next() {
		names = append(names, m.Name)
	}
	return strings.Join(names, " ")
}

// Rule 37: waves are in a fixed order, and end where the stated number changes and after each step.
func TestWaves(t *testing.T) {
	ten := "c:Waiting a:Waiting b:Waiting d:Waiting e:Waiting f:Waiting g:Waiting h:Waiting i:Waiting j:Waiting"
	for name, test := range map[string]struct{ members, steps, want string }{
		"one wave":                       {"b:Waiting a:Waiting", "", "a b"},
		"steps":                          {ten, "1,10%,50%", "a|b c d e|f g h i j"},
		"steps in another order":         {ten, "50%,1", "a|b c d e|f g h i j"},
		"a step beyond the end":          {"a:Waiting b:Waiting", "1,50", "a|b"},
		"a small share":                  {"a:Waiting b:Waiting c:Waiting", "10%", "a|b c"},
		"stated waves":                   {"a:Waiting@10 b:Waiting c:Waiting@-1", "", "c|b|a"},
		"stated waves and steps":         {"a:Waiting@10 b:Waiting c:Waiting@10", "1", "b|a c"},
		"who cannot show it":             {"a:Idle b:Idle c:Waiting d:Waiting", "1", "a b c|d"},
		"who cannot show it, at the end": {"a:Waiting b:Waiting c:Idle", "1,100%", "a|b c"},
		"who stands apart":               {"a:Apart b:Waiting c:Waiting", "1", "b|c"},
		"no one":                         {"", "1", ""},
		"no one who can show it":         {"a:Idle b:Idle", "1", "a b"},
		"those who have it keep a place": {"a:Vouched b:Waiting c:Rolling", "1", "a|b c"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := shape(spread.Look(members(test.members), settings(t, test.steps, ""), 0, spread.Place{})); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// Rules 37 and 38: who may go, and why not.
func TestWhoGoes(t *testing.T) {
	for name, test := range map[string]struct {
		members, steps, rolling string
		open                    int
		stopped                 bool
		want                    string
		why                     map[string]spread.Verdict
	}{
		"no limit":       {members: "a:Waiting b:Waiting", want: "a b"},
		"the first wave": {members: "a:Waiting b:Waiting", steps: "1", want: "a", why: map[string]spread.Verdict{"b": spread.LaterWave}},
		"a wave bakes":   {members: "a:Baking b:Waiting", steps: "1", want: "", why: map[string]spread.Verdict{"b": spread.Bakes}},
		"a wave that passed, and was not recorded":        {members: "a:Vouched b:Waiting", steps: "1", want: "", why: map[string]spread.Verdict{"b": spread.Bakes}},
		"a wave that was recorded":                        {members: "a:Vouched b:Waiting", steps: "1", open: 1, want: "b"},
		"what passed is not revoked":                      {members: "a:Rolling b:Waiting", steps: "1", open: 1, want: "b"},
		"more waves than there are":                       {members: "a:Vouched b:Waiting", steps: "1", open: 9, want: "b"},
		"a budget":                                        {members: "a:Waiting b:Waiting c:Waiting", rolling: "2", want: "a b", why: map[string]spread.Verdict{"c": spread.NoPlace}},
		"a place is taken":                                {members: "a:Rolling b:Waiting c:Waiting", rolling: "2", want: "b"},
		"a place until it vouches":                        {members: "a:Baking b:Waiting", rolling: "1", want: "", why: map[string]spread.Verdict{"b": spread.NoPlace}},
		"a place is free":                                 {members: "a:Vouched b:Waiting c:Waiting", rolling: "1", want: "b"},
		"a place that a deploy took":                      {members: "a:Waiting b:Waiting c:Rolling", rolling: "1", want: "", why: map[string]spread.Verdict{"a": spread.NoPlace}},
		"one of two places that a deploy took":            {members: "a:Waiting b:Waiting c:Rolling", rolling: "2", want: "a", why: map[string]spread.Verdict{"b": spread.NoPlace}},
		"a share":                                         {members: "a:Waiting b:Waiting c:Waiting d:Waiting", rolling: "50%", want: "a b"},
		"a share of few":                                  {members: "a:Waiting b:Waiting c:Waiting", rolling: "10%", want: "a"},
		"who is delayed takes no place":                   {members: "a:Later b:Waiting", rolling: "1", want: "b"},
		"who is parked takes no place":                    {members: "a:Parked b:Waiting", rolling: "1", want: "b"},
		"who is disturbed has a place":                    {members: "a:Waiting b:Waiting! c:Waiting!", rolling: "1", want: "b c", why: map[string]spread.Verdict{"a": spread.NoPlace}},
		"who is disturbed takes one place":                {members: "a:Waiting! b:Waiting c:Waiting", rolling: "2", want: "a b", why: map[string]spread.Verdict{"c": spread.NoPlace}},
		"who may only look disturbed takes a place":       {members: "a:Waiting b:Waiting? c:Waiting", rolling: "1", want: "", why: map[string]spread.Verdict{"a": spread.NoPlace, "b": spread.NoPlace}},
		"a later wave that is disturbed keeps no one out": {members: "a:Waiting b:Waiting!", steps: "1", rolling: "1", want: "a"},
		"a place in a later wave":                         {members: "a:Waiting z:Rolling@1", rolling: "1", want: "", why: map[string]spread.Verdict{"a": spread.NoPlace}},
		"one of two places in a later wave":               {members: "a:Waiting b:Waiting z:Baking@1", rolling: "2", want: "a", why: map[string]spread.Verdict{"b": spread.NoPlace}},
		"a place in a later wave, and one disturbed":      {members: "a:Waiting y:Rolling@1 z:Waiting!@1", rolling: "2", want: "a"},
		"stopped": {members: "a:Rolling b:Waiting", stopped: true, want: "", why: map[string]spread.Verdict{"b": spread.Stopped}},
	} {
		t.Run(name, func(t *testing.T) {
			s := spread.Look(members(test.members), settings(t, test.steps, test.rolling), test.open, spread.Place{})
			s.Stopped = test.stopped
			if s.Open >= len(s.Waves) {
				t.Errorf("wave %d is open, of %d", s.Open, len(s.Waves))
			}
			if got := going(s); got != test.want {
				t.Errorf("%q go, want %q", got, test.want)
			}
			for name, want := range test.why {
				if got, ok := s.Of(name); !ok || got != want {
					t.Errorf("%s: %q %v, want %q", name, got, ok, want)
				}
			}
		})
	}
}

// Those that wait are in the order of their names, each with its verdict.
func TestWhoWaits(t *testing.T) {
	s := spread.Look(members("c:Rolling b:Waiting a:Waiting d:Vouched"), settings(t, "", "2"), 0, spread.Place{})
	var names []string
	for _, m := range s.Waits() {
		names = append(names, m.Name)
	}
	if want := []string{"a", "b"}; !slices.Equal(names, want) {
		t.Errorf("%q wait, want %q", names, want)
	}
	if diff := gocmp.Diff(map[string]spread.Verdict{"a": spread.Goes, "b": spread.NoPlace}, s.Verdicts()); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

// Rule 37: a wave passes when no one is waited for and someone vouches.
func TestPassing(t *testing.T) {
	for name, test := range map[string]struct {
		members  string
		passes   int
		unproven bool
	}{
		"it vouches":                       {"a:Vouched z:Waiting@1", 1, false},
		"one of two":                       {"a:Vouched b:Rolling z:Waiting@1", 0, false},
		"one waits":                        {"a:Vouched b:Waiting z:Waiting@1", 0, false},
		"one is paused":                    {"a:Vouched b:Later z:Waiting@1", 0, false},
		"one needs a person":               {"a:Vouched b:Parked z:Waiting@1", 0, false},
		"one bakes":                        {"a:Vouched b:Baking z:Waiting@1", 0, false},
		"one runs nothing":                 {"a:Vouched b:Idle z:Waiting@1", 1, false},
		"one was not well before":          {"a:Vouched b:Unwell z:Waiting@1", 1, false},
		"no one shows it":                  {"a:Idle b:Unwell z:Waiting@1", 0, true},
		"several waves":                    {"a:Vouched b:Vouched@1 z:Waiting@2", 2, false},
		"the last has nothing to open":     {"a:Vouched", 0, false},
		"a later one does not pass before": {"a:Rolling b:Vouched@1 z:Waiting@2", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := spread.Look(members(test.members), settings(t, "", ""), 0, spread.Place{})
			if got := s.Passes(); got != test.passes {
				t.Errorf("%d waves have passed, want %d", got, test.passes)
			}
			if got := s.Waves[0].Unproven(); got != test.unproven {
				t.Errorf("unproven: %v", got)
			}
		})
	}
}

func TestRecordsAndNotes(t *testing.T) {
	r := spread.Record{Revision: "uid", Number: 3, Wave: 2, Stops: 1, Failed: []spread.Failure{{"deployment/a", 1763900000}}, Staged: true, Complete: true, Version: "1"}
	if got, ok := spread.ParseRecord(r.String()); !ok || !gocmp.Equal(got, r) {
		t.Errorf("read %+v %v", got, ok)
	}
	if got, ok := spread.ParseRecord(`{"revision":"u","number":1,"wave":1000000,"stops":1000000}`); !ok || got.Wave != 1_000_000 || got.Stops != 1_000_000 {
		t.Errorf("at the limits, it is %+v %v", got, ok)
	}
	if got, ok := spread.ParseRecord(`{"revision":"u","number":1,"wave":0,"stops":0}`); !ok || got.Wave != 0 || got.Stops != 0 {
		t.Errorf("at the beginning, it is %+v %v", got, ok)
	}
	for _, decided := range []spread.Record{{Wave: 1}, {Stops: 1}, {Staged: true}, {Complete: true, Version: "1"}} {
		if !decided.Decides() {
			t.Errorf("%+v decides nothing", decided)
		}
	}
	if (spread.Record{Revision: "uid", Number: 3}).Decides() {
		t.Error("nothing is decided")
	}
	for _, text := range []string{"", "{}", `{"revision":"u","number":0,"wave":1}`, `{"revision":"u","number":1,"wave":-1}`, `{"number":1,"wave":1}`, `{"revision":"u","number":1,"wave":1000001}`,
		`{"revision":"u","number":1,"stops":-1}`, `{"revision":"u","number":1,"stops":1000001}`, "wave"} {
		if got, ok := spread.ParseRecord(text); ok {
			t.Errorf("%q is %+v", text, got)
		}
	}
	a := spread.Advance{To: gen.Pins("configmap/app=app-bbbbbbbbbb@2"), From: gen.Pins("configmap/app=app-cccccccccc@1"), At: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Code: "c", Unwell: true,
		Earlier: map[pin.Source]bool{gen.Source("configmap/app"): true}}
	got, ok := spread.ParseAdvance(a.String())
	if diff := gocmp.Diff(a, got); !ok || diff != "" {
		t.Errorf("read %v %s", ok, diff)
	}
	for _, text := range []string{"", "x", `{"to":"x"}`, `{"to":"","from":"y"}`} {
		if got, ok := spread.ParseAdvance(text); ok {
			t.Errorf("%q is %+v", text, got)
		}
	}
	if got, ok := spread.ParseAdvance(`{"to":"","from":"","at":"2026-11-22T12:00:00Z"}`); !ok || !gocmp.Equal(got.To, pin.Set{}) {
		t.Errorf("an empty note is %+v %v", got, ok)
	}
}

// Rule 40: which failures stop a change, and which have counted before.
func TestFailures(t *testing.T) {
	all := members("a:Failed b:Vouched c:Apart d:Waiting e:Failed")
	then := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for i := range all {
		all[i].Fails, all[i].Took = i%2 == 0, then
	}
	failures := func(names ...string) (of []spread.Failure) {
		for _, name := range names {
			of = append(of, spread.Failure{Member: name, Took: then.Unix()})
		}
		return of
	}
	s := spread.Look(all, settings(t, "", ""), 0, spread.Place{})
	if got := s.Failures(nil); !slices.Equal(got, failures("a", "c", "e")) {
		t.Errorf("%v failed", got)
	}
	if got := s.Failures([]spread.Failure{{"a", then.Unix()}, {Member: "e"}}); !slices.Equal(got, failures("c")) {
		t.Errorf("%v failed since", got)
	}
	if has := s.Has(); len(has) != 3 || s.Waves[0].Passed() {
		t.Errorf("%+v have it; passed %v", has, s.Waves[0].Passed())
	}
	for _, test := range []struct {
		on       string
		after, n int
		want     bool
	}{{"none", 0, 5, false}, {"stop", 0, 0, false}, {"stop", 0, 1, true}, {"undo", 2, 1, false}, {"undo-all", 2, 2, true}} {
		on, err := spread.ParseOnFailure(test.on)
		if err != nil {
			t.Fatal(err)
		}
		if got := (spread.Settings{OnFailure: on, StopAfter: test.after}).Stops(test.n); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
	both := spread.Settings{OnFailure: spread.StopIt, StopAfter: 3}.With(spread.Settings{OnFailure: spread.Undo}).With(spread.Settings{StopAfter: 5})
	if both.OnFailure != spread.Undo || both.StopAfter != 3 {
		t.Errorf("together they are %+v", both)
	}
	for _, text := range []string{"", "rollback", "Undo"} {
		if got, err := spread.ParseOnFailure(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for _, text := range []string{"", "0", "-1", "10%"} {
		if got, err := spread.ParseStopAfter(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	undo := spread.Settings{OnFailure: spread.Undo, StopAfter: 2}
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("deployment/%03d@1", i))
	}
	read := func(texts []string) (failures []spread.Failure) {
		for _, text := range texts {
			var f spread.Failure
			if err := f.UnmarshalText([]byte(text)); err != nil {
				t.Fatal(err)
			}
			failures = append(failures, f)
		}
		return failures
	}
	for name, test := range map[string]struct {
		failed, failures []string
		stops            int
		wantStops, named int
		counted          int
	}{
		"too few":            {nil, []string{"b"}, 0, 0, 0, 0},
		"enough":             {nil, []string{"b", "a"}, 0, 1, 2, 2},
		"stopped already":    {[]string{"a"}, []string{"b"}, 1, 0, 2, 1},
		"nothing new":        {[]string{"a"}, nil, 1, 0, 1, 0},
		"more than it names": {nil, many, 0, 1, 200, 300},
		"it names no more":   {many[:200], many[200:], 1, 0, 200, 0},
		"the same again":     {[]string{"a@1", "b@1"}, []string{"a@2"}, 1, 0, 2, 1},
		"of an old version":  {[]string{"a"}, []string{"a@2"}, 1, 0, 1, 1},
	} {
		before := spread.Record{Failed: read(test.failed)}
		after, counted := before.WithFailures(undo, read(test.failures), test.stops)
		if after.Stops != test.wantStops || len(after.Failed) != test.named || len(counted) != test.counted || !slices.IsSorted(after.FailedMembers()) {
			t.Errorf("%s: %+v, %d counted", name, after, len(counted))
		}
		if again, _ := after.WithFailures(undo, nil, 1); again.String() != after.String() {
			t.Errorf("%s: it changes again, to %+v", name, again)
		}
	}
	change := pin.Pin{Revision: "app-x", Number: 3}
	if r, n, err := spread.ParseResume(spread.Resume(change, 2)); r != "app-x@3" || n != 2 || err != nil {
		t.Errorf("read %s %d %v", r, n, err)
	}
	// The same content is another change when it comes back.
	if again := (pin.Pin{Revision: "app-x", Number: 5}); spread.Ended(spread.Resume(change, 2), change, change.Number) != 2 || spread.Ended(spread.Resume(change, 2), again, again.Number) != 0 {
		t.Error("a stop was ended of which no one has decided, or one was not")
	}
}

func TestCounts(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	all := members("a:Vouched b:Baking c:Waiting d:Apart e:Baking")
	all[1].Until, all[4].Until = at.Add(time.Hour), at
	s := spread.Look(all, settings(t, "", ""), 0, spread.Place{})
	if s.Members() != 4 || s.Count(spread.Vouched, spread.Baking) != 3 || len(s.Apart) != 1 || s.Done() || !s.Wakes().Equal(at) {
		t.Errorf("%d members, %d of them with it, %d apart, done %v, next at %s", s.Members(), s.Count(spread.Vouched, spread.Baking), len(s.Apart), s.Done(), s.Wakes())
	}
	// The first that is known counts, in whatever order; not that of one whose analysis runs, nor what someone no longer waits for.
	all = members("a:Baking b:Baking c:Baking d:Vouched")
	all[1].Until, all[2].Until, all[3].Until = at, at.Add(time.Hour), at.Add(-time.Hour)
	if s := spread.Look(all, settings(t, "", ""), 0, spread.Place{}); !s.Wakes().Equal(at) {
		t.Errorf("next at %s, want %s", s.Wakes(), at)
	}
	all = members("a:Baking b:Baking")
	all[0].Until = at
	if s := spread.Look(all, settings(t, "", ""), 0, spread.Place{}); !s.Wakes().Equal(at) {
		t.Errorf("next at %s, with an analysis whose end is not known", s.Wakes())
	}
	if !spread.Look(members("a:Vouched b:Idle c:Apart"), settings(t, "", ""), 0, spread.Place{}).Done() || !slices.Equal(spread.Look(nil, settings(t, "", ""), 0, spread.Place{}).Next(), nil) {
		t.Error("it is done, or no one goes")
	}
}
