//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/analysis"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
)

// conducted watches how a change spreads over workloads, and ends confrev after each of its writes.
type conducted struct {
	*world
	// source is the ConfigMap that changes, and first is the pin of it that all have before.
	source string
	first  pin.Pin
	limit  int

	mu sync.Mutex
	// writes are those of confrev: who took the change and went back, which waves were recorded, what was analyzed, and which pods were evicted.
	writes []string
	// versions are the resourceVersions by which their order is known: the watches show them in any.
	versions map[string]uint64
	// inFlight are the Deployments in the middle of the change, most is how many there were at most, and faults is what must not be.
	inFlight map[string]bool
	most     int
	// seen has what a fault is explained with: how the Deployments that have the change looked, one after the other.
	seen   []string
	faults []string
	// crash gets a write after which confrev is to end.
	crash chan string
}

// conduct follows a change to a source that all have pinned as first, in the world's namespace and others. end ends that, and reports what must
// not have been; no more than limit Deployments may be in the middle of the change.
func (w *world) conduct(source string, first pin.Pin, limit int, others ...string) (c *conducted, end func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Ctx)
	c = &conducted{world: w, source: source, first: first, limit: limit, inFlight: map[string]bool{}, versions: map[string]uint64{}, crash: make(chan string, 100)}
	done := c.follow(ctx, others...)
	return c, func() {
		w.Helper()
		w.Barrier()
		cancel()
		done.Wait()
		slices.SortStableFunc(c.writes, func(a, b string) int { return cmp.Compare(c.versions[a], c.versions[b]) })
		w.Logf("at most %d in the middle of the change, written: %q", c.most, c.writes)
		for _, fault := range c.faults {
			w.Error(fault)
		}
	}
}

// wroteOnly checks that each write contains one of these texts, in this order.
func (c *conducted) wroteOnly(wants ...string) {
	c.Helper()
	for i, want := range wants {
		if len(c.writes) != len(wants) || !strings.Contains(c.writes[i], want) {
			c.Fatalf("confrev wrote %q, want %q", c.writes, wants)
		}
	}
}

// follow notes what the API server shows of the change, in the world's namespace and others, until ctx ends.
func (c *conducted) follow(ctx context.Context, others ...string) *sync.WaitGroup {
	c.Helper()
	live, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	c.Must(err)
	var watched []watch.Interface
	for _, namespace := range append(others, c.NS) {
		runs := &unstructured.UnstructuredList{}
		runs.SetGroupVersionKind(analysis.RunKind)
		for _, kind := range []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &corev1.ConfigMapList{}, &corev1.PodList{}, runs} {
			events, err := live.Watch(ctx, kind, client.InNamespace(namespace))
			c.Must(err)
			watched = append(watched, events)
		}
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
			c.wrote(o, record)
		}
	case *unstructured.Unstructured:
		c.wrote(o, "analysis "+o.GetName())
	case *corev1.Pod:
		// Controllers delete pods too, and evict none.
		if slices.ContainsFunc(o.Status.Conditions, func(condition corev1.PodCondition) bool { return condition.Type == corev1.DisruptionTarget }) {
			c.wrote(o, o.Name+" is evicted")
		}
	case *appsv1.StatefulSet:
		c.takes(o, c.pinOf(o.Spec.Template.Annotations))
	case *appsv1.Deployment:
		p := c.pinOf(o.Spec.Template.Annotations)
		if delete(c.inFlight, o.Name); !c.takes(o, p) {
			return
		}
		if !slices.ContainsFunc(o.Status.Conditions, func(condition appsv1.DeploymentCondition) bool { return condition.Reason == "NewReplicaSetAvailable" }) ||
			o.Status.ObservedGeneration < o.Generation {
			c.inFlight[o.Name] = true
		}
		c.seen = append(c.seen, fmt.Sprintf("%s %s@%s: %s, generation %d, %+v", time.Now().Format(time.StampMilli), o.Name, o.ResourceVersion, p, o.Generation, o.Status))
		if c.most = max(c.most, len(c.inFlight)); len(c.inFlight) > c.limit {
			c.faults = append(c.faults, fmt.Sprintf("%d are in the middle of the change: %v\n%s", len(c.inFlight), c.inFlight, strings.Join(c.seen, "\n")))
			c.seen = nil
		}
	}
}

// pinOf returns the pin of the source that changes.
func (c *conducted) pinOf(annotations map[string]string) pin.Pin {
	pins, err := pin.Parse(annotations[keys.Pins])
	if err != nil {
		c.faults = append(c.faults, err.Error())
	}
	return pins[pin.Source{Kind: pin.ConfigMap, Name: c.source}]
}

// takes notes that a workload takes the change, or goes back from it. It reports whether it has the change.
func (c *conducted) takes(workload client.Object, p pin.Pin) bool {
	name := workload.GetName()
	if p == c.first && slices.ContainsFunc(c.writes, func(write string) bool { return strings.HasPrefix(write, name+" takes") }) {
		c.wrote(workload, name+" goes back")
	}
	if p == c.first || p == (pin.Pin{}) {
		return false
	}
	c.wrote(workload, fmt.Sprintf("%s takes %s", name, p))
	return true
}

