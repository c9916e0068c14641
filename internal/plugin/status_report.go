package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/controller"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/workload"
)

// StatusList is what `status` prints as JSON and YAML.
type StatusList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []WorkloadStatus `json:"items"`
	// Notes say what is not shown, and why.
	Notes []string `json:"notes,omitempty"`
}

// WorkloadStatus is one workload: the one that has the pod template.
type WorkloadStatus struct {
	Namespace string `json:"namespace"`
	// Workload is as kubectl takes it: deployment/web.
	Workload string `json:"workload"`
	Mode     string `json:"mode"`
	// State is the one of its sources' that most needs attention.
	State   state          `json:"state"`
	Message string         `json:"message,omitempty"`
	Sources []SourceStatus `json:"sources,omitempty"`
	// Warnings are what confrev's events would say: reason and note.
	Warnings []Warning `json:"warnings,omitempty"`

	kind workload.Kind
	obj  client.Object
	// resumes is true when confrev itself ends the pause that it is in.
	resumes bool
}

// stays reports whether a person has to act.
func (w *WorkloadStatus) stays() bool {
	return w.State.stays() && (w.State != statePaused || !w.resumes)
}

// SourceStatus is one source of a workload.
type SourceStatus struct {
	// Source is as confrev.io/track takes it: configmap/app.
	Source string `json:"source"`
	// Pinned is what the template is pinned to, Current what has the source's present content. In mode restart they are hashes.
	Pinned  *RevisionName `json:"pinned,omitempty"`
	Current *RevisionName `json:"current,omitempty"`
	State   state         `json:"state"`
	Message string        `json:"message,omitempty"`
	// Policy is that of the source where it is rotate.
	Policy string `json:"policy,omitempty"`
	// Pods counts the pods by the revision that they carry.
	Pods []PodCount `json:"pods,omitempty"`
}

// RevisionName names a revision.
type RevisionName struct {
	Name   string `json:"name"`
	Number int64  `json:"number"`
}

// PodCount is how many pods carry a revision; without one they read the source itself.
type PodCount struct {
	Revision *RevisionName `json:"revision,omitempty"`
	Count    int           `json:"count"`
}

// Warning is what confrev warns of. A notice is no fault: somebody asked for it to be so.
type Warning struct {
	Reason string `json:"reason"`
	Note   string `json:"note"`
	Notice bool   `json:"notice,omitempty"`
}

type statusReport struct {
	list      StatusList
	notes     []string
	namespace string
	all       bool
	// inferred is true when some hold is read off the holders alone, since no note says so yet.
	inferred bool
}

// add adds a workload, as far as it could be looked at.
func (r *statusReport) add(s *scope, look controller.Look, err error) {
	item := WorkloadStatus{
		Namespace: look.Workload.GetNamespace(), Workload: look.String(),
		Mode: string(look.Asked.Mode), kind: look.Kind, obj: look.Workload,
	}
	if err != nil {
		item.State, item.Message = stateUnknown, err.Error()
	} else {
		item.judge(s, look)
		r.inferred = r.inferred || item.inferred()
	}
	r.list.Items = append(r.list.Items, item)
}

// inferred tells whether a hold is not noted on the workload. Then it may be none: kinds are listed and watched one by one, and a
// ReplicaSet that is seen before the change of its Deployment looks like one that was rolled back from.
func (w *WorkloadStatus) inferred() bool {
	return slices.ContainsFunc(w.Sources, func(s SourceStatus) bool {
		notes := w.obj.GetAnnotations()
		return s.State == stateHeld && !strings.Contains(notes[keys.Held]+","+notes[keys.HeldHashes], s.Source+"=")
	})
}

