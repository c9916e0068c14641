package plan_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
)

// rotating makes the plan for a workload that follows what rotates: the hash that it has, and what the source holds.
func rotating(on, now string, shown []plan.Holder) plan.Input {
	s := source(now, "")
	s.Rotates = true
	return plan.Input{
		Uses: []podspec.Use{useAll}, Sources: map[pin.Source]plan.Source{app: s}, Pins: set(on), Holders: shown, Live: true,
	}
}

// Policy rotate: a change rolls the workload out once, and an undo neither holds it nor rolls it out again.
func TestRotate(t *testing.T) {
	tests := map[string]struct {
		on, now        string
		holders        []plan.Holder
		stay, replaced bool
		verdict        plan.Verdict
		to, noted      string
	}{
		"nothing changed":                        {on: "a@1", now: "a", holders: holders("a@1"), verdict: plan.InSync, to: "a@1"},
		"a rotation":                             {on: "a@1", now: "b", holders: holders("a@1"), verdict: plan.Advanced, to: "b@2"},
		"a rotation that must wait":              {on: "a@1", now: "b", holders: holders("a@1"), stay: true, verdict: plan.Waiting, to: "a@1"},
		"a rotation within a deploy":             {on: "a@1", now: "b", holders: holders("a@1"), replaced: true, verdict: plan.Advanced, to: "b@2"},
		"a deploy where rotations must wait":     {on: "a@1", now: "b", stay: true, replaced: true, verdict: plan.Advanced, to: "b@2"},
		"an undo within its request":             {on: "a@1", now: "b", holders: holders("a@1", "b@2"), stay: true, replaced: true, verdict: plan.Advanced, to: "b@2"},
		"an undo that the webhook missed":        {on: "a@1", now: "b", holders: holders("b@2", "a@1"), verdict: plan.InSync, to: "a@1", noted: "b@2"},
		"such an undo where rotations must wait": {on: "a@1", now: "b", holders: holders("b@2", "a@1"), stay: true, verdict: plan.InSync, to: "a@1", noted: "b@2"},
		"a rotation after such an undo":          {on: "b@2", now: "c", holders: holders("b@2", "a@1"), verdict: plan.Advanced, to: "c@3"},
		"back to what the template says":         {on: "b@2", now: "a", holders: holders("b@2", "a@1"), verdict: plan.Advanced, to: "a@3"},
		"an undo and back before it was seen":    {on: "a@1", now: "a", holders: holders("b@2", "a@1"), verdict: plan.Advanced, to: "a@3"},
		"back, and rolled out":                   {on: "a@1", now: "a", holders: holders("b@2", "a@3", "a@1"), verdict: plan.InSync, to: "a@1", noted: "a@3"},
		"deleted":                                {on: "a@1", now: "", holders: holders("a@1"), verdict: plan.SourceMissing, to: "a@1"},
		"the key is gone":                        {on: "a@1", now: "k", holders: holders("a@1"), verdict: plan.Advanced, to: "k@2"},
		"from a revision to a hash":              {now: "b", verdict: plan.Pinned, to: "b@1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := rotating(test.on, test.now, test.holders)
			in.Occasion, in.Replaced = stays[test.stay], test.replaced
			p := makePlan(t, in)
			d := p.Decisions[0]
			if d.Verdict != test.verdict || d.To != short(test.to) || d.Noted != short(test.noted) || len(p.Held) > 0 {
				t.Errorf("%s to %s, noted %s, held %s; want %s to %s, noted %s", d.Verdict, d.To, d.Noted, p.Held, test.verdict, short(test.to), short(test.noted))
			}
		})
	}
}

// rotation is one workload that follows a source which rotates, and what its pods have read.
type rotation struct {
	letter string
	// template is the hash of the template, noted that of the workload; annotations travel with undos.
	template, noted pin.Set
	image, order    int64
	replicaSets     []*rotated
	// read is what the source had when the pods of the present template began to start.
	read string
	// blind is true when confrev has not seen what happened between two changes, so that one rollout more is as good as none.
	blind bool
}

type rotated struct {
	image, order     int64
	template, noted_ pin.Set
}

func (m *rotation) effective() pin.Set {
	if m.noted[app].Number > m.template[app].Number {
		return m.noted
	}
	return m.template
}

func (m *rotation) input(replaced bool, before pin.Set) plan.Input {
	var shown []plan.Holder
	for _, rs := range m.replicaSets {
		shown = append(shown, plan.Holder{Order: rs.order, Pins: rs.template})
	}
	if before != nil {
		shown = append(shown, plan.Holder{Order: 1 << 40, Pins: before})
	}
	in := rotating("", m.letter, shown)
	in.Pins, in.Replaced = maps.Clone(m.effective()), replaced
	return in
}

