//go:build chaos

package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// entry is a version of an object, or its end.
type entry struct {
	version int64
	event   watch.EventType
	ref     ref
	uid     types.UID
	obj     *unstructured.Unstructured
	at      time.Time
}

// journal has everything that happened to the objects of a namespace, as watches show it, one version after the other. The API server
// leaves none out, and all kinds share one sequence of resourceVersions.
type journal struct {
	namespace string
	done      sync.WaitGroup

	mu      sync.Mutex
	entries []entry
	// latest has the newest version of each object that exists.
	latest map[types.UID]int64
	// lost has the revisions in use that went, as the rules say that they may.
	lost map[ref]bool
	// wrong is what must not be, found while it happened.
	wrong []string
}

func newJournal(namespace string) *journal {
	return &journal{namespace: namespace, latest: map[types.UID]int64{}, lost: map[ref]bool{}}
}

// watcher watches, and reads what was; its connections are those of all plays.
var watcher = sync.OnceValues(func() (client.WithWatch, error) {
	return client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme(), Mapper: cluster.Client.RESTMapper()})
})

func listOf(kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	gvk := kinds[kind]
	gvk.Kind += "List"
	list.SetGroupVersionKind(gvk)
	return list
}

// follow writes the journal until the context ends.
func (j *journal) follow(ctx context.Context) error {
	c, err := watcher()
	if err != nil {
		return err
	}
	for _, kind := range watchedKinds {
		events, err := c.Watch(ctx, listOf(kind), client.InNamespace(j.namespace))
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind, err)
		}
		j.done.Go(func() {
			for event := range events.ResultChan() {
				j.see(ctx, event)
			}
			if ctx.Err() == nil {
				j.complain("the watch of %s ended, so the test may have missed something", kind)
			}
		})
	}
	return nil
}

func (j *journal) complain(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

// found returns what was found wrong so far.
func (j *journal) found() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.wrong)
}

func (j *journal) see(ctx context.Context, event watch.Event) {
	obj, ok := event.Object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Error {
		if ctx.Err() == nil {
			j.complain("a watch says %v", event.Object)
		}
		return
	}
	version, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		j.complain("a watch says %s with resourceVersion %q", refOf(obj), obj.GetResourceVersion())
		return
	}
	obj.SetManagedFields(nil)
	e := entry{version: version, event: event.Type, ref: refOf(obj), uid: obj.GetUID(), obj: obj, at: time.Now()}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.entries = append(j.entries, e)
	j.latest[e.uid] = version
	if event.Type != watch.Deleted {
		return
	}
	delete(j.latest, e.uid)
	if isRevision(obj) {
		j.done.Go(func() { j.checkGone(ctx, e) })
	}
}

// complete waits until the journal has everything that was before it was asked.
func (p *play) complete() error {
	c, err := watcher()
	if err != nil {
		return err
	}
	var complaint string
	for _, kind := range watchedKinds {
		list := listOf(kind)
		complaint = p.Poll(p.Patience, func() string {
			if err = c.List(p.Ctx, list, client.InNamespace(p.NS)); err != nil {
				return err.Error()
			}
			return p.lacks(kind, list)
		})
		if complaint != "" {
			return errors.New(complaint)
		}
	}
	return nil
}

// lacks returns what of a list the journal does not have, or has although it is not in the list.
func (j *journal) lacks(kind string, list *unstructured.UnstructuredList) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := map[types.UID]int64{}
	for _, e := range j.entries {
		if version, ok := j.latest[e.uid]; ok && e.ref.kind() == kind {
			now[e.uid] = version
		}
	}
	for _, item := range list.Items {
		version, err := strconv.ParseInt(item.GetResourceVersion(), 10, 64)
		if err != nil || now[item.GetUID()] < version {
			return fmt.Sprintf("the watch has not shown %s@%s yet", refOf(&item), item.GetResourceVersion())
		}
		delete(now, item.GetUID())
	}
	if len(now) > 0 {
		return fmt.Sprintf("the watch of %s has not shown yet that these went: %v", kind, slices.Collect(maps.Keys(now)))
	}
	return ""
}

// sorted returns all entries in the order in which they happened.
func (j *journal) sorted() []entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := slices.Clone(j.entries)
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(a.version, b.version) })
	return all
}

// newest returns the version of the last entry so far.
func (j *journal) newest() (version int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.entries {
		version = max(version, e.version)
	}
	return version
}

// String returns the journal for a person: what changed when, with pins and data, and who changed it.
func (p *play) journalText() string {
	var b strings.Builder
	for _, e := range p.sorted() {
		who := "-"
		if step, ok := p.byUser(e.version); ok {
			who = "step " + strconv.Itoa(step)
		}
		fmt.Fprintf(&b, "%s %d %-8s %-40s %s %s\n", e.at.Format("15:04:05.000"), e.version, e.event, e.ref, who, describe(e))
	}
	return b.String()
}

func describe(e entry) string {
	annotations := e.obj.GetAnnotations()
	confrev := []string{}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if name, ok := strings.CutPrefix(key, "confrev.io/"); ok {
			confrev = append(confrev, name+"="+annotations[key])
		}
	}
	text := fmt.Sprintf("generation=%d %s", e.obj.GetGeneration(), strings.Join(confrev, " "))
	if template := templateOf(e.obj); template != nil {
		text += fmt.Sprintf(" template: %s reads %v", pinsText(template), references(template["spec"]))
	} else if data, ok := e.obj.Object["data"]; ok {
		text += fmt.Sprintf(" data: %v owners: %d", data, len(e.obj.GetOwnerReferences()))
	}
	return text
}
