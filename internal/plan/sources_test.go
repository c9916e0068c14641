package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

var (
	web = pin.Source{Kind: pin.ConfigMap, Name: "web"}
	db  = pin.Source{Kind: pin.Secret, Name: "db"}
)

// other makes what is known of a source other than app, which has one revision.
func other(name string, number int64) plan.Source {
	return plan.Source{Present: true, Hash: "v1-x", Name: name + "-x", Revisions: []plan.Revision{{Name: name + "-x", Number: number, Hash: "v1-x"}}}
}

func TestDecideEachSourceWriteOnce(t *testing.T) {
	uses := []podspec.Use{useAll, {Source: web, All: true, Required: true}, {Source: db, All: true, Required: true}}
	inSync := map[pin.Source]plan.Source{app: source("a", "a@1"), web: other("web", 1), db: other("db", 1)}
	with := func(name pin.Source, s plan.Source) map[pin.Source]plan.Source {
		all := map[pin.Source]plan.Source{app: inSync[app], web: inSync[web], db: inSync[db]}
		all[name] = s
		return all
	}
	const all = "configmap/app=app-a@1,configmap/web=web-x@1,secret/db=db-x@1"
	tests := map[string]struct {
		uses            []podspec.Use
		sources         map[pin.Source]plan.Source
		pins, held      string
		holders         []plan.Holder
		want, note      string
		changed, urgent bool
		verdicts        []plan.Verdict
		missing         []string
	}{
		"all are in sync": {
			uses: uses, sources: inSync, pins: all, want: all, verdicts: []plan.Verdict{plan.InSync, plan.InSync, plan.InSync},
		},
		"one advances and the others stay": {
			uses: uses, sources: with(app, source("b", "a@1")), pins: all,
			want:    "configmap/app=app-b@2,configmap/web=web-x@1,secret/db=db-x@1",
			changed: true, verdicts: []plan.Verdict{plan.Advanced, plan.InSync, plan.InSync},
		},
		"one that is missing does not stop the others": {
			uses: uses, sources: with(app, plan.Source{}), pins: "",
			want: "configmap/web=web-x@1,secret/db=db-x@1", changed: true, urgent: true,
			verdicts: []plan.Verdict{plan.SourceMissing, plan.Pinned, plan.Pinned},
		},
		"one that is held does not stop the others": {
			uses: uses, sources: with(app, source("b", "a@1 b@2")), pins: "configmap/app=app-a@1,configmap/web=web-w@1,secret/db=db-x@1",
			holders: holders("b@2", "a@1"),
			want:    "configmap/app=app-a@1,configmap/web=web-x@2,secret/db=db-x@1", note: "configmap/app=app-b@2",
			changed: true, verdicts: []plan.Verdict{plan.Held, plan.Advanced, plan.InSync},
		},
		"a source that is tracked newly is pinned at once, and an advance goes along": {
			uses: uses, sources: with(app, source("b", "a@1")), pins: "configmap/app=app-a@1,configmap/web=web-x@1",
			want:    "configmap/app=app-b@2,configmap/web=web-x@1,secret/db=db-x@1",
			changed: true, urgent: true, verdicts: []plan.Verdict{plan.Advanced, plan.InSync, plan.Pinned},
		},
		// Dropping a pin alone would be a rollout (rule 3), so it is no change.
		"the pin of a source that is tracked no more is not among the pins, which is no change": {
			uses: uses[:2], sources: inSync, pins: all, want: "configmap/app=app-a@1,configmap/web=web-x@1",
			verdicts: []plan.Verdict{plan.InSync, plan.InSync},
		},
		"the pin of a source that is tracked no more goes with the next change": {
			uses: uses[:2], sources: with(app, source("b", "a@1")), pins: all,
			want: "configmap/app=app-b@2,configmap/web=web-x@1", changed: true, verdicts: []plan.Verdict{plan.Advanced, plan.InSync},
		},
		"the note of a source that is tracked no more goes": {
			uses: uses[:2], sources: inSync, pins: all, held: "secret/db=db-y@2",
			want: "configmap/app=app-a@1,configmap/web=web-x@1", verdicts: []plan.Verdict{plan.InSync, plan.InSync},
		},
		"nothing is tracked": {uses: nil, pins: all},
		"nothing is there":   {},
		"all of several required keys that are missing are named": {
			uses:    []podspec.Use{{Source: app, Keys: []string{"a", "used", "z"}, RequiredKeys: []string{"a", "used", "z"}, Required: true}},
			sources: inSync, verdicts: []plan.Verdict{plan.KeyMissing}, missing: []string{"a", "z"},
		},
		"a ConfigMap and a Secret of one name are two sources": {
			uses:    []podspec.Use{useAll, {Source: pin.Source{Kind: pin.Secret, Name: "app"}, All: true, Required: true}},
			sources: map[pin.Source]plan.Source{app: source("b", "a@1 b@2"), {Kind: pin.Secret, Name: "app"}: other("app", 1)},
			pins:    "configmap/app=app-a@1,secret/app=app-x@1", holders: holders("b@2", "a@1"),
			want: "configmap/app=app-a@1,secret/app=app-x@1", note: "configmap/app=app-b@2",
			verdicts: []plan.Verdict{plan.Held, plan.InSync},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := plan.Input{
				Uses: test.uses, Sources: test.sources, Pins: gen.Pins(test.pins), Held: noted(test.held, test.pins), Holders: test.holders,
			}
			p := makePlan(t, in)
			var verdicts []plan.Verdict
			var missing []string
			for _, d := range p.Decisions {
				verdicts, missing = append(verdicts, d.Verdict), append(missing, d.Keys...)
			}
			if diff := cmp.Diff(test.verdicts, verdicts); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.missing, missing); diff != "" {
				t.Errorf("missing keys (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{test.want, test.note}, []string{p.Pins.String(), p.Held.Holding(p.Pins).String()}); diff != "" {
				t.Errorf("pins and note (-want +got):\n%s", diff)
			}
			if p.Changed() != test.changed || p.Urgent() != test.urgent {
				t.Errorf("Changed %v, Urgent %v; want %v, %v", p.Changed(), p.Urgent(), test.changed, test.urgent)
			}
		})
	}
}

