package view

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/snapshot"
	"confrev.io/confrev/internal/waiting"
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
	WorkloadRef `json:",inline"`
	Mode        string `json:"mode"`
	// State is the one of its sources' that most needs attention.
	State   State          `json:"state"`
	Message string         `json:"message,omitempty"`
	Sources []SourceStatus `json:"sources,omitempty"`
	// Warnings are what confrev's events would say: reason and note.
	Warnings []Warning `json:"warnings,omitempty"`

	// resumes is true when confrev itself ends the pause that it is in.
	resumes bool
	// inferred is true when a hold is not noted on the workload. Then it may be none: kinds are listed and watched one by one, and a
	// ReplicaSet that is seen before the change to its Deployment looks like one that was rolled back from.
	inferred bool
}

// NeedsAction reports whether a person has to act.
func (w *WorkloadStatus) NeedsAction() bool {
	switch w.State {
	case Paused:
		return !w.resumes
	case Waiting:
		return slices.ContainsFunc(w.Sources, func(s SourceStatus) bool {
			return s.State == Waiting && (s.WaitsFor == nil || !s.WaitsFor.endsByItself())
		})
	}
	return w.State.needsAction()
}

// SourceStatus is one source of a workload.
type SourceStatus struct {
	// Source is as confrev.io/track takes it: configmap/app.
	Source string `json:"source"`
	// Pinned is what the template is pinned to, Current what has the source's present content. In mode restart they are hashes.
	Pinned  *RevisionName `json:"pinned,omitempty"`
	Current *RevisionName `json:"current,omitempty"`
	State   State         `json:"state"`
	Message string        `json:"message,omitempty"`
	// WaitsFor is what the source waits for, if a setting makes it wait.
	WaitsFor *WaitsFor `json:"waitsFor,omitempty"`
	// Policy is that of the source where it is rotate.
	Policy string `json:"policy,omitempty"`
	// Pods counts the pods by the revision that they carry.
	Pods []PodCount `json:"pods,omitempty"`
}

// WaitsFor is what a source waits for before it advances (rule 32).
type WaitsFor struct {
	Reason waiting.Reason `json:"reason"`
	// Setting is where it is written: "annotation confrev.io/window of configmap/app".
	Setting string `json:"setting"`
	// Until is when the wait ends by itself.
	Until *metav1.Time `json:"until,omitempty"`
	// Invalid is true if the setting cannot be read.
	Invalid bool `json:"invalid,omitempty"`
}

// endsByItself reports whether no one has to act.
func (w *WaitsFor) endsByItself() bool {
	return w.Until != nil || slices.Contains([]waiting.Reason{waiting.Stage, waiting.Wave, waiting.Baking, waiting.Budget}, w.Reason)
}

func waitsFor(wait waiting.Wait) *WaitsFor {
	if wait.Reason == "" {
		return nil
	}
	w := &WaitsFor{Reason: wait.Reason, Setting: wait.By, Invalid: wait.Invalid}
	if !wait.Until.IsZero() {
		w.Until = &metav1.Time{Time: wait.Until}
	}
	return w
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

// Warning is what confrev warns of. A notice is not a fault: a user asked for it.
type Warning struct {
	Reason string `json:"reason"`
	Note   string `json:"note"`
	Notice bool   `json:"notice,omitempty"`
}

// Which says which workloads are asked about: those with names, or else all of some kinds, or of any, with some labels.
type Which struct {
	Objects []Object
	Labels  labels.Selector
}

// Named reports whether workloads are asked about by name. Those are shown whether or not confrev follows them.
func (w Which) Named() bool { return len(w.Objects) > 0 && w.Objects[0].Name != "" }

// Status returns the status of workloads.
func (v *View) Status(ctx context.Context, which Which) (*StatusList, error) {
	list, err := v.status(ctx, which)
	if err != nil || !list.inferred() {
		return list, err
	}
	// What is listed after the holders were seen has the changes that they come from.
	if err := v.take(ctx); err != nil {
		return nil, err
	}
	return v.status(ctx, which)
}

func (v *View) status(ctx context.Context, which Which) (*StatusList, error) {
	looks, err := v.choose(which)
	if err != nil {
		return nil, err
	}
	list := &StatusList{TypeMeta: typeMeta("StatusList"), Items: []WorkloadStatus{}}
	for _, l := range looks {
		look, err := v.Assess(ctx, l.Kind, l.Workload)
		if apierrors.IsForbidden(err) {
			item := statusOf(look)
			item.State, item.Message = Unknown, err.Error()
			list.Items = append(list.Items, item)
			continue
		}
		if err != nil {
			return nil, err
		}
		if look.Follows || which.Named() {
			item := statusOf(look)
			item.judge(v, look)
			list.Items = append(list.Items, item)
		}
	}
	slices.SortFunc(list.Items, func(a, b WorkloadStatus) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload))
	})
	list.Notes = v.Notes
	return list, nil
}