func (w *WorkloadStatus) judge(s *scope, look controller.Look) {
	p := s.progress(look)
	w.resumes = p.resumes
	var all []state
	for _, d := range look.Pins.Decisions {
		w.Sources = append(w.Sources, p.source(d, p.pods))
	}
	withoutPods := p
	withoutPods.pods = nil
	for _, d := range look.Hashes.Decisions {
		source := withoutPods.source(d, nil)
		if look.Rotates(d.Source) {
			source.Policy = string(optin.PolicyRotate)
		}
		w.Sources = append(w.Sources, source)
	}
	w.addRest(look)
	for _, source := range w.Sources {
		all = append(all, source.State)
	}
	w.State = worst(all)
	if len(look.Pins.Decisions)+len(look.Hashes.Decisions) == 0 && look.Asked.Mode == optin.Attach && look.Asked.Track.Enabled() {
		w.State, w.Message = p.rollout()
	}
	if i := slices.IndexFunc(w.Sources, func(s SourceStatus) bool { return s.State == w.State }); i >= 0 {
		w.Message = w.Sources[i].Message
	}
	for _, warning := range look.Warnings {
		w.Warnings = append(w.Warnings, Warning(warning))
	}
}

// addRest adds the pins of which nothing was decided: their sources may not be seen, or are not tracked any more.
func (w *WorkloadStatus) addRest(look controller.Look) {
	for _, source := range look.Template.Sources() {
		if slices.ContainsFunc(w.Sources, func(s SourceStatus) bool { return s.Source == source.String() }) {
			continue
		}
		rest := SourceStatus{Source: source.String(), Pinned: revisionName(look.Template[source]), State: stateUntracked}
		if look.Hidden && source.Kind == pin.Secret {
			rest.State, rest.Message = stateUnknown, "you may not list Secrets"
		}
		w.Sources = append(w.Sources, rest)
	}
	slices.SortFunc(w.Sources, func(a, b SourceStatus) int { return cmp.Compare(a.Source, b.Source) })
}

// source judges one source.
func (p progress) source(d plan.Decision, pods []pin.Set) SourceStatus {
	result := SourceStatus{Source: d.Source.String(), Pinned: revisionName(d.From), Current: revisionName(d.Current)}
	result.State, result.Message = p.judge(d)
	counts := map[pin.Pin]int{}
	for _, pod := range pods {
		counts[pod[d.Source]]++
	}
	newest := func(a, b pin.Pin) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), cmp.Compare(a.Revision, b.Revision))
	}
	for _, carried := range slices.SortedFunc(maps.Keys(counts), newest) {
		result.Pods = append(result.Pods, PodCount{revisionName(carried), counts[carried]})
	}
	return result
}

func revisionName(p pin.Pin) *RevisionName {
	if p == (pin.Pin{}) {
		return nil
	}
	return &RevisionName{p.Revision, p.Number}
}

// progress finds out how far a workload's controllers and pods are.
func (s *scope) progress(look controller.Look) progress {
	p := progress{advance: look.Asked.Advance}
	for _, roller := range look.Rollers {
		far := roller.Kind.Progress(roller.Object)
		if p.rolling == "" || far.Failed && !p.failed {
			p.rolling = far.Left
		}
		p.failed, p.needs = p.failed || far.Failed, p.needs || far.NeedsAction
		if roller.Kind.Paused(roller.Object) {
			p.paused = "spec.paused is set"
		}
	}
	if waits := look.Workload.GetAnnotations()[keys.Paused]; waits != "" && p.paused != "" {
		p.paused, p.resumes = "confrev paused it at its creation, until there is "+waits, true
	}
	if !runsOn(look.Kind) || !s.seesPods() {
		return p
	}
	pods, err := s.Pods(look)
	if err != nil {
		return p
	}
	for _, pod := range pods {
		// Malformed pins are refused at the pod's creation, so these are none.
		pins, _ := pin.Parse(pod.GetAnnotations()[keys.Pins])
		p.pods = append(p.pods, pins)
	}
	return p
}

func (r *statusReport) sort() {
	slices.SortFunc(r.list.Items, func(a, b WorkloadStatus) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload))
	})
}

