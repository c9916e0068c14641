//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/test/gen"
)

// revertingOperator is an operator that reverts templates.
type revertingOperator struct {
	// writes is how often it wrote, changes is how many of these writes changed the Deployment, and handled is the resourceVersion of the
	// Deployment that it last dealt with.
	writes, changes atomic.Int64
	handled         atomic.Value
}

// idle waits until the Deployment has rolled out, and the operator has dealt with it as it is then. It returns how many of the operator's
// writes have changed the Deployment. That it writes again is no fight: any change of the status, which may come late, makes it write.
func (o *revertingOperator) idle(w *world, name string) int64 {
	w.Helper()
	w.Eventually("the operator has nothing to do", func() string {
		if complaint := w.NotRolledOut(name); complaint != "" {
			return complaint
		}
		if now, handled := w.Deployment(name).ResourceVersion, o.handled.Load(); handled != now {
			return fmt.Sprintf("it has dealt with version %v of %s", handled, now)
		}
		return ""
	})
	return o.changes.Load()
}

// revertTemplates does what many an operator does with a Deployment that it owns: whenever it sees annotations in the template
// that it did not write, it writes back the whole object without them.
func (w *world) revertTemplates(ctx context.Context, name string) *revertingOperator {
	w.Helper()
	watcher, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	w.Must(err)
	watching, err := watcher.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(w.NS), client.MatchingFields{"metadata.name": name})
	w.Must(err)
	o := &revertingOperator{}
	revert := func(d *appsv1.Deployment) {
		if len(d.Spec.Template.Annotations) == 0 {
			return
		}
		before := d.ResourceVersion
		d = d.DeepCopy()
		d.Spec.Template.Annotations = nil
		err := watcher.Update(ctx, d, client.FieldOwner("operator"))
		switch {
		case err == nil:
			o.writes.Add(1)
			if d.ResourceVersion != before {
				o.changes.Add(1)
			}
		case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil:
			w.Errorf("the operator: %v", err)
		}
	}
	go func() {
		for event := range watching.ResultChan() {
			if d, ok := event.Object.(*appsv1.Deployment); ok {
				revert(d)
				o.handled.Store(d.ResourceVersion)
			}
		}
	}()
	return o
}

// An operator that takes the pins out of a template changes nothing while the webhook answers: they are back within its request, so
// that there is neither a rollout nor anything for it to see, and no fight.
func TestAnOperatorThatRevertsTemplates(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	operator := w.revertTemplates(ctx, "web")
	operator.idle(w, "web")
	if operator.writes.Load() == 0 {
		t.Error("the operator has not written")
	}
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("the pin is %s, want %s", got, a)
	}
	w.onlyReplicaSets("web", 1)
	w.editTo("B")
	w.Barrier()
	w.onlyReplicaSets("web", 2)
	w.Undo("web")
	w.WaitHeld("web", "web")
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("after the undo the pin is %s, want %s", got, a)
	}
	w.quiet()
	settled := operator.idle(w, "web")
	w.Barrier()
	w.Barrier()
	if more := operator.idle(w, "web") - settled; more > 0 {
		t.Errorf("the operator and confrev fight: %d changes more, after %d", more, settled)
	}
	t.Logf("the operator wrote %d times, and changed something %d times", operator.writes.Load(), operator.changes.Load())
}

// Rules 13, 15: however many edits, the revisions are those of the history; and what a sweep asks for does not grow with the
// objects of the namespace.
func TestASweepPastTheHistoryLimit(t *testing.T) {
	t.Parallel()
	const limit, edits = 2, 6
	w, _ := deployed(t, gen.HistoryLimit(limit), gen.Replicas(0))
	conflicts := 0
	sweep := func(value string, deletes int) (counts map[string]int) {
		mark := auditMark(t)
		w.WaitOwned(w.editTo(value).Revision, "web")
		w.Eventually("the revisions are those of the history", func() string {
			if got := len(w.Revisions("web")); got > limit+1 {
				return fmt.Sprint(got, " revisions")
			}
			return ""
		})
		// What was deleted is gone before the request is noted.
		w.Eventually("the deletion is noted", func() string {
			requests, err := cluster.ConfrevRequests(mark)
			w.Must(err)
			counts, conflicts = map[string]int{}, 0
			for _, r := range requests {
				// Events of the other workloads are from before, and come late.
				if r.Object.Namespace != w.NS || r.Object.Resource == "events" && !strings.HasPrefix(r.Object.Name, "web.") {
					continue
				}
				counts[r.Verb+" "+r.Object.Resource]++
				if r.Response.Code == http.StatusConflict {
					conflicts++
				}
			}
			if counts["delete configmaps"] < deletes {
				return fmt.Sprint(counts)
			}
			return ""
		})
		return counts
	}
	for i := range edits {
		// The first ones have room.
		sweep(fmt.Sprint("edit ", i), min(i/limit, 1))
	}
	made := w.revisionNames("web")
	if len(made) != limit+1 {
		t.Errorf("%d revisions, want %d", len(made), limit+1)
	}
	few := sweep("few", 1)
	for i := range 20 {
		name := fmt.Sprintf("other-%d", i)
		w.Create(configMap(name, "k", "v"), deployment(name, envFrom(name), gen.Replicas(0)))
	}
	for i := range 20 {
		name := fmt.Sprintf("other-%d", i)
		revision := w.WaitPinned(name, name, "k", "v").Revision
		// Or else it is given its owner while requests are counted.
		w.Eventually("the ReplicaSet of "+name, func() string {
			if sets := w.ReplicaSets(name); len(sets) != 1 {
				return fmt.Sprint(len(sets), " ReplicaSets")
			}
			return ""
		})
		w.WaitOwned(revision, name)
		w.waitNoted(name, revision)
	}
	many := sweep("many", 1)
	t.Logf("an edit with its sweep: %v, among many: %v", few, many)
	if few["delete configmaps"] != 1 || many["delete configmaps"] != 1 {
		t.Errorf("deleted %d and %d revisions, want one each", few["delete configmaps"], many["delete configmaps"])
	}
	for what, n := range many {
		// What met a conflict was looked up and tried again.
		allowed := few[what] + 1 + conflicts
		if strings.HasSuffix(what, " events") {
			// Both events of the few may come after they were counted, and so be counted among many.
			allowed += 3
		}
		if n > allowed {
			t.Errorf("%s: %d times among many, %d among few", what, n, few[what])
		}
	}
}

// confrev.io/restart-on follows objects of other kinds, custom ones too.
func TestRestartOnACustomResource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	palette := objectOf(webApp, "palette", map[string]any{"color": "blue", "other": "x"})
	w.Create(palette, configMap("web", "k", "v"),
		deployment("web", envFrom("web"), gen.Annotated("confrev.io/restart-on", "webapps.v1.e2e.confrev.io/palette{.spec.color}")))
	w.WaitPinned("web", "web", "k", "v")
	w.waitFollowed("web", "webapps.v1.e2e.confrev.io/palette")
	change := func(patch string) {
		w.Must(cluster.Client.Patch(w.Ctx, palette, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	change(`{"spec":{"other":"y"}}`)
	w.Barrier()
	if got := w.hashes("web"); got != "" {
		t.Errorf("restarted for a field that it does not name: %s", got)
	}
	change(`{"spec":{"color":"green"}}`)
	w.waitRestarted("web", "webapps.v1.e2e.confrev.io/palette", "")
	w.Barrier()
	w.onlyReplicaSets("web", 2)
}
