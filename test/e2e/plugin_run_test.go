//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
)

// ran is what came of a command line of the plugin, with what to ask of it.
type ran struct {
	*world
	line string
	outcome
}

// confrev runs "kubectl confrev …" in the namespace, as a user does.
func (w *world) confrev(args ...string) ran {
	w.Helper()
	return ran{w, "kubectl confrev " + strings.Join(args, " "), w.plugin(args...)}
}

// says checks that it succeeded and printed all these.
func (r ran) says(wants ...string) ran {
	r.Helper()
	return r.ends(0, wants...)
}

// ends checks that it ended with a status and printed all these.
func (r ran) ends(status int, wants ...string) ran {
	r.Helper()
	if r.status != status || r.stderr != "" && !strings.Contains(r.line, "__complete") {
		r.Errorf("%s: status %d, want %d:\n%s%s", r.line, r.status, status, r.stdout, r.stderr)
	}
	for _, want := range wants {
		if !strings.Contains(r.stdout, want) {
			r.Errorf("%s lacks %q:\n%s", r.line, want, r.stdout)
		}
	}
	return r
}

// completes checks what is offered for the last of the arguments. The tab key waits for a few seconds only, which a busy API server may exceed.
func (w *world) completes(wants []string, line ...string) (offered string) {
	w.Helper()
	w.Eventually("completion of "+strings.Join(line, " "), func() string {
		got := w.plugin(append([]string{"__complete"}, line...)...)
		offered = got.stdout
		for _, want := range wants {
			if !strings.Contains(offered, want) {
				return fmt.Sprintf("status %d, without %q:\n%s%s", got.status, want, got.stdout, got.stderr)
			}
		}
		return ""
	})
	return offered
}

// fails checks that it failed with a status, nothing on its output and one clear line that has all these.
func (r ran) fails(status int, wants ...string) {
	r.Helper()
	line := strings.TrimSuffix(r.stderr, "\n")
	if r.status != status || r.stdout != "" || !strings.HasPrefix(line, "error: ") || strings.Contains(line, "\n") {
		r.Errorf("%s: status %d, want %d and one line:\n%s%s", r.line, r.status, status, r.stdout, r.stderr)
	}
	for _, want := range wants {
		if !strings.Contains(line, want) {
			r.Errorf("%s lacks %q: %s", r.line, want, line)
		}
	}
}

// examples runs every example of a verb's help in a directory. Only statuses of success will do: 0 and those given.
func (w *world) examples(dir string, statuses []int, verb ...string) {
	w.Helper()
	for _, line := range examplesOf(w.T, verb...) {
		if got := w.runExample(dir, line, statuses...); slices.Contains(statuses, got.status) && got.stderr != "" {
			w.Errorf("%s: %s", line, got.stderr)
		}
	}
}
