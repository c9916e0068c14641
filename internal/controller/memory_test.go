package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

func TestEachConditionIsReportedOnceUntilItWentAway(t *testing.T) {
	lacksA, lacksB := warning{reason: "KeyMissing", note: "lacks a"}, warning{reason: "KeyMissing", note: "lacks b"}
	missing := warning{reason: "SourceMissing", note: "app is missing"}
	aboutA, aboutB := lacksA, lacksB
	aboutA.about, aboutB.about = gen.Source("configmap/a"), gen.Source("configmap/b")
	keyA, keyB := aboutA, aboutA
	keyA.keys, keyB.keys, keyB.note = "a", "b", "lacks b"
	tests := map[string]struct {
		rounds [][]warning
		want   []warning // of the last round
	}{
		"a new one":                        {[][]warning{{missing}}, []warning{missing}},
		"none":                             {[][]warning{{}}, nil},
		"one that was reported before":     {[][]warning{{missing}, {missing}}, nil},
		"one beside an old one":            {[][]warning{{missing}, {missing, lacksA}}, []warning{lacksA}},
		"one that went away and came back": {[][]warning{{missing}, {}, {missing}}, []warning{missing}},
		"one that is there twice":          {[][]warning{{missing, missing}}, []warning{missing}},
		"two of one reason are told as one, or the API server would keep only the first": {
			[][]warning{{lacksA, missing, lacksB}}, []warning{{reason: "KeyMissing", note: "lacks a; lacks b"}, missing},
		},
		"a second of one reason":           {[][]warning{{lacksA}, {lacksA, lacksB}}, []warning{lacksB}},
		"those that were told as one stay": {[][]warning{{lacksA, lacksB}, {lacksB, lacksA}}, nil},
		"two of one reason about two sources are two": {
			[][]warning{{aboutA, aboutB}}, []warning{aboutA, aboutB},
		},
		"two of one reason about two keys are two": {
			[][]warning{{keyA, keyB}}, []warning{keyA, keyB},
		},
		"the same note for another reason":  {[][]warning{{lacksA}, {lacksA, {reason: "Other", note: lacksA.note}}}, []warning{{reason: "Other", note: lacksA.note}}},
		"one of two went away and the rest": {[][]warning{{lacksA, lacksB}, {lacksA}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var m memory
			var got []warning
			for _, round := range test.rounds {
				got = m.news(round)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(warning{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMemoryIsOfOneObjectAndNotOfItsName(t *testing.T) {
	all := newMemories()
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	all.get(web, "1").generation = 5
	if got := all.get(web, "1").generation; got != 5 {
		t.Errorf("generation %d was remembered, want 5", got)
	}
	if got := all.get(web, "2"); got.generation != 0 || got.uid != "2" {
		t.Errorf("a new object of the same name has the memory of the old one: %+v", got)
	}
	all.get(web, "2").generation = 6
	all.forget(web)
	if got := all.get(web, "2").generation; got != 0 {
		t.Errorf("generation %d was not forgotten", got)
	}
}

func TestWarningsSayWhatBecomesOfThePods(t *testing.T) {
	app, a := pin.Source{Kind: pin.ConfigMap, Name: "app"}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 1}
	tests := map[string]struct {
		decision      plan.Decision
		reason, parts string
	}{
		"missing and never pinned":     {plan.Decision{Verdict: plan.SourceMissing}, reasonSourceMissing, "configmap/app|does not exist|until it is created"},
		"missing and pinned":           {plan.Decision{Verdict: plan.SourceMissing, From: a}, reasonSourceMissing, "configmap/app|any more|keep using|app-bbbbbbbbbb@1"},
		"without a key, never pinned":  {plan.Decision{Verdict: plan.KeyMissing, Keys: []string{"k"}}, reasonKeyMissing, `configmap/app|"k"|once it has it`},
		"without a key, but pinned":    {plan.Decision{Verdict: plan.KeyMissing, Keys: []string{"k"}, From: a}, reasonKeyMissing, `configmap/app|"k"|keep using|app-bbbbbbbbbb@1`},
		"absent, which is fine":        {plan.Decision{Verdict: plan.Absent}, "", ""},
		"held, which an event says":    {plan.Decision{Verdict: plan.Held, From: a}, "", ""},
		"unknown, which an error says": {plan.Decision{Verdict: plan.Unknown}, "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.decision.Source = app
			got := warnings(plan.Plan{Decisions: []plan.Decision{test.decision}}, true)
			if test.reason == "" {
				if len(got) > 0 {
					t.Errorf("warned: %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].reason != test.reason {
				t.Fatalf("warned: %+v, want one %s", got, test.reason)
			}
			for part := range strings.SplitSeq(test.parts, "|") {
				if !strings.Contains(got[0].note, part) {
					t.Errorf("%q does not say %q", got[0].note, part)
				}
			}
		})
	}
}

func TestOptions(t *testing.T) {
	good := Options{Settle: time.Second, Grace: time.Minute, RevisionsPerHour: 1, RolloutsPerHour: 1, Workers: 1, Namespace: "confrev"}
	tests := map[string]struct {
		change func(*Options)
		want   string // part of the problem; "" for none
	}{
		"good ones":               {func(*Options) {}, ""},
		"no settling":             {func(o *Options) { o.Settle = 0 }, ""},
		"a negative settle time":  {func(o *Options) { o.Settle = -1 }, "--settle"},
		"a grace time too short":  {func(o *Options) { o.Grace = revision.PinWindow - 1 }, "--grace"},
		"the least grace time":    {func(o *Options) { o.Grace = revision.PinWindow }, ""},
		"no workers":              {func(o *Options) { o.Workers = 0 }, "--workers"},
		"no revisions at all":     {func(o *Options) { o.RevisionsPerHour = 0 }, "--revisions-per-hour"},
		"no rollouts at all":      {func(o *Options) { o.RolloutsPerHour = 0 }, "--rollouts-per-hour"},
		"a leader, and no place":  {func(o *Options) { o.LeaderElect, o.Namespace = true, "" }, "--namespace"},
		"no namespace of its own": {func(o *Options) { o.Namespace = "" }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := good
			test.change(&options)
			err := options.Validate()
			if (err != nil) != (test.want != "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("Validate: %v, want %q", err, test.want)
			}
		})
	}
	// Rule 18.
	for namespace, want := range map[string]bool{"kube-system": true, "confrev": true, "default": false, "kube-public": false} {
		if got := good.excluded(namespace); got != want {
			t.Errorf("excluded(%s) = %v", namespace, got)
		}
	}
}

func TestNotesOfEventsAreCutToWhatTheAPITakes(t *testing.T) {
	long := strings.Repeat("x", 5000)
	if got := shortened(long); len(got) > maxNote || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-5:])
	}
	for _, note := range []string{"", "short", long[:maxNote]} {
		if got := shortened(note); got != note {
			t.Errorf("%d bytes became %d", len(note), len(got))
		}
	}
}