// rollOut does what the Deployment controller does with a template that changed: its pods read the source.
func (m *rotation) rollOut() {
	m.order++
	at := slices.IndexFunc(m.replicaSets, func(rs *rotated) bool { return rs.image == m.image && maps.Equal(rs.template, m.template) })
	if at >= 0 {
		m.replicaSets[at].order = m.order
	} else {
		m.replicaSets = append(m.replicaSets, &rotated{image: m.image, order: m.order, template: maps.Clone(m.template)})
	}
	m.read = m.letter
}

func (m *rotation) newest() *rotated {
	return slices.MaxFunc(m.replicaSets, func(a, b *rotated) int { return int(a.order - b.order) })
}

func (m *rotation) apply(p plan.Plan) {
	d := p.Decisions[0]
	switch {
	case d.Noted != (pin.Pin{}):
		m.noted = pin.Set{app: d.Noted}
	case d.To != d.From:
		m.template, m.noted = pin.Set{app: d.To}, pin.Set{}
		m.rollOut()
	}
	m.newest().noted_ = maps.Clone(m.noted)
}

func (m *rotation) confrev(t *rapid.T) {
	stale := m.read != m.letter
	p := makePlan(t, m.input(false, nil))
	if m.letter != "" && stale != p.Changed() && !m.blind {
		t.Fatalf("pods read %s, the source has %s: %+v", m.read, m.letter, p.Decisions)
	}
	if m.letter != "" && stale && !p.Changed() {
		t.Fatalf("pods read %s, and stay, though the source has %s: %+v", m.read, m.letter, p.Decisions)
	}
	m.apply(p)
	if p := makePlan(t, m.input(false, nil)); p.Changed() || p.Decisions[0].Noted != (pin.Pin{}) && !maps.Equal(m.noted, pin.Set{app: p.Decisions[0].Noted}) {
		t.Fatalf("it does not settle: %+v", p.Decisions)
	}
	m.blind = false
}

func (m *rotation) undo(t *rapid.T) {
	to := rapid.SampledFrom(m.replicaSets).Draw(t, "to")
	if to == m.newest() {
		return
	}
	before := m.effective()
	m.image, m.template = to.image, maps.Clone(to.template)
	if rapid.Bool().Draw(t, "the webhook answers") && m.letter != "" {
		// It keeps the notes, and writes the hash of what the pods are about to read.
		p := makePlan(t, m.input(true, before))
		if d := p.Decisions[0]; d.To != d.Current {
			t.Fatalf("an undo does not get the present hash: %+v", d)
		}
		if to := p.Decisions[0].To; to != m.noted[app] {
			m.template, m.noted = pin.Set{app: to}, pin.Set{}
		}
	} else {
		m.noted = maps.Clone(to.noted_)
		m.blind = m.blind || m.letter != before[app].Revision[len("app-"):]
	}
	m.rollOut()
	m.blind = m.blind || m.letter == ""
}

// TestAnyHistoryOfARotation plays random histories: whatever happens, pods run with what the source has, after one rollout for each
// change and none for anything else.
func TestAnyHistoryOfARotation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &rotation{letter: "a", template: pin.Set{}, noted: pin.Set{app: short("a@1")}}
		m.rollOut()
		m.newest().noted_ = maps.Clone(m.noted)
		edit := func(t *rapid.T) { m.letter = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "content") }
		t.Repeat(map[string]func(*rapid.T){
			"edit":             func(t *rapid.T) { edit(t); m.confrev(t) },
			"undo":             func(t *rapid.T) { m.undo(t); m.confrev(t) },
			"undo and edit":    func(t *rapid.T) { m.undo(t); m.blind = true; edit(t); m.confrev(t) },
			"edit and undo":    func(t *rapid.T) { edit(t); m.blind = true; m.undo(t); m.confrev(t) },
			"confrev restarts": func(t *rapid.T) { m.confrev(t) },
			"deploy": func(t *rapid.T) {
				before := m.effective()
				m.image++
				if p := makePlan(t, m.input(true, before)); p.Changed() {
					m.template, m.noted = pin.Set{app: p.Decisions[0].To}, pin.Set{}
				}
				m.rollOut()
				m.confrev(t)
			},
			"delete": func(t *rapid.T) { m.letter = ""; m.confrev(t); edit(t); m.confrev(t) },
		})
	})
}
