//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"

	"confrev.io/confrev/test/env"
)

// An edit costs work in proportion to the workloads that use the source, and never a scan of a namespace. Not parallel:
// it counts all that confrev asks.
func TestRequestsOfOneEdit(t *testing.T) {
	w := newWorld(t)
	const others = 30
	for i := range others {
		name := fmt.Sprintf("other-%d", i)
		w.create(configMap(name, "k", "v"), deployment(name, envFrom(name), replicas(0)))
	}
	w.create(configMap("web", "color", "A"), deployment("web", envFrom("web"), replicas(0)))
	for i := range others {
		name := fmt.Sprintf("other-%d", i)
		w.owned(w.waitPinned(name, name, "k", "v").Revision, name)
	}
	w.owned(w.waitPinned("web", "web", "color", "A").Revision, "web")
	w.barrier()

	mark, err := cluster.AuditNow()
	w.must(err)
	pinned := w.editTo("B")
	w.owned(pinned.Revision, "web")
	w.waitEvent("RolledForward", "web", pinned.String())
	w.waitEvent("RevisionCreated", "web", pinned.String())
	w.lookedAtAll()

	requests, err := cluster.ConfrevRequests(mark)
	w.must(err)
	// Namespaces of earlier tests are still being deleted.
	requests = slices.DeleteFunc(requests, func(r env.Request) bool {
		return r.Object.Namespace != w.ns && r.Object.Namespace != ""
	})
	counts := map[string]int{}
	for _, r := range requests {
		if r.Verb == "list" {
			t.Errorf("an edit made confrev %s", r)
		}
		if r.Verb != "watch" {
			counts[r.Verb+" "+r.Object.Resource]++
		}
	}
	t.Logf("requests of one edit: %v", counts)
	want := map[string]int{
		"get configmaps":    2, // the source to hash it, and to copy it
		"create configmaps": 1, // the revision
		"patch deployments": 1, // the pin
		"get replicasets":   1, // is the owner alive
		"patch configmaps":  1, // the owner
		"create events":     2, // RevisionCreated, RolledForward
	}
	for what, most := range want {
		if counts[what] > most {
			t.Errorf("%s: %d times, want at most %d", what, counts[what], most)
		}
		delete(counts, what)
	}
	for what, n := range counts {
		t.Errorf("%s: %d times, want none", what, n)
	}
}
