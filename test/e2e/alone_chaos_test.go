//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

// guard watches a namespace and notes every revision that goes while a living holder pins it.
type guard struct {
	*world
	client client.WithWatch

	mu     sync.Mutex
	faults []string
	gone   int
}

// watchRevisions guards the namespace until the test ends; the faults are complete once its context has ended.
func (w *world) watchRevisions(ctx context.Context) (*guard, *sync.WaitGroup) {
	w.Helper()
	c, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	w.Must(err)
	events, err := c.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(w.NS))
	w.Must(err)
	g := &guard{world: w, client: c}
	var done sync.WaitGroup
	done.Go(func() {
		for event := range events.ResultChan() {
			if cm, ok := event.Object.(*corev1.ConfigMap); ok && event.Type == watch.Deleted && revision.IsRevision(cm) {
				g.check(ctx, cm)
			}
			if event.Type == watch.Error {
				g.broken(ctx, apierrors.FromObject(event.Object))
			}
		}
		g.broken(ctx, errors.New("it ended"))
	})
	return g, &done
}

// broken notes that the watch has broken, unless its context has ended: nothing that goes later is seen.
func (g *guard) broken(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = append(g.faults, fmt.Sprintf("the watch of revisions broke: %v", err))
}

// check asks who pinned a revision at the very moment in which it went: what came later, on a busy machine seconds later,
// found it gone and had it made again. A holder that is itself going does not count.
func (g *guard) check(ctx context.Context, cm *corev1.ConfigMap) {
	holders := &appsv1.ReplicaSetList{}
	then := &client.ListOptions{Raw: &metav1.ListOptions{
		ResourceVersion: cm.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}}
	err := g.client.List(ctx, holders, client.InNamespace(g.NS), then)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone++
	if err != nil && !errors.Is(err, context.Canceled) {
		g.faults = append(g.faults, err.Error())
	}
	for _, rs := range holders.Items {
		if rs.DeletionTimestamp == nil && pinsRevision(rs.Spec.Template.Annotations[keys.Pins], cm.Name) {
			g.faults = append(g.faults, fmt.Sprintf("%s went while ReplicaSet %s pins it", cm.Name, rs.Name))
		}
	}
}

func pinsRevision(text, name string) bool {
	pins, err := pin.Parse(text)
	if err != nil {
		return false
	}
	for _, p := range pins {
		if p.Revision == name {
			return true
		}
	}
	return false
}

// Rules 5, 12, 13 under a random user: no revision that a holder pins is ever deleted, and none that no one pins stays.
// Not parallel: the random user also kills confrev.
func TestRandomUserLosesNoRevision(t *testing.T) {
	w := newWorld(t)
	sources, deployments := []string{"one", "two"}, []string{"a", "b", "c"}
	for _, s := range sources {
		w.Create(configMap(s, "k", "0"))
	}
	for _, d := range deployments {
		w.Create(deployment(d, envFrom(sources...), gen.Replicas(1), gen.HistoryLimit(2), gen.Annotated(keys.Settle, "50ms")))
	}
	for _, d := range deployments {
		w.WaitPinned(d, "one", "k", "0")
	}
	ctx, cancel := context.WithCancel(t.Context())
	g, done := w.watchRevisions(ctx)

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w.actAtRandom(rand.New(rand.NewPCG(seed, 0)), sources, deployments)

	for i, s := range sources {
		w.Edit(s, "k", fmt.Sprintf("end-%d", i))
	}
	for _, d := range deployments {
		for i, s := range sources {
			w.WaitPinned(d, s, "k", fmt.Sprintf("end-%d", i))
		}
	}
	w.onlyUsedRevisionsRemain(sources)
	cancel()
	done.Wait()
	t.Logf("%d revisions went", g.gone)
	for _, fault := range g.faults {
		t.Error(fault)
	}
	if g.gone == 0 {
		t.Error("no revision went at all; this test shows nothing")
	}
}

// actAtRandom does what users and machines do, in no order.
func (w *world) actAtRandom(random *rand.Rand, sources, deployments []string) {
	w.Helper()
	one := func(names []string) string { return names[random.IntN(len(names))] }
	for range 80 {
		switch random.IntN(10) {
		case 0, 1, 2, 3:
			w.Edit(one(sources), "k", fmt.Sprint(random.IntN(4)))
		case 4, 5:
			_, err := cluster.Kubectl(w.Ctx, "--namespace", w.NS, "rollout", "undo", "deployment/"+one(deployments))
			// There may be nothing to go back to.
			if err != nil && !strings.Contains(err.Error(), "no rollout history found for deployment") {
				w.Must(err)
			}
		case 6:
			w.Kubectl("set", "image", "deployment/"+one(deployments), fmt.Sprintf("app=app:%d", random.IntN(3)))
		case 7:
			w.Must(cluster.Client.DeleteAllOf(w.Ctx, &corev1.Pod{}, client.InNamespace(w.NS)))
		case 8:
			w.Must(confrev.Kill())
			w.Must(confrev.Start(w.Ctx))
		case 9:
			w.Kubectl("label", "configmap", one(sources), fmt.Sprintf("l=%d", random.IntN(3)), "--overwrite")
		}
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
	}
}

// onlyUsedRevisionsRemain waits until each revision is pinned by some ReplicaSet, and each pinned one exists.
func (w *world) onlyUsedRevisionsRemain(sources []string) {
	w.Helper()
	w.Eventually("the revisions are those that ReplicaSets pin", func() string {
		holders := &appsv1.ReplicaSetList{}
		w.Must(cluster.Client.List(w.Ctx, holders, client.InNamespace(w.NS)))
		pinned := map[string]bool{}
		for _, rs := range holders.Items {
			pins, err := pin.Parse(rs.Spec.Template.Annotations[keys.Pins])
			w.Must(err)
			for _, p := range pins {
				pinned[p.Revision] = true
			}
		}
		for _, s := range sources {
			for _, r := range w.Revisions(s) {
				if !pinned[r.Name] {
					return r.Name + " is pinned by no one"
				}
				delete(pinned, r.Name)
			}
		}
		for name := range pinned {
			if err := w.Get(name, &corev1.ConfigMap{}); apierrors.IsNotFound(err) {
				return name + " is pinned and does not exist"
			}
		}
		return ""
	})
}
