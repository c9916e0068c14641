package faults

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"
)

var errKill = errors.New("from the kill")

func TestAProcessEndsAtAWrite(t *testing.T) {
	for name, answered := range map[string]bool{"before its answer": false, "after its answer": true} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			p, c := s.start(Options{})
			// The number of requests that the API server has seen when the process ends.
			var atDeath int
			death := p.Arm(Crash{
				Counts: func(w Write) bool { return w.Method == http.MethodPatch }, At: 2, Answered: answered, Moment: patience,
				Kill: func() error { atDeath = len(s.seen()); return errKill },
			})
			for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodGet} {
				if status, _, _ := s.ask(c, method, p.URL+path); status != http.StatusOK {
					t.Fatalf("%s: %d", method, status)
				}
			}
			if status, _, _ := s.ask(c, http.MethodPatch, p.URL+path+"/last"); (status == http.StatusOK) != answered {
				t.Errorf("the last write is answered %d", status)
			}
			if answered {
				// It wants to write again, and does not get to.
				if status, _, _ := s.ask(c, http.MethodPatch, p.URL+path+"/never"); status != 0 {
					t.Errorf("the write after that is answered %d", status)
				}
			}
			d := <-death
			if d.After.String() != "PATCH "+path+"/last" || !errors.Is(d.Err, errKill) || atDeath != 4 || len(s.seen()) != 4 {
				t.Errorf("%+v, when the API server had seen %d of %q", d, atDeath, s.seen())
			}
			// The next process writes.
			if status, _, _ := s.ask(c, http.MethodPatch, p.URL+path); status != http.StatusOK {
				t.Errorf("the next process is answered %d", status)
			}
			if got := p.Disarm(); len(got) != 2 || len(p.Writes()) != 4 {
				t.Errorf("%v counted, of %v", got, p.Writes())
			}
		})
	}
}

// One that does not write again after its last write ends anyway.
func TestAProcessThatWritesNoMoreEnds(t *testing.T) {
	s := newAPIServer(t)
	p, c := s.start(Options{})
	death := p.Arm(Crash{Counts: func(Write) bool { return true }, At: 1, Answered: true, Kill: func() error { return nil }})
	if status, _, _ := s.ask(c, http.MethodDelete, p.URL+path); status != http.StatusOK {
		t.Error(status)
	}
	select {
	case d := <-death:
		if d.Err != nil || d.After.Method != http.MethodDelete {
			t.Errorf("%+v", d)
		}
	case <-time.After(patience):
		t.Error("it lives")
	}
}

func TestAWriteThatIsNotReachedEndsNothing(t *testing.T) {
	s := newAPIServer(t)
	p, c := s.start(Options{})
	death := p.Arm(Crash{Counts: func(Write) bool { return true }, At: 3, Kill: func() error { return nil }})
	want := []string{"POST " + path, "PATCH " + path}
	for _, method := range []string{http.MethodPost, http.MethodPatch} {
		if status, _, _ := s.ask(c, method, p.URL+path); status != http.StatusOK {
			t.Error(status)
		}
	}
	// Refused writes took no effect.
	if status, _, _ := s.ask(c, http.MethodPatch, p.URL+path, "Refuse"); status != http.StatusForbidden {
		t.Error(status)
	}
	var got []string
	for _, w := range p.Disarm() {
		got = append(got, w.String())
	}
	if !slices.Equal(got, want) || len(death) > 0 || p.Disarm() != nil {
		t.Errorf("%q counted, want %q", got, want)
	}
}
