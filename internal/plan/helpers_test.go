package plan_test

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/waiting"
)

var app = pin.Source{Kind: pin.ConfigMap, Name: "app"}

// contents are the contents that source app has in tests. "a" and "a2" differ only in key "other"; "k" lacks "used".
var contents = map[string]map[string]string{
	"a":  {"used": "1", "other": "x"},
	"a2": {"used": "1", "other": "y"},
	"b":  {"used": "2", "other": "x"},
	"b2": {"used": "2", "other": "y"},
	"c":  {"used": "3", "other": "x"},
	"k":  {"other": "x"},
	// What an optional source has that does not exist.
	"none": {},
}

// The ways to use source app.
var (
	useAll      = podspec.Use{Source: app, All: true, Required: true}
	useKey      = podspec.Use{Source: app, Keys: []string{"used"}, RequiredKeys: []string{"used"}, Required: true}
	useOptional = podspec.Use{Source: app, All: true}
	useOptKey   = podspec.Use{Source: app, Keys: []string{"used"}}
)

func digests(letter string) content.Digests {
	c := content.Content{Data: map[string][]byte{}}
	for key, value := range contents[letter] {
		c.Data[key] = []byte(value)
	}
	return c.Digests()
}

// short reads a pin of source app: "a@1" is revision app-a with number 1, "" is none.
func short(text string) pin.Pin {
	if text == "" {
		return pin.Pin{}
	}
	letter, number, _ := strings.Cut(text, "@")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		panic(err)
	}
	return pin.Pin{Revision: "app-" + letter, Number: n}
}

// set reads pins of source app: "a@1" or "".
func set(text string) pin.Set {
	if text == "" {
		return pin.Set{}
	}
	return pin.Set{app: short(text)}
}

// revision makes the revision that a pin names, as the cache shows it.
func revision(p pin.Pin) plan.Revision {
	letter := strings.TrimPrefix(p.Revision, "app-")
	return plan.Revision{Name: p.Revision, Number: p.Number, Hash: content.Hash("v1-" + letter), Digests: digests(letter)}
}

// source makes what is known of source app: its content, "" when it does not exist, and its revisions: "a@1 b@2". That of empty content
// is "none@3".
func source(letter, revisions string) plan.Source {
	present := letter != ""
	letter = cmp.Or(letter, "none")
	s := plan.Source{Present: present, Hash: content.Hash("v1-" + letter), Digests: digests(letter), Name: "app-" + letter}
	for text := range strings.FieldsSeq(revisions) {
		s.Revisions = append(s.Revisions, revision(short(text)))
	}
	return s
}

