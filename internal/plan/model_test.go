package plan_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
)

// replicaSet is a holder as the Deployment controller keeps it.
type replicaSet struct {
	image, order int64
	pins         pin.Set
	// note is confrev.io/held: the Deployment controller copies annotations to the newest ReplicaSet, and undo back.
	note pin.Notes
}

// hold is what the model expects of the next plan.
type hold int

const (
	follows hold = iota // the pins must follow the source
	held                // the workload was rolled back, and must not move
	either              // rule 4 leaves it open, or the evidence was not there to see
)

// model is one workload with one source, in the hands of a user, of Kubernetes and of confrev. Only what the objects
// hold goes into a plan; hold is the model's own memory, to judge the plans by.
type model struct {
	use          podspec.Use
	letters      []string
	letter       string // the source's content; "" when it was deleted, "none" when it is optional and was
	revisions    map[string]plan.Revision
	template     pin.Set
	note         pin.Notes
	image, order int64
	replicaSets  []*replicaSet // the newest last
	limit        int

	hold hold
	// heldFrom is the content that the source had at the rollback.
	heldFrom string
	// edited reports whether the content changed since, though no one saw it yet.
	edited bool
}

func newModel(t *rapid.T, use podspec.Use, letters ...string) *model {
	m := &model{use: use, letters: letters, letter: letters[0], revisions: map[string]plan.Revision{}, template: pin.Set{}, note: pin.Notes{}, limit: 3}
	m.rollOut()
	m.confrev(t)
	return m
}

func (m *model) input() plan.Input {
	s := source(m.letter, "")
	s.Present = s.Present && m.letter != "none"
	s.Revisions = slices.Collect(maps.Values(m.revisions))
	in := plan.Input{
		Uses: []podspec.Use{m.use}, Sources: map[pin.Source]plan.Source{app: s}, Pins: maps.Clone(m.template), Held: maps.Clone(m.note),
	}
	for _, rs := range m.replicaSets {
		in.Holders = append(in.Holders, plan.Holder{Order: rs.order, Pins: rs.pins})
	}
	return in
}

// same reports whether two contents are the same to the workload.
func (m *model) same(a, b string) bool {
	if m.use.All || a == "" || b == "" {
		return a == b
	}
	return digests(a).SameKeys(digests(b), m.use.Keys)
}

// on returns the content that the template is pinned to.
func (m *model) on() string {
	if p, ok := m.template[app]; ok {
		return p.Revision[len("app-"):]
	}
	return ""
}

// confrev makes a plan, judges it and applies it, as the reconciler does.
func (m *model) confrev(t *rapid.T) {
	in, expected := m.input(), m.expected()
	p := makePlan(t, in)
	d := p.Decisions[0]
	switch {
	case expected == held && in.Pins[app] == (pin.Pin{}) && d.Verdict != plan.Held:
		t.Fatalf("held from %s when the pin was removed, yet: %+v", m.heldFrom, d)
	case expected == held && in.Pins[app] != (pin.Pin{}) && d.To != in.Pins[app]:
		t.Fatalf("rolled back from %s, the source is %s, yet it moves: %+v", m.heldFrom, m.letter, d)
	case d.Verdict == plan.Absent && m.letter == "none" && d.From == pin.Pin{}:
		// It never had a pin. It gets one when the template changes for another reason.
	case expected == follows && m.letter != "" && (d.To == pin.Pin{} || !m.same(d.To.Revision[len("app-"):], m.letter)):
		t.Fatalf("the source is %s, yet: %+v", m.letter, d)
	case d.Verdict == plan.InSync && p.Changed():
		t.Fatalf("in sync, yet it moves: %+v", d)
	}
	m.apply(p)
	m.hold = m.after()
}

// expected returns what rule 4 demands of the next plan.
func (m *model) expected() hold {
	if m.letter == "" {
		return either
	}
	if m.hold == held && m.edited && !m.same(m.letter, m.heldFrom) {
		return follows
	}
	if m.hold == held && m.on() == "" && m.revisions[m.lastPin().Revision].Name == "" {
		// The pin was removed, and so is its revision.
		return either
	}
	return m.hold
}

// lastPin returns the pin that a template without one had last, as far as anything shows it.
func (m *model) lastPin() pin.Pin {
	for _, rs := range slices.Backward(m.replicaSets) {
		if p, ok := rs.pins[app]; ok {
			return p
		}
	}
	return m.note[app].On
}