func (r *statusReport) done() bool {
	return !slices.ContainsFunc(r.list.Items, func(w WorkloadStatus) bool { return !w.State.done() })
}

func (r *statusReport) stays() bool {
	return slices.ContainsFunc(r.list.Items, func(w WorkloadStatus) bool { return w.stays() })
}

// status is the exit status of what is shown.
func (r *statusReport) status() int {
	if slices.ContainsFunc(r.list.Items, func(w WorkloadStatus) bool { return w.State == stateFailed }) {
		return statusFailed
	}
	return statusNotYet
}

// missing reports whether some source is not there. Kinds are listed and watched one by one, so it may only not be seen yet.
func (r *statusReport) missing() bool {
	return slices.ContainsFunc(r.list.Items, func(w WorkloadStatus) bool { return w.State == stateMissing })
}

// since says of which sources only keys have changed that a workload does not use: its numbers differ, and nothing is wrong.
func (r *statusReport) since() []string {
	var notes []string
	for _, w := range r.list.Items {
		for _, s := range w.Sources {
			if s.Message == onlyUnused {
				notes = append(notes, fmt.Sprintf("%s stays on revision %s of %s: %s", w.Workload, s.Pinned.number(), s.Source, onlyUnused))
			}
		}
	}
	if more := len(notes) - shownLeft; more > 0 {
		notes = append(notes[:shownLeft], fmt.Sprintf("and %d more; -o wide shows them", more))
	}
	return notes
}

func (r *statusReport) object() any {
	r.list.TypeMeta = metav1.TypeMeta{APIVersion: outputVersion, Kind: "StatusList"}
	r.list.Notes = r.notes
	if r.list.Items == nil {
		r.list.Items = []WorkloadStatus{}
	}
	return &r.list
}

func (r *statusReport) named() []runtime.Object {
	var all []runtime.Object
	for _, item := range r.list.Items {
		all = append(all, nameOnly(item.kind, item.obj))
	}
	return all
}

// nameOnly gives an object that prints as kubectl names it: deployment.apps/web.
func nameOnly(kind workload.Kind, obj client.Object) runtime.Object {
	about := &metav1.PartialObjectMetadata{}
	about.SetGroupVersionKind(kind.GVK)
	about.Name, about.Namespace = obj.GetName(), obj.GetNamespace()
	return about
}

func (r *statusReport) table() *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: columns(
		[]string{"Workload", "Source", "Pinned", "Current", "State", "Pods"}, "Mode", "Revision", "Message")}
	for _, w := range r.list.Items {
		if len(w.Sources) == 0 {
			table.Rows = append(table.Rows, row(w.Namespace, w.Workload, "<none>", "-", "-", string(w.State), "-", w.Mode, "-", orDash(w.Message)))
		}
		for _, s := range w.Sources {
			table.Rows = append(table.Rows, row(w.Namespace, w.Workload, s.Source, s.Pinned.number(), s.Current.number(), string(s.State),
				podsText(s.Pods), w.Mode, s.Pinned.name(), orDash(s.remark())))
		}
	}
	return table
}

// remark is what is to be said of a source.
func (s *SourceStatus) remark() string {
	if s.Message == "" && s.Policy == string(optin.PolicyRotate) {
		return rotates
	}
	return s.Message
}

func (n *RevisionName) number() string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(n.Number)
}

func (n *RevisionName) name() string {
	if n == nil {
		return "-"
	}
	return n.Name
}

func orDash(text string) string { return cmp.Or(text, "-") }

// podsText gives counts of pods: "2@4,1@3".
func podsText(counts []PodCount) string {
	var texts []string
	for _, c := range counts {
		number := "live"
		if c.Revision != nil {
			number = c.Revision.number()
		}
		texts = append(texts, fmt.Sprintf("%d@%s", c.Count, number))
	}
	return orDash(strings.Join(texts, ","))
}