// holders makes the holders of a workload, the oldest first.
func holders(pins ...string) []plan.Holder {
	var all []plan.Holder
	for i, text := range pins {
		all = append(all, plan.Holder{Order: int64(i + 1), Pins: set(text)})
	}
	return all
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

func clone(in plan.Input) plan.Input {
	out := in
	out.Pins, out.Held, out.Before = maps.Clone(in.Pins), maps.Clone(in.Held), maps.Clone(in.Before)
	out.Uses = slices.Clone(in.Uses)
	out.Sources, out.Holders = map[pin.Source]plan.Source{}, nil
	for name, s := range in.Sources {
		s.Revisions = slices.Clone(s.Revisions)
		for i := range s.Revisions {
			s.Revisions[i].Digests = maps.Clone(s.Revisions[i].Digests)
		}
		s.Digests = maps.Clone(s.Digests)
		out.Sources[name] = s
	}
	for _, h := range in.Holders {
		out.Holders = append(out.Holders, plan.Holder{Order: h.Order, Pins: maps.Clone(h.Pins)})
	}
	return out
}

// makePlan makes a plan and checks what holds for every one: it is deterministic, whatever the order of what the cache
// lists; it leaves its input alone; its pins can be written and read; current's number is strictly the highest (rule 5);
// and once it is applied, the next plan has nothing to do (rule 3).
func makePlan(t fataler, in plan.Input) plan.Plan {
	t.Helper()
	before := clone(in)
	p := plan.Make(in)
	if diff := gocmp.Diff(before, in, cmpopts.EquateEmpty(), gocmp.Comparer(func(a, b waiting.Gate) bool { return reflect.DeepEqual(a, b) })); diff != "" {
		t.Fatalf("the plan changed its input (-before +after):\n%s", diff)
	}
	mixed := clone(in)
	slices.Reverse(mixed.Holders)
	for _, s := range mixed.Sources {
		slices.Reverse(s.Revisions)
	}
	if diff := gocmp.Diff(p, plan.Make(mixed), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the plan depends on the order of holders or revisions (-listed +reversed):\n%s", diff)
	}
	checkDecisions(t, in, p)
	again := plan.Make(applied(in, p))
	if again.Changed() || again.Urgent() {
		t.Fatalf("the plan is not stable: applied, it became\n%s", gocmp.Diff(p, again))
	}
	if diff := gocmp.Diff(p.Pins, again.Pins, cmpopts.EquateEmpty()) + gocmp.Diff(p.Held, again.Held, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("pins or note are not stable (-plan +next plan):\n%s", diff)
	}
	return p
}

func checkDecisions(t fataler, in plan.Input, p plan.Plan) {
	t.Helper()
	if len(p.Decisions) != len(in.Uses) {
		t.Fatalf("%d decisions on %d sources", len(p.Decisions), len(in.Uses))
	}
	for i, d := range p.Decisions {
		if d.Source != in.Uses[i].Source || d.From != in.Pins[d.Source] || p.Pins[d.Source] != d.To {
			t.Fatalf("decision %+v does not fit use %+v, pins %v, new pins %v", d, in.Uses[i], in.Pins, p.Pins)
		}
		note, noted := p.Held[d.Source]
		if (d.Verdict == plan.Held) != (noted && !note.Ended) && d.Current != (pin.Pin{}) && d.Verdict != plan.KeyMissing {
			t.Fatalf("verdict %s with note %v", d.Verdict, p.Held)
		}
		if noted && d.Current != (pin.Pin{}) && d.Verdict != plan.KeyMissing && note.On != d.To {
			t.Fatalf("pinned to %s, with a note about %s", d.To, note.On)
		}
		_, known := in.Sources[d.Source]
		if counts := known && (in.Sources[d.Source].Present || !in.Uses[i].Required && !in.Live); (d.Current != pin.Pin{}) != counts {
			t.Fatalf("current is %s, but present: %v", d.Current, in.Sources[d.Source].Present)
		}
		if d.Current == (pin.Pin{}) {
			continue
		}
		everyNumber(in, d.Source, func(p pin.Pin) {
			if p.Number > d.Current.Number || (p.Number == d.Current.Number && p.Revision != d.Current.Revision) {
				t.Fatalf("current is %s, but %s is known", d.Current, p)
			}
		})
	}
	// Names are those of the revisions in the input, and short here.
	if again, err := pin.ParseHashes(p.Pins.String()); err != nil || !maps.Equal(again, p.Pins) {
		t.Fatalf("the pins %q cannot be read again: %v", p.Pins, err)
	}
}

// everyNumber visits every pair of revision and number that the input has of a source.
func everyNumber(in plan.Input, source pin.Source, visit func(pin.Pin)) {
	for _, r := range in.Sources[source].Revisions {
		visit(pin.Pin{Revision: r.Name, Number: r.Number})
	}
	pins := []pin.Set{in.Pins, in.Before}
	if note, ok := in.Held[source]; ok {
		visit(note.From)
	}
	for _, h := range in.Holders {
		pins = append(pins, h.Pins)
	}
	for _, set := range pins {
		if p, ok := set[source]; ok {
			visit(p)
		}
	}
}

// applied returns what is seen after a plan was applied: revisions made, pins and note written, the template rolled out.
func applied(in plan.Input, p plan.Plan) plan.Input {
	out := clone(in)
	// The next plan is the controller's: it sees no template that is being replaced.
	out.Pins, out.Held, out.Before = maps.Clone(p.Pins), maps.Clone(p.Held), nil
	if in.Occasion == plan.Change {
		out.Occasion = plan.Edit
	}
	if p.Changed() {
		order := int64(0)
		for _, h := range in.Holders {
			order = max(order, h.Order)
		}
		out.Holders = append(out.Holders, plan.Holder{Order: min(order, math.MaxInt64-1) + 1, Pins: maps.Clone(p.Pins)})
	}
	for _, d := range p.Decisions {
		s := out.Sources[d.Source]
		at := slices.IndexFunc(s.Revisions, func(r plan.Revision) bool { return r.Name == d.Current.Revision })
		switch {
		case at >= 0:
			s.Revisions[at].Number = d.Current.Number
		case d.To != d.From && d.To == d.Current:
			s.Revisions = append(s.Revisions, plan.Revision{Name: d.To.Revision, Number: d.To.Number, Hash: s.Hash, Digests: s.Digests})
		default:
			continue
		}
		out.Sources[d.Source] = s
	}
	return out
}

// planCase is one workload that uses source app, and what its plan must be.
type planCase struct {
	use podspec.Use // useAll when it is not given
	// content is the source's; "" when it does not exist, "?" when it could not be observed.
	content, revisions string
	// held is what the note says that the workload was rolled back from, on the pin that it has, or had last. "b@2 ended" is
	// the note of a hold that has ended.
	pins, held string
	// noteOn is another pin that the note is about.
	noteOn  string
	holders []string

	verdict plan.Verdict
	to      string
	note    string
	current string
	missing []string
	// deploys is true where the template changes anyway.
	deploys bool
}

// The occasions on which the template changes anyway, and on which pins must stay.
var (
	deploys = map[bool]plan.Occasion{true: plan.Change}
	stays   = map[bool]plan.Occasion{true: plan.Request}
)

func (c planCase) input() plan.Input {
	if c.use.Source == (pin.Source{}) {
		c.use = useAll
	}
	in := plan.Input{
		Uses: []podspec.Use{c.use}, Sources: map[pin.Source]plan.Source{}, Pins: set(c.pins), Held: c.notes(c.held, c.pins),
		Holders: holders(c.holders...), Occasion: deploys[c.deploys],
	}
	if c.content != "?" {
		in.Sources[app] = source(c.content, c.revisions)
	}
	return in
}

// notes makes the note about a pin, as confrev writes it where it has seen the revision.
func (c planCase) notes(text, on string) pin.Notes {
	if text == "" {
		return pin.Notes{}
	}
	for _, holder := range c.holders {
		if c.pins == "" && on == "" && holder != "" {
			on = holder
		}
	}
	if c.noteOn != "" {
		on = c.noteOn
	}
	from, ended := strings.CutSuffix(text, " ended")
	note := pin.Note{From: short(from), On: short(on), Ended: ended}
	if letter, _, _ := strings.Cut(from, "@"); !ended {
		note.Keys = digests(letter).Sum(c.use.All, c.use.Keys)
	}
	return pin.Notes{app: note}
}

func runPlanCases(t *testing.T, cases map[string]planCase) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := makePlan(t, c.input())
			want := plan.Decision{
				Source: app, Verdict: c.verdict, From: short(c.pins), To: short(c.to), Current: short(c.current), Keys: c.missing,
			}
			if diff := gocmp.Diff([]plan.Decision{want}, p.Decisions); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
			c.noteOn = ""
			if c.use.Source == (pin.Source{}) {
				c.use = useAll
			}
			if diff := gocmp.Diff(c.notes(c.note, c.to), p.Held, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("note (-want +got):\n%s", diff)
			}
			if changed := c.pins != c.to; p.Changed() != changed {
				t.Errorf("Changed = %v, want %v", p.Changed(), changed)
			}
			if urgent := c.pins == "" && c.to != "" && c.verdict != plan.Absent; p.Urgent() != urgent {
				t.Errorf("Urgent = %v, want %v", p.Urgent(), urgent)
			}
		})
	}
}