// after returns what the model remembers of a hold once confrev looked.
func (m *model) after() hold {
	if m.letter != "" && (m.hold == follows || m.same(m.on(), m.letter)) {
		m.edited = false
		return follows
	}
	return m.hold
}

func (m *model) apply(p plan.Plan) {
	for _, d := range p.Decisions {
		if _, exists := m.revisions[d.Current.Revision]; exists || d.To == d.Current && d.To != d.From {
			m.revisions[d.Current.Revision] = revision(d.Current)
		}
	}
	m.note = maps.Clone(p.Held)
	if p.Changed() {
		m.template = maps.Clone(p.Pins)
		m.rollOut()
	}
	m.newest().note = maps.Clone(m.note)
}

func (m *model) newest() *replicaSet { return m.replicaSets[len(m.replicaSets)-1] }

// rollOut does what the Deployment controller does with a new template: it makes a ReplicaSet or takes up an old one again,
// and prunes the history.
func (m *model) rollOut() {
	m.order++
	at := slices.IndexFunc(m.replicaSets, func(rs *replicaSet) bool {
		return rs.image == m.image && maps.Equal(rs.pins, m.template)
	})
	next := &replicaSet{image: m.image, pins: maps.Clone(m.template)}
	if at >= 0 {
		next = m.replicaSets[at]
		m.replicaSets = slices.Delete(m.replicaSets, at, at+1)
	}
	next.order, next.note = m.order, maps.Clone(m.note)
	m.replicaSets = append(m.replicaSets, next)
	m.prune()
}

func (m *model) prune() {
	if excess := len(m.replicaSets) - 1 - m.limit; excess > 0 {
		m.replicaSets = slices.Delete(m.replicaSets, 0, excess)
	}
}

func (m *model) edit(t *rapid.T) {
	letter := rapid.SampledFrom(m.letters).Draw(t, "content")
	recreated := m.letter == "" && m.same(letter, m.heldFrom)
	m.edited = m.edited || !m.same(letter, m.letter) && !recreated
	m.letter = letter
}

// undo does what kubectl rollout undo does, to any ReplicaSet: it restores the template and the workload's annotations. The webhook keeps
// the annotations and plans within the request, unless it does not answer.
func (m *model) undo(t *rapid.T) {
	if len(m.replicaSets) < 2 {
		t.Skip("nothing to undo to")
	}
	to := m.replicaSets[rapid.IntRange(0, len(m.replicaSets)-2).Draw(t, "to")]
	before, shown, old, noted := m.on(), m.showsItsNumber(), m.template, m.note[app]
	answers := rapid.Bool().Draw(t, "the webhook answers")
	if !answers {
		m.note = maps.Clone(to.note)
	}
	m.template, m.image = maps.Clone(to.pins), to.image
	// Only the webhook sees that a note is from another time, and only the note knows what no holder shows.
	misled := m.note[app] != noted && (m.note[app] != (pin.Note{}) || !slices.ContainsFunc(m.replicaSets, func(rs *replicaSet) bool {
		return rs.pins[app] == noted.From
	}))
	switch {
	case misled || m.letter == "" || m.hold == either || m.edited && m.hold == held || m.on() == "" || before == "":
		m.hold = either
	case m.hold == held:
	case m.same(before, m.letter) && !answers && !shown:
		// Only the webhook sees what the template had.
		m.hold, m.heldFrom, m.edited = either, m.letter, false
	case m.same(before, m.letter):
		m.hold, m.heldFrom, m.edited = held, m.letter, false
	}
	if answers && len(m.template) > 0 {
		in := m.input()
		in.Before, in.Occasion = old, plan.Request
		p := makePlan(t, in)
		if p.Changed() {
			t.Fatalf("an undo moves: %+v", p.Decisions)
		}
		m.note = maps.Clone(p.Held)
	}
	m.rollOut()
}

// showsItsNumber reports whether the template's pin is above all other contents. It is not when the workload was rolled
// back to A@1 and the source followed to A, which is A@3 now: by rule 5 that is new to a workload that goes back to B@2.
func (m *model) showsItsNumber() bool {
	shows := m.revisions[m.template[app].Revision].Number <= m.template[app].Number
	everyNumber(m.input(), app, func(p pin.Pin) {
		if !m.same(p.Revision[len("app-"):], m.on()) && p.Number >= m.template[app].Number {
			shows = false
		}
	})
	return shows
}

