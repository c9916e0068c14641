//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
)

// conducted watches how a change spreads over Deployments, and ends confrev after each of its writes.
type conducted struct {
	*world
	first pin.Pin
	limit int

	mu sync.Mutex
	// writes are those of confrev: who took the change, and which waves were recorded.
	writes []string
	// inFlight are the Deployments in the middle of the change, most is how many there were at most, and faults is what must not be.
	inFlight map[string]bool
	most     int
	// seen has what a fault is explained with: how the Deployments that have the change looked, one after the other.
	seen   []string
	faults []string
	// crash gets a write after which confrev is to end.
	crash chan string
}

// follow notes what the API server shows of the change, in the world's namespace and others, until ctx ends.
func (c *conducted) follow(ctx context.Context, others ...string) *sync.WaitGroup {
	c.Helper()
	live, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	c.Must(err)
	var watched []watch.Interface
	for _, namespace := range append(others, c.NS) {
		deployments, err := live.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(namespace))
		c.Must(err)
		revisions, err := live.Watch(ctx, &corev1.ConfigMapList{}, client.InNamespace(namespace))
		c.Must(err)
		watched = append(watched, deployments, revisions)
	}
	var done sync.WaitGroup
	for _, events := range watched {
		done.Go(func() {
			for event := range events.ResultChan() {
				if obj, ok := event.Object.(client.Object); ok {
					c.see(obj)
				} else if ctx.Err() == nil {
					c.fault(fmt.Sprintf("the watch says %v", event.Object))
				}
			}
			if ctx.Err() == nil {
				c.fault("a watch ended, so writes may have been missed")
			}
		})
	}
	return &done
}

func (c *conducted) fault(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, what)
}

func (c *conducted) see(obj client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		if record := o.Annotations[keys.Propagation]; record != "" {
			c.wrote(record)
		}
	case *appsv1.Deployment:
		pins, err := pin.Parse(o.Spec.Template.Annotations[keys.Pins])
		if err != nil {
			c.faults = append(c.faults, err.Error())
		}
		p := pins[pin.Source{Kind: pin.ConfigMap, Name: "shared"}]
		if p == c.first && slices.ContainsFunc(c.writes, func(write string) bool { return strings.HasPrefix(write, o.Name+" takes") }) {
			c.wrote(o.Name + " goes back")
		}
		if p == c.first || p == (pin.Pin{}) {
			delete(c.inFlight, o.Name)
			return
		}
		c.wrote(fmt.Sprintf("%s takes %s", o.Name, p))
		done := o.Status.ObservedGeneration >= o.Generation &&
			slices.ContainsFunc(o.Status.Conditions, func(condition appsv1.DeploymentCondition) bool { return condition.Reason == "NewReplicaSetAvailable" })
		if delete(c.inFlight, o.Name); !done {
			c.inFlight[o.Name] = true
		}
		c.seen = append(c.seen, fmt.Sprintf("%s %s@%s: %s, generation %d, %+v", time.Now().Format(time.StampMilli), o.Name, o.ResourceVersion, p, o.Generation, o.Status))
		if c.most = max(c.most, len(c.inFlight)); len(c.inFlight) > c.limit {
			c.faults = append(c.faults, fmt.Sprintf("%d are in the middle of the change: %v\n%s", len(c.inFlight), c.inFlight, strings.Join(c.seen, "\n")))
			c.seen = nil
		}
	}
}

// wrote notes a write, once.
func (c *conducted) wrote(what string) {
	if !slices.Contains(c.writes, what) {
		c.writes = append(c.writes, what)
		c.crash <- what
	}
}

// endAfterEach ends confrev after each of so many writes, and starts it again.
func (c *conducted) endAfterEach(points int) {
	c.Helper()
	crashes := 0
	c.Eventually("each write was followed by an end", func() string {
		select {
		case what := <-c.crash:
			c.Must(confrev.Kill())
			crashes++
			c.Logf("confrev ended after: %s", what)
			c.Must(confrev.Start(c.Ctx))
		default:
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.faults) > 0 {
			c.Fatal(c.faults)
		}
		if crashes < points {
			return fmt.Sprintf("%d writes: %q", crashes, c.writes)
		}
		return ""
	})
}

