//go:build e2e

package e2e

import (
	"errors"
	"sync"
	"testing"

	"confrev.io/confrev/internal/optin"
)

// injections are both of them.
var injections = []optin.Injection{optin.Admission, optin.Template}

// stretch is a time in which all is not as usual: confrev does not run, or the API server does not reach its webhook. Tests
// that need such a time share it, since what they wait for takes as long for all of them as for one.
type stretch struct {
	mu sync.Mutex
	// changes is what begins and ends the stretch, in turn, each when all tests that have not ended wait for it.
	changes          []func() error
	present, waiting int
	// changed is closed with the next change; failure says why it could not be made.
	changed chan struct{}
	failure error
}

// member is a test that shares a stretch. It waits with next for each change.
type member struct {
	*testing.T
	stretch *stretch
}

// together runs tests side by side, whatever -parallel says: each waits for all others.
func together(t *testing.T, changes []func() error, tests map[string]func(m *member)) {
	t.Helper()
	s := &stretch{changes: changes, present: len(tests), changed: make(chan struct{})}
	var all sync.WaitGroup
	for name, test := range tests {
		all.Go(func() {
			ran := false
			t.Run(name, func(t *testing.T) {
				ran = true
				defer s.leave()
				test(&member{t, s})
			})
			if !ran {
				// The flag -run left it out.
				s.leave()
			}
		})
	}
	all.Wait()
}

// next waits until all other tests wait for it too, or have ended, and the change is made.
func (m *member) next() {
	m.Helper()
	s := m.stretch
	s.mu.Lock()
	changed := s.changed
	s.waiting++
	s.change()
	s.mu.Unlock()
	<-changed
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		m.Fatal(s.failure)
	}
}

func (s *stretch) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present--
	s.change()
}

// change makes the next change if no one is to be waited for.
func (s *stretch) change() {
	if s.waiting == 0 || s.waiting < s.present {
		return
	}
	next := func() error { return errors.New("a test waits for a change that no one makes") }
	if len(s.changes) > 0 {
		next, s.changes = s.changes[0], s.changes[1:]
	}
	s.failure = errors.Join(s.failure, next())
	s.waiting = 0
	close(s.changed)
	s.changed = make(chan struct{})
}

// What must hold while the API server does not reach the webhook, and afterwards. Not parallel.
func TestWithoutTheWebhook(t *testing.T) {
	t.Cleanup(cluster.MendWebhook)
	cut := func() error { cluster.CutWebhook(); return nil }
	mended := func() error { cluster.MendWebhook(); return cluster.WaitWebhook(t.Context()) }
	tests := map[string]func(m *member){
		"FluxAfterAnUndo":         fluxAfterAnUndo,
		"AWorkloadThatIsReverted": workloadThatIsReverted,
		"ARotatedCredential":      rotationWithoutTheWebhook,
		"Preview":                 previewWithoutTheWebhook,
	}
	for _, injection := range injections {
		for name, test := range map[string]func(*member, optin.Injection){
			"SelfHeal": selfHeal, "ServerSideApplyAfterAnAdvance": serverSideApplyAfterAnAdvance, "Applying": applyingWithoutTheWebhook,
		} {
			tests[name+"/"+string(injection)] = func(m *member) { test(m, injection) }
		}
	}
	together(t, []func() error{cut, mended}, tests)
}
