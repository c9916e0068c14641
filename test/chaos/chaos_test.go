//go:build chaos

package chaos

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"confrev.io/confrev/test/env"
)

// check makes a history happen and fails the test if it shows that a promise is broken.
func check(t env.T, h history) {
	t.Helper()
	total.histories.Add(1)
	recorded := &witness{T: t}
	defer func() {
		// Also if a step or a wait ended the test.
		if recorded.said != "" {
			total.failed.Add(1)
		}
	}()
	p := perform(recorded, h)
	entries := p.sorted()
	pods, seen := checkPods(entries)
	rollouts, rolled := p.checkRollouts(entries)
	holds, held := p.checkHolds(entries)
	total.pods.Add(int64(seen))
	total.rollouts.Add(int64(rolled))
	total.holds.Add(int64(held))
	wrong := slices.Concat(p.faults, p.wrong, pods, rollouts, holds, p.checkOthers(entries))
	if len(wrong) == 0 && os.Getenv("CONFREV_CHAOS_HISTORY") != "" {
		// Someone looks at this one history.
		if _, err := p.keep("nothing is wrong"); err != nil {
			t.Errorf("%v", err)
		}
	}
	if len(wrong) > 0 {
		recorded.Fatalf("%s", strings.Join(wrong, "\n"))
	}
}

// witness keeps the evidence when a history fails.
type witness struct {
	env.T
	play *play
	said string
}

// Fatalf writes the history as a script, what was seen, and what confrev logged about it, and ends the test.
func (w *witness) Fatalf(format string, args ...any) {
	w.Helper()
	w.said = fmt.Sprintf(format, args...)
	if w.play != nil {
		// What ended the test may be a consequence of what the watches saw.
		for _, wrong := range w.play.found() {
			if !strings.Contains(w.said, wrong) {
				w.said += "\n" + wrong
			}
		}
		where, err := w.play.keep(w.said)
		if err != nil {
			where = err.Error()
		}
		w.said += "\n\nThe history (evidence in " + where + "):\n" + w.play.history.String() + "\nAs a script:\n" + w.play.text()
	}
	// Now, since shrinking takes minutes, and may find that it does not fail again.
	fmt.Fprintf(os.Stderr, "chaos: a history failed: %s\n", w.said)
	w.T.Fatalf("%s", w.said)
}

// keep writes the evidence to a folder.
func (p *play) keep(said string) (folder string, err error) {
	folder = filepath.Join(failures, p.NS)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	log, err := p.logged()
	if err != nil {
		return "", err
	}
	for name, text := range map[string]string{
		"history": p.history.String(), "script.sh": p.text(), "said": said, "journal": p.journalText(), "confrev.log": log, "now": p.Describe(),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return folder, nil
}

// logged returns the lines of confrev's logs and of the audit log that are about the play's namespace, without the audit log's reads.
func (p *play) logged() (string, error) {
	var b strings.Builder
	for _, path := range []string{process.leader.Log, process.standby.Log} {
		content, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return "", err
		}
		b.WriteString("== " + path + "\n")
		for line := range strings.Lines(string(content)) {
			if strings.Contains(line, p.NS) {
				b.WriteString(line)
			}
		}
	}
	b.WriteString("== " + cluster.AuditLog + "\n")
	err := cluster.AuditLines(env.AuditMark{}, func(line string) error {
		if strings.Contains(line, p.NS) && !strings.Contains(line, `"verb":"get"`) && !strings.Contains(line, `"verb":"watch"`) && !strings.Contains(line, `"verb":"list"`) {
			b.WriteString(line)
		}
		return nil
	})
	return b.String(), err
}

// Histories that once broke a promise, and those that are worth a place of their own.
func TestKnownHistories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.history")
	if only := os.Getenv("CONFREV_CHAOS_HISTORY"); only != "" {
		paths, err = []string{only}, nil
	}
	if err != nil || len(paths) == 0 {
		t.Fatalf("histories: %v, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".history"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			h, err := parseHistory(string(text))
			if err != nil {
				t.Fatal(err)
			}
			check(t, h)
		})
	}
}

// Whatever happens, and in whatever order, confrev keeps its promises.
func TestHistories(t *testing.T) {
	if os.Getenv("CONFREV_CHAOS_HISTORY") != "" {
		t.Skip("one history was asked for")
	}
	before := total.histories.Load()
	t.Run("parallel", func(t *testing.T) {
		var seeding sync.Mutex
		for i := range parallel {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				// rapid has one seed for all tests, and reads it when a check begins.
				seeding.Lock()
				begun := sync.OnceFunc(seeding.Unlock)
				defer begun()
				// Far from each other, since rapid adds to the seed.
				if err := flag.Set("rapid.seed", strconv.FormatUint(seed+uint64(i)<<40, 10)); err != nil {
					t.Fatal(err)
				}
				rapid.Check(t, func(t *rapid.T) {
					begun()
					h := anyHistory.Draw(t, "history")
					check(t, h)
				})
			})
		}
	})
	if ran := total.histories.Load() - before; ran < int64(histories) && !t.Failed() {
		t.Errorf("only %d histories happened, want %d: the tests need more time", ran, histories)
	}
}
