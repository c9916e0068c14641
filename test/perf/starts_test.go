//go:build perf

package perf

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
)

// starts has what watches show of ConfigMaps, holders and pods. Resource versions are those of one etcd, so that they say what came first.
type starts struct {
	mu sync.Mutex
	// contents are those of each ConfigMap, in order.
	contents map[string][]content
	// holders are ReplicaSets.
	holders map[types.UID]holder
	pods    map[types.UID]started
	faults  []string
}

type content struct {
	version uint64
	value   string
}

type holder struct {
	created uint64
	pins    string
	source  string
}

// started is a pod at the moment in which it first ran.
type started struct {
	holder  types.UID
	reads   string
	running uint64
}

// watchStarts follows the namespace from now on. Pods that run already do not count.
func (w *world) watchStarts() *starts {
	w.Helper()
	s := &starts{contents: map[string][]content{}, holders: map[types.UID]holder{}, pods: map[types.UID]started{}}
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &appsv1.ReplicaSetList{}, &corev1.PodList{}} {
		stream := w.watch(list, nil)
		s.begin(list)
		go func() {
			for event := range stream.ResultChan() {
				s.see(event)
			}
			if w.Ctx.Err() == nil {
				s.fault("a watch ended, so that starts were missed")
			}
		}()
	}
	return s
}

func (s *starts) fault(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, text)
}

// begin notes what there was before the watch.
func (s *starts) begin(list client.ObjectList) {
	switch l := list.(type) {
	case *corev1.ConfigMapList:
		for i := range l.Items {
			s.see(watch.Event{Type: watch.Added, Object: &l.Items[i]})
		}
	case *appsv1.ReplicaSetList:
		for i := range l.Items {
			s.see(watch.Event{Type: watch.Added, Object: &l.Items[i]})
		}
	case *corev1.PodList:
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range l.Items {
			s.pods[l.Items[i].UID] = started{}
		}
	}
}

func (s *starts) see(event watch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, ok := event.Object.(client.Object)
	if !ok {
		s.faults = append(s.faults, fmt.Sprintf("a watch says %v", event.Object))
		return
	}
	version, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		s.faults = append(s.faults, err.Error())
		return
	}
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		value := o.Data["key"]
		if event.Type == watch.Deleted {
			value = "nothing, since it is gone"
		}
		s.contents[o.Name] = append(s.contents[o.Name], content{version, value})
	case *appsv1.ReplicaSet:
		if _, known := s.holders[o.UID]; !known {
			s.holders[o.UID] = holder{created: version, pins: o.Spec.Template.Annotations[keys.Pins], source: readBy(o.Spec.Template.Spec)}
		}
	case *corev1.Pod:
		owner := metav1.GetControllerOf(o)
		if _, known := s.pods[o.UID]; !known && owner != nil && o.Status.Phase == corev1.PodRunning {
			s.pods[o.UID] = started{holder: owner.UID, reads: readBy(o.Spec), running: version}
		}
	}
}

// readBy returns the ConfigMap that the first container reads.
func readBy(spec corev1.PodSpec) string {
	for _, from := range spec.Containers[0].EnvFrom {
		if from.ConfigMapRef != nil {
			return from.ConfigMapRef.Name
		}
	}
	return ""
}

func (s *starts) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, pod := range s.pods {
		if pod.running > 0 {
			n++
		}
	}
	return n
}

// at returns what a ConfigMap had at a version.
func (s *starts) at(name string, version uint64) string {
	value := "nothing, since it does not exist"
	for _, c := range s.contents[name] {
		if c.version <= version {
			value = c.value
		}
	}
	return value
}

// rolledOutWith returns the content that a holder was rolled out with: that of its pin or, where nothing is pinned, what the ConfigMap had when
// the holder was created.
func (s *starts) rolledOutWith(h holder) (string, error) {
	pins, err := pin.Parse(h.pins)
	if err != nil {
		return "", err
	}
	if p, pinned := pins[pin.Source{Kind: pin.ConfigMap, Name: h.source}]; pinned {
		// Revisions are immutable, and this one may be gone by now.
		if made := s.contents[p.Revision]; len(made) > 0 {
			return made[0].value, nil
		}
		return "", fmt.Errorf("no watch showed revision %s", p)
	}
	return s.at(h.source, h.created), nil
}

// wrong returns how many pods started, and how those that started with another content than their holder was rolled out with.
func (s *starts) wrong() (n int, wrong []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range s.pods {
		if pod.running == 0 {
			continue
		}
		h, known := s.holders[pod.holder]
		if !known {
			return 0, nil, fmt.Errorf("no watch showed ReplicaSet %s", pod.holder)
		}
		want, err := s.rolledOutWith(h)
		if err != nil {
			return 0, nil, err
		}
		n++
		if got := s.at(pod.reads, pod.running); got != want {
			wrong = append(wrong, fmt.Sprintf("%s: %s, rolled out with %s", pod.reads, got, want))
		}
	}
	slices.Sort(wrong)
	return n, wrong, nil
}

func (w *world) reportStarts(s *starts) {
	w.Helper()
	for _, fault := range s.faults {
		w.Error(fault)
	}
	var n int
	var wrong []string
	w.Eventually("all watches have caught up", func() string {
		var err error
		if n, wrong, err = s.wrong(); err != nil {
			return err.Error()
		}
		return ""
	})
	t := newTable(w.B, fmt.Sprintf("%d starts of pods", n), "wrong", "share in %", "at most, with 95 %")
	t.row("", len(wrong), 100*float64(len(wrong))/float64(n), 100*upperBound(len(wrong), n))
	t.print()
	for _, example := range wrong[:min(3, len(wrong))] {
		fmt.Println(example)
	}
	figures := measured(w.B, n)
	figures.set("wrong starts", float64(len(wrong)), "")
	figures.set("at most, with 95 %", rounded(100*upperBound(len(wrong), n)), "%")
}

// upperBound returns the share that k of n exceed with a probability of 5 % at most: exact for none, otherwise Wilson's one-sided bound.
func upperBound(k, n int) float64 {
	if k == 0 {
		return 1 - math.Pow(0.05, 1/float64(n))
	}
	const z = 1.6449
	p, m := float64(k)/float64(n), float64(n)
	return (p + z*z/(2*m) + z*math.Sqrt(p*(1-p)/m+z*z/(4*m*m))) / (1 + z*z/m)
}
