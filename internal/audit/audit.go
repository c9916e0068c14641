// Package audit finds what users of a cluster may not know about their configuration: which pods started before what they read last
// changed, what a rollout in progress shares, what no change would restart (rules 24 to 31). It takes what a user may see, and returns
// findings. It is pure: it must not import a client, a clock or a context.
package audit

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/workload"
)

// DefaultMargin is how long after a change a container may still have read the old content (rule 27). The kubelet updates files
// within 90 s (syncFrequency of 1 minute, plus a half), and a kubelet that polls repeats what it read for another minute.
const DefaultMargin = 3 * time.Minute

// Snapshot is what a user may see of a namespace, or of all.
type Snapshot struct {
	Pods      []Pod
	Workloads []Workload
	Holders   []Holder
	Sources   []Source
	// Named are sources that objects other than pods and templates name: ServiceAccounts and Ingresses.
	Named []Ref
	// Hidden are the kinds of sources that the user may not list.
	Hidden map[pin.Kind]bool
	// HiddenUsers are the kinds, in the plural, that may name sources and that the user may not list.
	HiddenUsers []string
	// LeftAlone are the namespaces whose workloads confrev does not touch (rule 18).
	LeftAlone []string
	// PodsHidden is true if the user may not list pods.
	PodsHidden bool
	// Margin is how long after a change a container may still have read the old content.
	Margin time.Duration
}

// Ref names a source of a namespace.
type Ref struct {
	Namespace string
	pin.Source
}

// Workload is one object with a pod template.
type Workload struct {
	Kind            workload.Kind
	Namespace, Name string
	UID             types.UID
	Created         time.Time
	// Template is the pod template, which is another object's if this one refers to it.
	Template *corev1.PodTemplateSpec
	// Config is what annotations and labels ask for, including those of Reloader and Wave.
	Config optin.Config
	// Annotations are those of the workload.
	Annotations map[string]string
	// Lender is the object whose template it uses; empty if it has its own.
	Lender types.UID
	// LendsTemplate is true if another workload uses this one's template instead of it.
	LendsTemplate bool
}

// String returns the form that kubectl takes: "deployment/web".
func (w *Workload) String() string { return w.Kind.Resource() + "/" + w.Name }

// Holder is an object that keeps a template, and pods of it.
type Holder struct {
	Namespace string
	UID       types.UID
	// Controller is the UID of the workload; empty if it has none.
	Controller types.UID
	// Names are all ConfigMaps and Secrets that its template names.
	Names []pin.Source
}

// auditor is an audit on its way.
type auditor struct {
	Snapshot
	sources   map[Ref]*Source
	workloads map[types.UID]*Workload
	holders   map[types.UID]*Holder
	// pods are the live ones of each workload.
	pods map[*Workload][]*Pod
	// oldest has, for each source and node, when the oldest of the pods was created that read the source there.
	oldest   map[onNode]time.Time
	clock    clock
	findings findings
	summary  Summary
}

type onNode struct {
	Ref
	node string
}

// Run returns what a snapshot shows.
func Run(snapshot Snapshot) Report {
	a := newAuditor(snapshot)
	a.judgePods()
	for i := range a.Workloads {
		w := &a.Workloads[i]
		if slices.Contains(a.LeftAlone, w.Namespace) {
			continue
		}
		a.judgeRollout(w)
		a.judgeRestarts(w)
		a.judgePatterns(w)
	}
	a.judgeCopies()
	return Report{Summary: a.summarize(), Findings: a.findings.sorted()}
}

func newAuditor(snapshot Snapshot) *auditor {
	a := &auditor{
		Snapshot: snapshot, sources: map[Ref]*Source{}, workloads: map[types.UID]*Workload{}, holders: map[types.UID]*Holder{},
		pods: map[*Workload][]*Pod{}, oldest: map[onNode]time.Time{}, clock: newClock(snapshot.Pods),
	}
	a.index()
	return a
}

func (a *auditor) index() {
	for i := range a.Sources {
		a.sources[a.Sources[i].Ref] = &a.Sources[i]
	}
	for i := range a.Workloads {
		a.workloads[a.Workloads[i].UID] = &a.Workloads[i]
	}
	for i := range a.Holders {
		a.holders[a.Holders[i].UID] = &a.Holders[i]
	}
	for i := range a.Pods {
		pod := &a.Pods[i]
		if !pod.Live {
			continue
		}
		if w := a.workloadOf(pod); w != nil {
			a.pods[w] = append(a.pods[w], pod)
		}
		for _, read := range pod.Reads {
			at := onNode{Ref{pod.Namespace, read.Source}, pod.Node}
			if before, known := a.oldest[at]; !known || pod.Created.Before(before) {
				a.oldest[at] = pod.Created
			}
		}
	}
}

// workloadOf returns the workload that a pod belongs to; nil if it is not known.
func (a *auditor) workloadOf(pod *Pod) *Workload {
	if w := a.workloads[pod.Owner.UID]; w != nil {
		return w
	}
	if holder := a.holders[pod.Owner.UID]; holder != nil {
		return a.workloads[holder.Controller]
	}
	return nil
}

// counted returns the number of a workload's live pods; -1 if it is not known.
func (a *auditor) counted(w *Workload) int {
	holders := strings.ToLower(w.Kind.Holder.GVK.Kind) + "s"
	if a.PodsHidden || len(a.pods[w]) == 0 && slices.Contains(a.HiddenUsers, holders) {
		return -1
	}
	return len(a.pods[w])
}

// reads returns how a workload's template reads sources, except those that the cluster itself keeps writing.
func (w *Workload) reads() []podspec.Read {
	if w.Template == nil {
		return nil
	}
	// Malformed pins have injected nothing.
	pins, _ := pin.Parse(w.Template.Annotations[keys.Pins])
	return userReads(podspec.Original(&w.Template.Spec, pins))
}
