//go:build reliability

package reliability

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"confrev.io/confrev/test/faults"
)

// scenario is what users do once, and what comes of it.
type scenario struct {
	// prepare is what there is before; confrev does not end in it.
	prepare func(w *world)
	// act is what users do.
	act func(w *world)
	// done complains until the end is as it must be, without a look at other runs.
	done func(w *world) (complaint string)
	// rollouts are part of the end, unless confrev's absence during a user's own request may add one (rule 2).
	rollouts bool
}

// quiet is for how long confrev must write nothing to have come to an end: it gathers owners for half a second at most.
const quiet = 2 * time.Second

// withEvents ends confrev at each event that it sends, too. They are half of all writes, and nothing is decided by them.
var withEvents = os.Getenv("CONFREV_RELIABILITY_EVENTS") != "none"

// maxWrites bounds the enumeration: a confrev that keeps writing has a fault.
const maxWrites = 100

// maxFailures is after how many failures, of all scenarios together, the other crash points are left out: each takes all the patience there is.
const maxFailures = 3

// The process ends at each of its writes in turn, before and after it has the answer, and starts again. Whatever the write was, the end is the one
// without a crash: pins, holds, revisions, their numbers and owners, and how often each workload has rolled out.
func TestConfrevEndsAtEachOfItsWrites(t *testing.T) {
	m, failures := alone(t, "crash", faults.Options{}), 0
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		s := scenarios[name]
		t.Run(name, func(t *testing.T) {
			want := s.undisturbed(t, m)
			for _, answered := range []bool{false, true} {
				t.Run(map[bool]string{false: "before the answer", true: "after the answer"}[answered], func(t *testing.T) {
					s.enumerate(t, m, answered, want, &failures)
				})
			}
		})
	}
}

// undisturbed plays a scenario without a crash and returns its end.
func (s scenario) undisturbed(t *testing.T, m *member) (end string) {
	t.Run("undisturbed", func(t *testing.T) {
		w := newWorld(t)
		s.prepare(w)
		m.quiet(w, quiet)
		w.noteRollouts()
		before := m.writes(w)
		s.act(w)
		w.Eventually("the end", func() string { return s.done(w) })
		m.quiet(w, quiet)
		end = w.state(s.rollouts)
		t.Logf("%d writes:\n%s\nthe end:\n%s", len(m.writes(w))-len(before), list(m.writes(w)[len(before):], w.NS), end)
	})
	if end == "" {
		t.FailNow()
	}
	return end
}

// enumerate plays a scenario with an end at write 1, 2, …, until it is over before that, and counts failures.
func (s scenario) enumerate(t *testing.T, m *member, answered bool, want string, failures *int) {
	same, all := 0, 0
	for over := false; !over; {
		if all == maxWrites {
			t.Fatalf("there are more than %d writes", maxWrites)
		}
		if *failures == maxFailures {
			t.Fatalf("%d crash points have failed: whether the others hold is not known", maxFailures)
		}
		t.Run(fmt.Sprint("write ", all+1), func(t *testing.T) {
			c := &crashing{member: m, at: all + 1, answered: answered, disarmed: make(chan struct{}), restarted: make(chan error, 1)}
			// Also when the test fails.
			defer func() {
				over = !c.reached()
				if !over {
					all++
				}
				switch {
				case t.Failed():
					*failures++
				case !over:
					same++
				}
			}()
			c.play(t, s, want)
		})
	}
	if all == 0 {
		t.Error("confrev wrote nothing: this shows nothing")
	}
	t.Logf("%d of %d crash points have the same end", same, all)
}

// crashing is a confrev that ends at a write.
type crashing struct {
	*member
	at       int
	answered bool

	// died is how it ended, if it did. It is there once restarted has said how it started again.
	died      *faults.Death
	restarted chan error
	disarmed  chan struct{}
}

// reached reports whether the scenario came to the write at which confrev was to end, once it is over.
func (c *crashing) reached() bool { return c.died != nil }

// play plays a scenario once.
func (c *crashing) play(t *testing.T, s scenario, want string) {
	w := newWorld(t)
	s.prepare(w)
	c.quiet(w, quiet/2)
	w.noteRollouts()
	death := c.proxy.Arm(faults.Crash{
		Counts: func(write faults.Write) bool { return write.In(w.NS) && (withEvents || !write.OfEvent()) }, At: c.at, Answered: c.answered, Kill: c.Kill,
	})
	go c.restart(w, death)
	// Also when the test fails: the next one needs confrev.
	defer func() {
		c.proxy.Disarm()
		close(c.disarmed)
		if err := <-c.restarted; err != nil {
			t.Error(err)
		}
		if c.reached() {
			t.Logf("confrev ended at%s", list([]faults.Write{c.died.After}, w.NS))
		}
	}()
	s.act(w)
	same := func() string {
		if now := w.state(s.rollouts); now != want {
			return "it is\n" + now + "\nwant\n" + want
		}
		return ""
	}
	w.Eventually("the same end as without a crash", same)
	c.quiet(w, quiet)
	if complaint := same(); complaint != "" {
		t.Error("later, " + complaint)
	}
}

// restart starts confrev again once it has ended.
func (c *crashing) restart(w *world, death <-chan faults.Death) {
	select {
	case died := <-death:
		c.down.Store(true)
		c.died = &died
		err := died.Err
		if err == nil {
			// The test's own context ends with the test.
			err = c.Start(context.WithoutCancel(w.Ctx))
		}
		c.down.Store(false)
		c.restarted <- err
	case <-c.disarmed:
		c.restarted <- nil
	}
}

// writes returns confrev's writes in a namespace.
func (m *member) writes(w *world) (all []faults.Write) {
	for _, write := range m.proxy.Writes() {
		if write.In(w.NS) {
			all = append(all, write)
		}
	}
	return all
}

// quiet waits until confrev has written nothing in a namespace for so long.
func (m *member) quiet(w *world, d time.Duration) {
	w.Helper()
	last := -1
	w.stays(d, func() string {
		if now := len(m.writes(w)); now != last || m.down.Load() {
			last = now
			return "confrev writes, or is down"
		}
		return ""
	})
}

// list lists writes without what varies from run to run.
func list(writes []faults.Write, namespace string) string {
	var lines []string
	for _, write := range writes {
		_, what, _ := strings.Cut(write.Path, "/namespaces/"+namespace+"/")
		lines = append(lines, "  "+write.Method+" "+what)
	}
	return strings.Join(lines, "\n")
}