func (v *View) choose(which Which) ([]rollout.Assessment, error) {
	if !which.Named() {
		return slices.DeleteFunc(v.Workloads(), func(l rollout.Assessment) bool {
			ofKind := len(which.Objects) == 0 || slices.ContainsFunc(which.Objects, func(o Object) bool { return o.GroupKind == l.Kind.GVK.GroupKind() })
			return !ofKind || which.Labels != nil && !which.Labels.Matches(labels.Set(l.Workload.GetLabels()))
		}), nil
	}
	var looks []rollout.Assessment
	for _, o := range which.Objects {
		look, err := v.findWorkload(o)
		if err != nil {
			return nil, err
		}
		looks = append(looks, look)
	}
	return looks, nil
}

// Follow calls changed with the status of workloads, and again after each change to the cluster, until it is done, or ctx ends. When
// a user waits, what is missing is looked at again before it is believed, since that would end the wait.
func (v *View) Follow(ctx context.Context, which Which, waiting bool, changed func(*StatusList) (done bool, err error)) error {
	confirmed := false
	step := func() (bool, error) {
		list, err := v.status(ctx, which)
		if err != nil {
			return false, err
		}
		doubtful := list.inferred() || waiting && list.missing()
		if doubtful && !confirmed {
			confirmed = true
			return false, snapshot.ErrStale
		}
		confirmed = doubtful
		return changed(list)
	}
	return v.follow(ctx, nil, step)
}

// follow takes a step, and again after each change to the cluster and at each tick, until it is done or ctx ends.
func (v *View) follow(ctx context.Context, tick <-chan time.Time, step func() (done bool, err error)) error {
	for {
		done, err := step()
		if err == nil && !done {
			err = v.Snapshot.Follow(ctx, v.live, tick, step)
		}
		if !errors.Is(err, snapshot.ErrStale) {
			return err
		}
		if err := v.take(ctx); err != nil {
			return err
		}
	}
}

func (l *StatusList) inferred() bool {
	return slices.ContainsFunc(l.Items, func(w WorkloadStatus) bool { return w.inferred })
}

// missing reports whether some source is not there. Kinds are listed and watched one by one, so it may only not be seen yet.
func (l *StatusList) missing() bool {
	return slices.ContainsFunc(l.Items, func(w WorkloadStatus) bool { return w.State == Missing })
}

// Done reports whether nothing is left to do.
func (l *StatusList) Done() bool {
	return !slices.ContainsFunc(l.Items, func(w WorkloadStatus) bool { return !w.State.Done() })
}

// NeedsAction reports whether a person has to act on some workload.
func (l *StatusList) NeedsAction() bool {
	return slices.ContainsFunc(l.Items, func(w WorkloadStatus) bool { return w.NeedsAction() })
}

// Failed reports whether a rollout failed.
func (l *StatusList) Failed() bool {
	return slices.ContainsFunc(l.Items, func(w WorkloadStatus) bool { return w.State == Failed })
}

// statusOf returns the status of a workload of which nothing is known yet.
func statusOf(look rollout.Assessment) WorkloadStatus {
	return WorkloadStatus{WorkloadRef: refOf(look), Mode: look.Config.Mode.Name}
}

