package audit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

const (
	// margin is that of the simulated audits.
	margin = 180 * time.Second
	// maxDelay is how much older than its start what a container reads may be, and maxSkew how wrong a node's clock is. Together they
	// are less than the margin.
	maxDelay, maxSkew = 150, 15
)

var (
	manager   = managedfieldstest.NewFakeFieldManager(managedfields.NewDeducedTypeConverter(), corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	epoch     = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	allKeys   = []string{"color", "level"}
	allValues = []string{"blue", "green", "red"}
)

// history simulates one ConfigMap with the API server's own code for managed fields, and pods that read it.
type history struct {
	*rapid.T
	now     int
	version int
	live    *unstructured.Unstructured
	// states are the contents, each with the second from which on it was there.
	states []state
	pods   []*reader
}

type state struct {
	from    int
	content map[string]string
	// unrecorded is true if keys were removed, and nothing records when.
	unrecorded bool
}

// reader is a pod of one container, and what it read.
type reader struct {
	pod  *corev1.Pod
	read podspec.Read
	got  map[string]string
	// first is the state that the kubelet got for the pod.
	first int
	// unnoticed is true after a write that removed keys and left no time, which a later write to the pod or to metadata hides.
	removed, unnoticed bool
}

func (h *history) time() metav1.Time {
	return metav1.NewTime(epoch.Add(time.Duration(h.now) * time.Second))
}

func (h *history) write() string {
	h.version++
	return strconv.Itoa(h.version)
}

func (h *history) content() map[string]string {
	data, _, _ := unstructured.NestedStringMap(h.live.Object, "data")
	return data
}

// create creates the ConfigMap.
func (h *history) create() {
	h.live = &unstructured.Unstructured{Object: map[string]any{}}
	h.live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	next := h.live.DeepCopy()
	next.SetName("app")
	next.SetCreationTimestamp(h.time())
	for _, key := range allKeys {
		set(next, key, rapid.SampledFrom(allValues).Draw(h.T, "value"))
	}
	h.stored(manager.Update(h.live, next, "creator"))
}

func set(obj *unstructured.Unstructured, key, value string) {
	if obj.Object["data"] == nil {
		// An apply that removes all keys leaves null, which the API server does not keep.
		delete(obj.Object, "data")
	}
	if err := unstructured.SetNestedField(obj.Object, value, "data", key); err != nil {
		panic(err)
	}
}

// stored takes what the API server stores, at the simulated time: its own code has set the real one.
func (h *history) stored(obj runtime.Object, err error) {
	if err != nil {
		h.Fatal(err)
	}
	h.live = obj.(*unstructured.Unstructured)
	entries := h.live.GetManagedFields()
	for i := range entries {
		if at := h.time(); entries[i].Time != nil && entries[i].Time.Year() > epoch.Year() {
			entries[i].Time = &at
		}
	}
	h.live.SetManagedFields(entries)
	h.live.SetResourceVersion(h.write())
	h.states = append(h.states, state{from: h.now, content: h.content()})
}

// edit changes some keys, as kubectl edit does: sets, and removes.
func (h *history) edit() {
	next := h.live.DeepCopy()
	set1, removed := false, false
	for _, key := range allKeys {
		switch rapid.IntRange(0, 3).Draw(h.T, "edit "+key) {
		case 0:
			before := h.content()[key]
			value := rapid.SampledFrom(allValues).Draw(h.T, "value")
			set(next, key, value)
			set1 = set1 || before != value
		case 1:
			_, had := h.content()[key]
			removed = removed || had
			unstructured.RemoveNestedField(next.Object, "data", key)
		}
	}
	h.stored(manager.Update(h.live, next, rapid.SampledFrom([]string{"creator", "kubectl-edit"}).Draw(h.T, "editor")))
	h.unrecorded(removed && !set1)
}

// apply applies some keys on the server's side: keys of an earlier apply that are missing are removed.
func (h *history) apply() {
	applied := &unstructured.Unstructured{Object: map[string]any{}}
	applied.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	applied.SetName("app")
	empty := true
	for _, key := range allKeys {
		if rapid.Bool().Draw(h.T, "apply "+key) {
			set(applied, key, rapid.SampledFrom(allValues).Draw(h.T, "value"))
			empty = false
		}
	}
	before := h.content()
	h.stored(manager.Apply(h.live, applied, "applier", true))
	after := h.content()
	// The entry of an apply of nothing owns no content.
	h.unrecorded(empty && len(after) < len(before))
}

// unrecorded notes whether the last write removed keys and left no time.
func (h *history) unrecorded(is bool) {
	h.states[len(h.states)-1].unrecorded = is
	for _, pod := range h.pods {
		pod.removed = pod.removed || is
	}
}

// annotate changes metadata only.
func (h *history) annotate() {
	next := h.live.DeepCopy()
	next.SetAnnotations(map[string]string{"note": strconv.Itoa(h.version)})
	h.stored(manager.Update(h.live, next, "labeler"))
	h.hide(h.pods...)
}

// hide notes that a write hides a removal before it.
func (h *history) hide(pods ...*reader) {
	for _, pod := range pods {
		pod.unnoticed = pod.unnoticed || pod.removed
	}
}

// start starts a pod, for which the kubelet gets the ConfigMap, or the container of one again.
func (h *history) start(again *reader) {
	r := again
	at := len(h.states) - 1
	if r != nil {
		at = h.readable(r.first)
	} else {
		r = &reader{first: at, read: podspec.Read{Source: gen.Source("configmap/app"), Container: "app", Way: podspec.Env}}
		r.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("pod-", len(h.pods)), CreationTimestamp: h.time()}}
		if rapid.Bool().Draw(h.T, "one key") {
			r.read.Keys = []string{"color"}
		}
		h.pods = append(h.pods, r)
	}
	skew := rapid.IntRange(-maxSkew, maxSkew).Draw(h.T, "skew")
	started := metav1.NewTime(h.time().Add(time.Duration(skew) * time.Second))
	r.got = h.states[at].content
	// It may still have read what was there before an unrecorded removal.
	r.removed = slices.ContainsFunc(h.states[at+1:], func(s state) bool { return s.unrecorded })
	r.pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}}}}
	r.unnoticed = r.removed
	h.status(r)
}