// wrote notes a write of an object, once.
func (c *conducted) wrote(obj client.Object, what string) {
	if !slices.Contains(c.writes, what) {
		version, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
		if err != nil {
			c.faults = append(c.faults, err.Error())
		}
		c.writes, c.versions[what] = append(c.writes, what), version
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
	c, endConduct := w.conduct("shared", first, 2)
	w.Edit("shared", "color", "B")
	// Six Deployments take the change, and three waves pass.
	const points = 9
	c.endAfterEach(points)
	w.allHave(first, names...)
	w.areRolledOut(names...)
	endConduct()
	if len(c.writes) != points {
		t.Errorf("confrev wrote %q", c.writes)
	}
	// Who took the change when, in relation to the waves that were recorded.
	at := func(what string) int {
		return slices.IndexFunc(c.writes, func(write string) bool { return write[:min(len(write), len(what))] == what })
	}
	passed := func(wave int) int {
		return slices.IndexFunc(c.writes, func(write string) bool { return strings.Contains(write, fmt.Sprintf(`"number":2,"wave":%d,`, wave)) })
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
	first := w.fleet(map[string]string{keys.Steps: "1", keys.OnFailure: "undo"}, names...)
	c, endConduct := w.conduct("shared", first, 1)
	end := w.noProgress("a")
	w.Edit("shared", "color", "B")
	// One Deployment takes the change, the change is stopped, and the Deployment goes back.
	c.endAfterEach(3)
	end()
	w.goesBack("a", first)
	endConduct()
	c.wroteOnly("a takes", `"stops":1,"failed":["deployment/a@`, "a goes back")
	if have := w.have(first, names...); len(have) > 0 {
		t.Errorf("%v have the change", have)
	}
}

// Rule 43: confrev ends after each write of a change that fails its analysis: there is one analysis, one stop and one undo.
func TestConfrevEndsAfterEachWriteOfAnAnalysis(t *testing.T) {
	w := newWorld(t)
	first := w.fleet(map[string]string{keys.Steps: "1", keys.OnFailure: "undo"}, "a", "b")
	// Without a pod, the Job of the analysis fails at its deadline.
	w.measures(fails + "\n          parallelism: 0")
	w.Kubectl("annotate", "deployment/a", keys.Analysis+"=smoke")
	c, endConduct := w.conduct("shared", first, 1)
	w.Edit("shared", "color", "B")
	// One Deployment takes the change, its analysis is made, the change is stopped, and the Deployment goes back.
	c.endAfterEach(4)
	w.goesBack("a", first)
	endConduct()
	c.wroteOnly("a takes", "analysis a-smoke-", `"stops":1,"failed":["deployment/a@`, "a goes back")
	if have := w.have(first, "a", "b"); len(have) > 0 {
		t.Errorf("%v have the change", have)
	}
}

// Rule 42: confrev ends after each write of a change that crashes in a StatefulSet: it is stopped and undone once, and only the stuck pod is evicted.
func TestConfrevEndsAfterEachWriteUpToAnEviction(t *testing.T) {
	w := newWorld(t)
	a, first := w.launch(complete(aStatefulSet)[0], "web")
	w.Kubectl("annotate", "configmap/"+a.conf, keys.OnFailure+"=undo", keys.Bake+"=1h")
	c, endConduct := w.conduct(a.conf, first.conf, 0)
	a.Edit(a.conf, sourceKey, "B")
	// The StatefulSet takes the change, the change is stopped, the StatefulSet goes back, and its pod is evicted.
	c.endAfterEach(1)
	// Whatever is not ready is evicted: only one is to be.
	a.Eventually("it is rolled out", a.rollingOut)
	stuck := w.crash(pin.Source{Kind: pin.ConfigMap, Name: a.conf}, a.pinned().conf, crashing(2))
	c.endAfterEach(3)
	a.allRead(first)
	endConduct()
	c.wroteOnly("web takes", `"stops":1,"failed":["statefulset/web@`, "web goes back", stuck.Name+" is evicted")
}

// Rule 38: after whichever first pin confrev ends, it continues where it was, and never do too many roll out.
func TestFirstPinsSurviveEachEnd(t *testing.T) {
	w := newWorld(t)
	names := []string{"a", "b", "c", "d", "e", "f"}
	w.unadopted(map[string]string{keys.MaxRolling: "2"}, nil, names...)
	c, endConduct := w.conduct("shared", pin.Pin{}, 2)
	w.adopt()
	c.endAfterEach(len(names))
	w.pinnedAre(names, names...)
	w.areRolledOut(names...)
	endConduct()
	if len(c.writes) != len(names) || c.most == 0 {
		t.Errorf("at most %d rolled out; confrev wrote %q", c.most, c.writes)
	}
}
