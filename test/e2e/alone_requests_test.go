//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// An edit costs work in proportion to the workloads that use the source, and never a scan of a namespace. Not parallel:
// it counts all that confrev asks.
func TestRequestsOfOneEdit(t *testing.T) {
	w := newWorld(t)
	const others = 30
	for i := range others {
		name := fmt.Sprintf("other-%d", i)
		w.Create(configMap(name, "k", "v"), deployment(name, envFrom(name), gen.Replicas(0)))
	}
	w.Create(configMap("web", "color", "A"), deployment("web", envFrom("web"), gen.Replicas(0)))
	for i := range others {
		name := fmt.Sprintf("other-%d", i)
		w.WaitOwned(w.WaitPinned(name, name, "k", "v").Revision, name)
	}
	w.WaitOwned(w.WaitPinned("web", "web", "color", "A").Revision, "web")
	w.untilIdle()

	mark, err := cluster.AuditNow()
	w.Must(err)
	pinned := w.editTo("B")
	w.WaitOwned(pinned.Revision, "web")
	w.WaitEvent("RolledForward", "web", pinned.String())
	w.WaitEvent("RevisionCreated", "web", pinned.String())
	w.lookedAtAll()

	requests, err := cluster.ConfrevRequests(mark)
	w.Must(err)
	// Namespaces of earlier tests are still being deleted, and what resolves pins is looked at by the clock.
	requests = slices.DeleteFunc(requests, func(r env.Request) bool {
		return r.Object.Namespace != w.NS && r.Object.Namespace != "" || strings.Contains(r.URI, "/admissionregistration.k8s.io/")
	})
	want := map[string]int{
		"get configmaps":    2, // the source to hash it, and to copy it
		aRevisionsData:      1, // to prove it, where its event comes before the response to its creation
		"create configmaps": 1, // the revision
		"patch deployments": 1, // the pin
		"get replicasets":   1, // is the owner alive
		"patch configmaps":  1, // the owner
		"create events":     2, // RevisionCreated, RolledForward
	}
	counts := map[string]int{}
	var conflicts int
	for _, r := range requests {
		if r.Verb == "list" {
			t.Errorf("an edit made confrev %s", r)
		}
		if r.Response.Code == http.StatusConflict {
			// An event of the holder overtook the one of the write before: it asked again, read the revision, and wrote nothing.
			conflicts++
			want["get replicasets"]++
			want[afterConflict(r)]++
			continue
		}
		if r.Verb != "watch" {
			counts[what(r)]++
		}
	}
	t.Logf("requests of one edit: %v, and %d conflicts", counts, conflicts)
	if conflicts > 5 {
		t.Errorf("%d conflicts", conflicts)
	}
	tolerateOvertaking(counts, want)
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

// untilIdle waits until confrev has nothing left to ask: no event about the barrier either.
func (w *world) untilIdle() {
	w.Helper()
	w.Barrier()
	last := w.PinOf("barrier", "barrier").String()
	w.WaitEvent("RolledForward", "barrier", last)
	w.WaitEvent("RevisionCreated", "barrier", last)
	w.lookedAtAll()
}

// aRevisionsData is what a request to read a revision counts as.
const aRevisionsData = "get a revision"

// what names a sort of request.
func what(r env.Request) string {
	if r.Verb == "get" && r.Object.Resource == "configmaps" && revisionName.MatchString(r.Object.Name) {
		return aRevisionsData
	}
	return r.Verb + " " + r.Object.Resource
}

// afterConflict returns what the next request counts as after one about a revision that had changed meanwhile: it is read as it is then, and not as the
// cache shows it (rule 12).
func afterConflict(r env.Request) string {
	r.Verb = "get"
	return what(r)
}

// tolerateOvertaking raises what is tolerated where the event of the workload overtook that of the revision that it was just pinned to. Then confrev
// looked for the revision and for its source, and made sure that the revision has an owner.
func tolerateOvertaking(counts, most map[string]int) {
	if counts[aRevisionsData] > most[aRevisionsData] {
		most[aRevisionsData] += 2
		most["get configmaps"]++
		most["patch configmaps"]++
	}
}

// revisionName is the form of a revision's name (rule 20).
var revisionName = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{10}$`)

// What an edit of a ConfigMap costs for each kind. Not parallel, as above; the kinds have namespaces of their own.
func TestRequestsOfOneEditOfEachKind(t *testing.T) {
	var apps []*app
	before, after := map[*app]pins{}, map[*app]pins{}
	for _, s := range subjects {
		a := newWorld(t).app(s, "web")
		a.createSources("A")
		a.createWorkload(map[string]string{keys.Track: "all", keys.Settle: "0s"})
		apps = append(apps, a)
	}
	for _, a := range apps {
		before[a] = a.reads("A")
		a.waitOwned(before[a])
	}
	apps[0].untilIdle()
	mark, began := auditMark(t), time.Now()
	for _, a := range apps {
		a.Edit(a.conf, sourceKey, "B")
	}
	for _, a := range apps {
		a.Eventually("the pin moves", func() string {
			if after[a] = a.pinned(); after[a] == before[a] {
				return "not yet"
			}
			return ""
		})
		if a.start == nil {
			a.Eventually("the edit rolls out", a.rollingOut)
			a.waitOwned(after[a])
		}
		a.WaitEvent("RolledForward", a.name, after[a].conf.String())
		a.WaitEvent("RevisionCreated", a.conf, after[a].conf.String())
	}
	apps[0].lookedAtAll()
	for _, a := range apps {
		t.Logf("%s: an edit is %d writes", a.subject, a.checkRequests(mark, time.Since(began)))
	}
}

// D12: what it costs to restore a revision does not grow with the number of its users, and a sweep looks once at the holders of a kind. Not
// parallel, as above.
func TestRequestsOfWhatManyUse(t *testing.T) {
	const users = 12
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"), configMap("jobs", "k", "A"))
	var names []string
	for i := range users {
		name := fmt.Sprintf("web-%d", i)
		names = append(names, name)
		w.Create(deployment(name, envFrom("web"), gen.Replicas(0)), w.cronJobOf(fmt.Sprintf("job-%d", i), "jobs"))
	}
	var a pin.Pin
	for _, name := range names {
		a = w.WaitPinned(name, "web", "color", "A")
	}
	w.WaitOwned(a.Revision, names...)
	pinnedJobs := func() map[string]bool {
		pins := map[string]bool{}
		for _, job := range w.list(workload.CronJob.GVK) {
			pins[workload.CronJob.PinsText(&job)] = true
		}
		return pins
	}
	before := pinnedJobs()
	w.Eventually("the CronJobs own their revision, and not its anchor, which goes later", func() string {
		owners := w.Revisions("jobs")[0].OwnerReferences
		if len(owners) != users || slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool { return owner.Kind != workload.CronJob.GVK.Kind }) {
			return fmt.Sprint(owners)
		}
		return ""
	})
	w.untilIdle()

	mark := auditMark(t)
	w.unguarded("delete", "configmap", a.Revision)
	w.Eventually("the revision is back", func() string {
		if w.Gone(a.Revision) {
			return "gone"
		}
		return ""
	})
	w.WaitOwned(a.Revision, names...)
	w.Edit("jobs", "k", "B")
	w.Eventually("all Jobs advance, and what they had goes", func() string {
		if now := pinnedJobs(); len(now) != 1 || len(w.Revisions("jobs")) != 1 || maps.Equal(now, before) {
			return fmt.Sprint(now, " ", len(w.Revisions("jobs")))
		}
		return ""
	})
	w.lookedAtAll()
	counts := map[string]int{}
	requests, err := cluster.ConfrevRequests(mark)
	w.Must(err)
	conflicts, owned := 0, 0
	for _, r := range requests {
		if r.Object.Namespace == w.NS {
			counts[r.Verb+" "+r.Object.Resource]++
			if r.Response.Code == http.StatusConflict && r.Object.Resource == "configmaps" {
				conflicts++
			}
			if r.Verb == "patch" && strings.HasPrefix(r.Object.Name, "jobs-") && r.Object.Resource == "configmaps" {
				owned++
			}
		}
	}
	t.Logf("requests: %v, %d conflicts of revisions", counts, conflicts)
	// Each becomes an owner again, and is looked up for that.
	if got, most := counts["get deployments"], (1+conflicts)*users+1; got > most {
		t.Errorf("get deployments: %d times, want at most %d", got, most)
	}
	// Once before it deletes the revision, and once before its users replace the anchor as the owners of the next one: the anchor owned it if most of
	// them were about to pin it at the same time (rule 14).
	if got, most := counts["list jobs"], 1+owned+conflicts; got == 0 || got > most {
		t.Errorf("list jobs: %d times, want at least 1 and at most %d", got, most)
	}
}

func auditMark(t *testing.T) env.AuditMark {
	t.Helper()
	mark, err := cluster.AuditNow()
	if err != nil {
		t.Fatal(err)
	}
	return mark
}

// checkRequests checks what confrev asked in the workload's namespace for one edit and all that it led to, which took some time. It
// returns how many writes it was.
func (a *app) checkRequests(since env.AuditMark, took time.Duration) (writes int) {
	a.Helper()
	requests, err := cluster.ConfrevRequests(since)
	a.Must(err)
	holders := 1
	if a.templated != a.kind {
		// Both the Deployment, which has no pods, and the Rollout have a holder for it.
		holders = 2
	}
	most := map[string]int{
		"get configmaps":                   2,           // the source to hash it, and to copy it
		aRevisionsData:                     1,           // to prove it, as above
		"create configmaps":                1,           // the revision
		"patch " + plural(a.templated.GVK): 1,           // the pin
		"get " + plural(a.kind.Holder.GVK): 2 * holders, // is the owner of both revisions alive
		"patch configmaps":                 holders,     // the owner of the new revision
		"patch secrets":                    holders,     // the owner of the other one that the new template pins
		"create events":                    2,           // RevisionCreated, RolledForward
		// Which Secrets it may mount, which it asks again after ten seconds.
		"get serviceaccounts": 1 + int(took/(10*time.Second)),
	}
	if a.templated != a.kind {
		most["get "+plural(a.kind.GVK)]++ // is the Rollout, as an owner, alive
	}
	counts := map[string]int{}
	for _, r := range requests {
		if r.Object.Namespace != a.NS {
			continue
		}
		if r.Response.Code == http.StatusConflict {
			// As above. It asks for every owner that it has not seen on the revision yet.
			most[afterConflict(r)]++
			most["get "+plural(a.kind.Holder.GVK)] += holders
			if a.templated != a.kind {
				most["get "+plural(a.kind.GVK)]++
			}
			continue
		}
		if counts[what(r)]++; r.Writes() {
			writes++
		}
	}
	tolerateOvertaking(counts, most)
	a.Logf("requests of one edit of a %s: %v", a.subject, counts)
	for what, n := range counts {
		if n > most[what] {
			a.Errorf("%s: %s: %d times, want at most %d", a.subject, what, n, most[what])
		}
	}
	if a.Failed() {
		for _, r := range requests {
			if r.Object.Namespace == a.NS {
				a.Log(r.Received.Format(time.StampMicro), r, r.URI)
			}
		}
	}
	return writes
}

func plural(gvk schema.GroupVersionKind) string { return strings.ToLower(gvk.Kind) + "s" }