func (m *model) changeImage() {
	m.image++
	m.rollOut()
}

func (m *model) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"edit": func(t *rapid.T) { m.edit(t); m.confrev(t) },
		"edit several times while confrev is down": func(t *rapid.T) {
			for range rapid.IntRange(2, 4).Draw(t, "edits") {
				m.edit(t)
			}
			m.confrev(t)
		},
		"undo":             func(t *rapid.T) { m.undo(t); m.confrev(t) },
		"undo and edit":    func(t *rapid.T) { m.undo(t); m.edit(t); m.confrev(t) },
		"change the image": func(t *rapid.T) { m.changeImage(); m.confrev(t) },
		"change the image with the configuration": func(t *rapid.T) { m.edit(t); m.changeImage(); m.confrev(t) },
		"lower the history limit": func(t *rapid.T) {
			m.limit = rapid.IntRange(1, 3).Draw(t, "limit")
			m.prune()
			m.confrev(t)
		},
		"collect garbage": func(t *rapid.T) {
			maps.DeleteFunc(m.revisions, func(name string, _ plan.Revision) bool {
				return m.template[app].Revision != name &&
					!slices.ContainsFunc(m.replicaSets, func(rs *replicaSet) bool { return rs.pins[app].Revision == name })
			})
			m.confrev(t)
		},
		"kubectl replace drops the pins": func(t *rapid.T) {
			m.template = pin.Set{}
			m.rollOut()
			wasHeld, on := m.expected() == held, m.replicaSets[max(0, len(m.replicaSets)-2)].pins
			if wasHeld && len(on) > 0 {
				// It must come back as it was, which is a change to the template.
				p := makePlan(t, m.input())
				if diff := cmp.Diff(on, p.Pins); diff != "" {
					t.Fatalf("held on another pin than before (-before +after):\n%s", diff)
				}
				m.template = maps.Clone(p.Pins)
				m.rollOut()
			}
			m.confrev(t)
		},
		"delete the source":               func(t *rapid.T) { m.delete(); m.confrev(t) },
		"confrev restarts":                func(t *rapid.T) { m.confrev(t) },
		"another revision made":           m.otherWorkload,
		"another writer counts otherwise": func(t *rapid.T) { m.otherWriter(t); m.confrev(t) },
	}
}

func (m *model) delete() {
	if !m.use.Required {
		// That is a content like any other.
		m.edited = m.edited || !m.same("none", m.letter)
		m.letter = "none"
		return
	}
	if m.letter != "" && m.hold != held {
		m.heldFrom = m.letter
	}
	m.letter = ""
}

// otherWorkload acts as another workload that pins the present content, and so has its revision made and numbered.
func (m *model) otherWorkload(t *rapid.T) {
	if m.letter == "" {
		t.Skip("no content")
	}
	current := plan.Make(m.input()).Decisions[0].Current
	m.revisions[current.Revision] = revision(current)
	m.confrev(t)
}

// otherWriter acts as one that did not see the latest revisions when it numbered one that another workload pins: the number may be that of
// another content, or out of order (rule 5).
func (m *model) otherWriter(t *rapid.T) {
	letter := rapid.SampledFrom(m.letters).Draw(t, "its content")
	highest := int64(1)
	everyNumber(m.input(), app, func(p pin.Pin) { highest = max(highest, p.Number) })
	number := rapid.Int64Range(1, highest+1).Draw(t, "its number")
	if made := m.revisions["app-"+letter]; made.Number < number {
		m.revisions["app-"+letter] = revision(pin.Pin{Revision: "app-" + letter, Number: number})
	}
}

// TestAnyHistoryOfAWorkload plays random histories of one workload and checks every plan: it is stable once it is
// applied, follows the source, and never moves a workload that was rolled back before the source changes.
func TestAnyHistoryOfAWorkload(t *testing.T) {
	tests := map[string]struct {
		use     podspec.Use
		letters []string
	}{
		"that uses all keys":   {useAll, []string{"a", "b", "c", "a2"}},
		"that uses one key":    {useKey, []string{"a", "b", "c", "a2", "b2"}},
		"that needs no source": {useOptional, []string{"a", "b", "none"}},
		"that needs no key":    {useOptKey, []string{"a", "b", "a2", "k", "none"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := newModel(t, test.use, test.letters...)
				t.Repeat(m.actions())
			})
		})
	}
}
