package main

import (
	"errors"
	"fmt"
	"time"
)

// brokenClaim is something that does not hold.
type brokenClaim struct{ text, want, seen string }

func (c *brokenClaim) Error() string {
	return fmt.Sprintf("%s: want %s, have %s", c.text, c.want, c.seen)
}

// patience bounds every wait for something that must happen.
const patience = time.Minute

// look reads something from the API server and puts it into words that are compared with those expected.
type look func() (seen string, err error)

// claim says something that must hold now.
func (s *story) claim(text, want string, look look) {
	if s.err != nil {
		return
	}
	seen, err := look()
	switch {
	case err != nil:
		s.err = &brokenClaim{text, want, err.Error()}
	case seen != want:
		s.err = &brokenClaim{text, want, seen}
	default:
		s.out.holds(text)
	}
}

// await waits until something holds, and says how long it took if that was long.
func (s *story) await(text, want string, look look) {
	began := time.Now()
	for s.err == nil {
		seen, err := look()
		took := time.Since(began)
		switch {
		case s.ctx.Err() != nil:
			s.err = s.ctx.Err()
		case err == nil && seen == want:
			if took > time.Second {
				s.out.note("  … %s: %s", text, seconds(took))
			}
			return
		case took > patience && err != nil:
			s.err = &brokenClaim{fmt.Sprintf("%s (waited %s)", text, patience), want, err.Error()}
		case took > patience:
			s.err = &brokenClaim{fmt.Sprintf("%s (waited %s)", text, patience), want, seen}
		default:
			time.Sleep(30 * time.Millisecond)
		}
	}
}

// report shows what went wrong, and where to look.
func (s *story) report(err error) {
	s.out.blank()
	if c, ok := errors.AsType[*brokenClaim](err); ok {
		s.out.broken(c.text)
		s.out.say("  expected: %s\n  seen:     %s", c.want, c.seen)
	} else {
		s.out.broken(err.Error())
	}
	if s.cluster == nil {
		return
	}
	state := "does not run"
	if pid := s.place.livePid(); pid != 0 {
		state = fmt.Sprintf("runs, pid %d", pid)
	}
	s.out.say("  logs:     confrev (%s): %s\n            control plane: %s", state, s.place.log(), s.clusterLogs())
	s.out.say("  look:     export KUBECONFIG=%s; %s get all", shell(s.place.kubeconfig()), shell(s.kubectlPath))
}
