//go:build e2e

package e2e

import (
	"slices"
	"strconv"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// The webhooks for workloads, as the chart names them.
const (
	ofNamespaces = "pin-workloads.confrev.io"
	ofSingles    = "pin-single-workloads.confrev.io"
)

// asked returns how many of the writes to workloads of the namespace the API server dealt with since a mark, and which webhooks of confrev
// it asked about them, each once.
func (a *app) asked(since env.AuditMark) (writes int, webhooks []string) {
	a.Helper()
	resources := []string{a.kind.Resource() + "s", a.templated.Resource() + "s"}
	requests, err := cluster.Requests(since, func(r env.Request) bool {
		return r.Object.Namespace == a.NS && r.Object.Subresource == "" && slices.Contains(resources, r.Object.Resource) && slices.Contains([]string{"create", "update", "patch"}, r.Verb)
	})
	a.Must(err)
	for _, r := range requests {
		called, err := r.Webhooks()
		a.Must(err)
		for _, name := range called {
			if name == ofNamespaces || name == ofSingles {
				webhooks = append(webhooks, name)
			}
		}
	}
	slices.Sort(webhooks)
	return len(requests), slices.Compact(webhooks)
}

func (a *app) expectAsked(since env.AuditMark, what string, want ...string) {
	a.Helper()
	if writes, webhooks := a.asked(since); writes == 0 || !slices.Equal(webhooks, want) {
		a.Errorf("%s: of %d writes, the API server asked %q, want %q", what, writes, webhooks, want)
	}
}

func (a *app) mark() env.AuditMark {
	a.Helper()
	mark, err := cluster.AuditNow()
	a.Must(err)
	return mark
}

// change changes the workload, and its template where another object has it.
func (a *app) change(args ...string) {
	a.Helper()
	a.Kubectl(append([]string{"label", "--overwrite", a.resource()}, args...)...)
	if a.templated != a.kind {
		a.Kubectl(append([]string{"label", "--overwrite", a.templated.Resource() + "/" + a.name}, args...)...)
	}
}

// Rule 18: a workload that has nothing to do with confrev is not sent to confrev.
func TestOnlyWorkloadsThatOptInAreSentToConfrev(t *testing.T) {
	t.Parallel()
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.app(s, "web")
			start := a.mark()
			a.createSources("A")
			a.createWorkload(nil)
			a.Eventually("it is rolled out", a.rollingOut)
			a.change("team=blue")
			a.patch(`{"metadata":{"annotations":{"example.com/note":"1"}}}`)
			a.expectAsked(start, "an untracked workload")

			opted := a.mark()
			a.Kubectl("annotate", a.templated.Resource()+"/"+a.name, keys.Track+"=all")
			a.expectAsked(opted, "a workload that opts in", ofSingles)
			a.reads("A")
			out := a.mark()
			a.Kubectl("annotate", a.templated.Resource()+"/"+a.name, keys.Track+"-")
			a.expectAsked(out, "a workload whose annotation is removed", ofSingles)

			all := a.mark()
			w.Kubectl("label", "namespace", w.NS, keys.Track+"=all")
			changes := 0
			w.Eventually("the API server knows of the label", func() string {
				changes++
				a.change("team=" + strconv.Itoa(changes))
				if _, webhooks := a.asked(all); !slices.Contains(webhooks, ofNamespaces) {
					return "it did not ask"
				}
				return ""
			})
		})
	}
}

// Rule 18: with the annotations of another tool that confrev reads, wherever those may be, a workload is sent to it.
func TestWorkloadsWithOtherToolsAnnotationsAreSentToConfrev(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, patch := range map[string]string{
		"wave":     `{"metadata":{"annotations":{"wave.pusher.com/update-on-config-change":"true"}}}`,
		"auto":     `{"metadata":{"annotations":{"reloader.stakater.com/auto":"true"}}}`,
		"kind":     `{"metadata":{"annotations":{"configmap.reloader.stakater.com/auto":"true"}}}`,
		"template": `{"spec":{"template":{"metadata":{"annotations":{"reloader.stakater.com/auto":"true"}}}}}`,
	} {
		a := w.app(aDeployment, name)
		a.createSources("A")
		a.createWorkload(nil)
		mark := a.mark()
		a.patch(patch)
		a.expectAsked(mark, name, ofSingles)
	}
}