// Rule 4: what the API server or a store says of a revision replaces what was planned.
func TestRepin(t *testing.T) {
	in := planCase{content: "b", revisions: "a@1", pins: "a@1", holders: []string{"a@1"}}.input()
	t.Run("to the revision that was really made", func(t *testing.T) {
		p := plan.Make(in)
		p.Repin(&p.Decisions[0], short("b@5"))
		if diff := cmp.Diff(set("b@5"), p.Pins); diff != "" || p.Decisions[0].To != short("b@5") || !p.Changed() {
			t.Errorf("plan %+v (-want +got pins):\n%s", p, diff)
		}
	})
	t.Run("to the pin before, when none could be made", func(t *testing.T) {
		p := plan.Make(in)
		p.Repin(&p.Decisions[0], p.Decisions[0].From)
		if diff := cmp.Diff(set("a@1"), p.Pins); diff != "" || p.Changed() {
			t.Errorf("plan %+v (-want +got pins):\n%s", p, diff)
		}
	})
	t.Run("to none, when there was none before", func(t *testing.T) {
		p := plan.Make(planCase{content: "b"}.input())
		p.Repin(&p.Decisions[0], pin.Pin{})
		if len(p.Pins) != 0 || p.Changed() || p.Urgent() {
			t.Errorf("plan %+v, want no pins and no change", p)
		}
	})
}

// Rule 8: a new version of the hash never causes a rollout. The store reads such a revision and says what it holds; when
// it could not, only the name and the digests speak for it.
func TestRevisionsOfOtherHashVersions(t *testing.T) {
	old := plan.Revision{Name: "app-old", Number: 4, Hash: "v0-whatever", Digests: digests("a")}
	unknown := plan.Revision{Name: "app-old", Number: 4, Hash: "v0-whatever"}
	tests := map[string]struct {
		use      podspec.Use
		content  string
		revision plan.Revision
		want     plan.Verdict
	}{
		"a revision of the same hash under another name is the present content": {
			useAll, "a", plan.Revision{Name: "app-old", Number: 4, Hash: "v1-a"}, plan.InSync},
		"equal digests speak for a workload that uses keys":       {useKey, "a", old, plan.InSync},
		"unknown digests do not":                                  {useKey, "a", unknown, plan.Advanced},
		"nor do they say that a key is absent":                    {useOptKey, "k", unknown, plan.Advanced},
		"equal digests of two keys do not speak for all the keys": {useAll, "a", old, plan.Advanced},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := source(test.content, "")
			s.Revisions = []plan.Revision{test.revision}
			in := plan.Input{
				Uses: []podspec.Use{test.use}, Sources: map[pin.Source]plan.Source{app: s}, Pins: pin.Set{app: {Revision: "app-old", Number: 4}},
			}
			if got := makePlan(t, in).Decisions[0].Verdict; got != test.want {
				t.Errorf("verdict %s, want %s", got, test.want)
			}
		})
	}
}

// noted makes notes of what a workload with pins is held from.
func noted(held, pins string) pin.Notes {
	notes := pin.Notes{}
	for source, from := range gen.Pins(held) {
		notes[source] = pin.Note{From: from, On: gen.Pins(pins)[source]}
	}
	return notes
}