// readable returns the state that the kubelet reads for a pod that it has had before: that of a while ago,
// or a later one, and none before the first that it got for the pod.
func (h *history) readable(first int) int {
	oldest := len(h.states) - 1
	for oldest > first && h.states[oldest].from > h.now-maxDelay {
		oldest--
	}
	return rapid.IntRange(oldest, len(h.states)-1).Draw(h.T, "reads state")
}

// status writes to a pod as the kubelet does.
func (h *history) status(r *reader) {
	at := h.time()
	r.pod.ResourceVersion = h.write()
	r.pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: &at}}
	// Its own removals are hidden by it, and those of others only for this pod: nothing else bounds the time.
	h.hide(r)
}

// stale reports whether a container has another content than there is now, of what it reads.
func (h *history) stale(r *reader) bool {
	if r.read.Keys == nil {
		return !maps.Equal(r.got, h.content())
	}
	return slices.ContainsFunc(r.read.Keys, func(key string) bool {
		was, had := r.got[key]
		is, has := h.content()[key]
		return was != is || had != has
	})
}

// explained reports whether a time of the ConfigMap's managed fields is as late as the last write to a pod, so that a removal seems to
// be that write.
func (h *history) explained(r *reader) bool {
	written := r.pod.ManagedFields[0].Time.Add(-second)
	return slices.ContainsFunc(h.live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Time != nil && !e.Time.Time.Before(written) })
}

// audit returns an auditor of what the API shows of the history.
func (h *history) audit() *auditor {
	meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "app", CreationTimestamp: h.live.GetCreationTimestamp(), ResourceVersion: h.live.GetResourceVersion(),
		ManagedFields: h.live.GetManagedFields(),
	}}
	snapshot := Snapshot{Margin: margin, Sources: []Source{NewSource(pin.ConfigMap, meta, false)}}
	for _, r := range h.pods {
		snapshot.Pods = append(snapshot.Pods, NewPod(r.pod))
	}
	return newAuditor(snapshot)
}

func (h *history) step() {
	h.now += rapid.IntRange(0, 400).Draw(h.T, "seconds")
	some := func() *reader {
		if len(h.pods) == 0 {
			return nil
		}
		return rapid.SampledFrom(h.pods).Draw(h.T, "pod")
	}
	switch rapid.IntRange(0, 8).Draw(h.T, "step") {
	case 0, 1:
		h.edit()
	case 2:
		h.apply()
	case 3:
		h.annotate()
	case 4, 5:
		h.start(nil)
	case 6:
		h.start(some())
	case 7:
		if r := some(); r != nil {
			h.status(r)
		}
	case 8:
		h.create()
	}
}

// Rules 25 to 27: whatever happened before, a container that has old content is reported. The API server's own code writes the managed
// fields. The exception is what it does not record: a removal of keys that a later write hides (rule 26).
func TestNoStaleContainerIsTakenForAFreshOne(t *testing.T) {
	var stale, missed, quiet int
	rapid.Check(t, func(t *rapid.T) {
		h := &history{T: t}
		h.create()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			h.step()
		}
		a := h.audit()
		for i, r := range h.pods {
			v := a.judge(&a.Pods[i], r.read)
			unnoticed := r.unnoticed || r.removed && h.explained(r)
			switch {
			case h.stale(r) && v.reason == "" && !unnoticed:
				t.Fatalf("%s started with %v, the content is %v, and nothing is reported", r.pod.Name, r.got, h.content())
			case h.stale(r) && v.reason == "":
				missed++
			case h.stale(r):
				stale++
			case v.reason == "":
				quiet++
			}
		}
	})
	t.Logf("%d stale containers were reported, %d were not because nothing recorded a removal; %d fresh ones were not reported", stale, missed, quiet)
	if stale == 0 || quiet == 0 {
		t.Error("the histories show nothing")
	}
}