// Rules 37 and 38: confrev ends after each of its writes, and starts again. No wave begins too early, no more are in the middle of the change than
// may, and the end is the same.
func TestConfrevEndsAfterEachWriteOfAChangeThatSpreads(t *testing.T) {
	w := newWorld(t)
	names := []string{"a", "b", "c", "d", "e", "f"}
	settings := map[string]string{keys.Steps: "1,4", keys.MaxRolling: "2", keys.Bake: "1s"}
	first := w.fleet(settings, names...)
	ctx, cancel := context.WithCancel(t.Context())
	c := &conducted{world: w, first: first, limit: 2, inFlight: map[string]bool{}, crash: make(chan string, 100)}
	done := c.follow(ctx)
	w.Edit("shared", "color", "B")
	// Six Deployments take the change, and two waves before the last pass.
	const points = 8
	c.endAfterEach(points)
	w.allHave(first, names...)
	w.areRolledOut(names...)
	w.Barrier()
	cancel()
	done.Wait()
	t.Logf("%d crash points, at most %d in the middle of the change", points, c.most)
	for _, fault := range c.faults {
		t.Error(fault)
	}
	if len(c.writes) != points {
		t.Errorf("confrev wrote %q", c.writes)
	}
	// Who took the change when, in relation to the waves that were recorded.
	at := func(what string) int {
		return slices.IndexFunc(c.writes, func(write string) bool { return write[:min(len(write), len(what))] == what })
	}
	passed := func(wave int) int {
		return slices.IndexFunc(c.writes, func(write string) bool {
			return slices.Contains([]string{fmt.Sprintf(`"wave":%d}`, wave)}, write[max(0, len(write)-len(`"wave":1}`)):])
		})
	}
	for _, name := range []string{"b", "c", "d"} {
		if at(name+" takes") < passed(1) {
			t.Errorf("%s took the change before wave 1 was recorded: %q", name, c.writes)
		}
	}
	for _, name := range []string{"e", "f"} {
		if at(name+" takes") < passed(2) {
			t.Errorf("%s took the change before wave 2 was recorded: %q", name, c.writes)
		}
	}
	if passed(1) < 0 || passed(2) < 0 || at("a takes") > passed(1) {
		t.Errorf("the writes are %q", c.writes)
	}
}

// Rule 40: confrev ends after each write of a change that fails, and starts again: the change is stopped and undone once, and no one else gets it.
func TestConfrevEndsAfterEachWriteOfAChangeThatFails(t *testing.T) {
	w := newWorld(t)
	names := []string{"a", "b"}
	first := w.impatient(map[string]string{keys.Steps: "1", keys.OnFailure: "undo"}, names...)
	ctx, cancel := context.WithCancel(t.Context())
	c := &conducted{world: w, first: first, limit: 1, inFlight: map[string]bool{}, crash: make(chan string, 100)}
	done := c.follow(ctx)
	end := w.noMorePods()
	w.Edit("shared", "color", "B")
	// One Deployment takes the change, the change is stopped, and the Deployment goes back.
	const points = 3
	c.endAfterEach(points)
	end()
	w.goesBack("a", first)
	w.Barrier()
	cancel()
	done.Wait()
	t.Logf("%d crash points: %q", points, c.writes)
	for _, fault := range c.faults {
		t.Error(fault)
	}
	if len(c.writes) != points || !strings.HasPrefix(c.writes[0], "a takes") || !strings.Contains(c.writes[1], `"stops":1,"failed":["deployment/a"]`) || c.writes[2] != "a goes back" {
		t.Errorf("confrev wrote %q", c.writes)
	}
	if have := w.have(first, names...); len(have) > 0 {
		t.Errorf("%v have the change", have)
	}
}