func (w *WorkloadStatus) judge(v *View, look rollout.Assessment) {
	p := v.progress(look)
	w.resumes = p.resumes
	moves := func(d plan.Decision) bool { return d.From != d.To }
	if (p.failed || p.needs) && slices.ContainsFunc(slices.Concat(look.Pins.Decisions, look.Hashes.Decisions), moves) {
		// That is the rollout of the template as it is, and the next write begins another.
		p.failed, p.needs, p.rolling = false, false, "another source is not pinned yet"
	}
	for _, d := range look.Pins.Decisions {
		w.Sources = append(w.Sources, p.source(d))
	}
	// Pods carry no hashes.
	p.pods = nil
	for _, d := range look.Hashes.Decisions {
		source := p.source(d)
		if look.Rotates(d.Source) {
			source.Policy = optin.PolicyRotate.Name
		}
		w.Sources = append(w.Sources, source)
	}
	w.addRest(look)
	w.inferred = inferred(look.Workload, w.Sources)
	w.State = worst(w.Sources)
	if len(look.Pins.Decisions)+len(look.Hashes.Decisions) == 0 && look.Config.Mode.Attaches && look.Config.Track.Enabled() {
		w.State, w.Message = p.rollout()
	}
	if i := slices.IndexFunc(w.Sources, func(s SourceStatus) bool { return s.State == w.State }); i >= 0 {
		w.Message = w.Sources[i].Message
	}
	for _, warning := range look.Warnings {
		w.Warnings = append(w.Warnings, Warning{Reason: warning.Reason, Note: warning.Text, Notice: warning.Normal})
	}
}

// addRest adds the pins of which nothing was decided: their sources may not be seen, or are not tracked any more.
func (w *WorkloadStatus) addRest(look rollout.Assessment) {
	for _, source := range look.Template.Sources() {
		if slices.ContainsFunc(w.Sources, func(s SourceStatus) bool { return s.Source == source.String() }) {
			continue
		}
		rest := SourceStatus{Source: source.String(), Pinned: revisionName(look.Template[source]), State: Untracked}
		if look.Hidden && source.Kind == pin.Secret {
			rest.State, rest.Message = Unknown, "you may not list Secrets"
		}
		w.Sources = append(w.Sources, rest)
	}
	slices.SortFunc(w.Sources, func(a, b SourceStatus) int { return cmp.Compare(a.Source, b.Source) })
}

func (p progress) source(d plan.Decision) SourceStatus {
	result := SourceStatus{Source: d.Source.String(), Pinned: revisionName(d.From), Current: revisionName(d.Current), WaitsFor: waitsFor(d.Wait)}
	result.State, result.Message = p.judge(d)
	counts := map[pin.Pin]int{}
	for _, pod := range p.pods {
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
func (v *View) progress(look rollout.Assessment) progress {
	p := progress{}
	for _, roller := range look.Rollers {
		far := roller.Kind.Progress(roller.Object)
		if p.rolling == "" || far.Failed && !p.failed {
			p.rolling = far.Left
		}
		p.failed, p.needs = p.failed || far.Failed, p.needs || far.NeedsAction
		if isPaused(roller) {
			p.paused = "spec.paused is set"
		}
	}
	if waits := look.Workload.GetAnnotations()[keys.Paused]; waits != "" && p.paused != "" {
		p.paused, p.resumes = "confrev paused it at its creation, until there is "+waits, true
	}
	// Pods of Jobs end with the configuration that they began with; others live on and are replaced.
	if look.Kind.RunsJobs() || !v.seesPods() {
		return p
	}
	pods, err := v.Pods(look)
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

// inferred reports whether some hold is not noted on the workload.
func inferred(obj client.Object, sources []SourceStatus) bool {
	notes := obj.GetAnnotations()
	return slices.ContainsFunc(sources, func(s SourceStatus) bool {
		return s.State == Held && !strings.Contains(notes[keys.Held]+","+notes[keys.HeldHashes], s.Source+"=")
	})
}

// Remark returns what is to be said of a source.
func (s *SourceStatus) Remark() string {
	if s.Message == "" && s.Policy != "" {
		return rotates
	}
	return s.Message
}
