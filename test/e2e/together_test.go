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
	// waits has the tests that wait for the next change, each with where it learns whether it was made; ends has those that have ended.
	waits chan chan error
	ends  chan struct{}
}

// member is a test that shares a stretch. It waits with next for each change.
type member struct {
	*testing.T
	stretch
}

// together runs tests side by side, whatever -parallel says: each waits for all others. changes is what begins and ends the stretch, in
// turn, each when all tests that have not ended wait for it.
func together(t *testing.T, changes []func() error, tests map[string]func(m *member)) {
	t.Helper()
	s := stretch{waits: make(chan chan error), ends: make(chan struct{})}
	var all sync.WaitGroup
	defer all.Wait()
	for name, test := range tests {
		end := sync.OnceFunc(func() { s.ends <- struct{}{} })
		all.Go(func() {
			t.Run(name, func(t *testing.T) {
				defer end()
				test(&member{t, s})
			})
			// The flag -run may have left it out.
			end()
		})
	}
	var waiting []chan error
	var failure error
	for present := len(tests); present > 0; {
		select {
		case wait := <-s.waits:
			waiting = append(waiting, wait)
		case <-s.ends:
			present--
		}
		if len(waiting) == 0 || len(waiting) < present {
			continue
		}
		change := func() error { return errors.New("a test waits for a change that no one makes") }
		if len(changes) > 0 {
			change, changes = changes[0], changes[1:]
		}
		failure = errors.Join(failure, change())
		for _, wait := range waiting {
			wait <- failure
		}
		waiting = nil
	}
}

// next waits until all other tests wait for it too, or have ended, and the change is made.
func (m *member) next() {
	m.Helper()
	wait := make(chan error, 1)
	m.waits <- wait
	if err := <-wait; err != nil {
		m.Fatal(err)
	}
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
