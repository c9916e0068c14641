package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
)

// SpreadList is what `status configmap/app` prints as JSON and YAML.
type SpreadList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []SpreadStatus `json:"items"`
	Notes           []string       `json:"notes,omitempty"`
}

// SpreadState is how far the present content of a source has spread.
type SpreadState string

// The states of a change.
const (
	// Complete: every workload has it that takes it by itself.
	Complete SpreadState = "Complete"
	// Underway: it continues by itself.
	Underway SpreadState = "Underway"
	// Unproven: no one in a wave can show whether it is good, so a person decides.
	Unproven SpreadState = "Unproven"
	// Stopped: it goes no further until it is resumed.
	Stopped SpreadState = "Stopped"
)

// SpreadStatus is how far the present content of one source has spread.
type SpreadStatus struct {
	Namespace string `json:"namespace"`
	// Source is as confrev.io/track takes it: configmap/app.
	Source string `json:"source"`
	// Revision is that of the present content. It is nil if no workload takes changes to the source.
	Revision *RevisionName `json:"revision,omitempty"`
	State    SpreadState   `json:"state"`
	Message  string        `json:"message,omitempty"`
	// Setting is where it is written that changes spread; empty if they reach all workloads at once.
	Setting string `json:"setting,omitempty"`
	// After is the namespace that has to vouch for the change first, while it has not.
	After string `json:"after,omitempty"`
	// MaxRolling is how many workloads may be in the middle of the change; 0 if there is no limit. InFlight is how many are.
	MaxRolling int `json:"maxRolling,omitempty"`
	InFlight   int `json:"inFlight"`
	// Vouched and Members count the workloads that have stayed healthy with the change, and all that take it by themselves.
	Vouched int `json:"vouched"`
	Members int `json:"members"`
	// Wave is the one that is open, from 1 on, and Waves has all of them whose members have not left.
	Wave  int          `json:"wave,omitempty"`
	Waves []WaveStatus `json:"waves,omitempty"`
	// Apart are workloads that do not take the change by themselves.
	Apart []MemberStatus `json:"apart,omitempty"`
	// FirstPins are workloads that wait for their first pin, or roll it out. FirstPinsAtOnce is how many may at the same time; 0 if there is no limit.
	FirstPins       []MemberStatus `json:"firstPins,omitempty"`
	FirstPinsAtOnce int            `json:"firstPinsAtOnce,omitempty"`
}

// WaveStatus is one wave of a change.
type WaveStatus struct {
	Wave    int            `json:"wave"`
	Passed  bool           `json:"passed"`
	Members []MemberStatus `json:"members"`
}

// MemberStatus is how far one workload is with a change.
type MemberStatus struct {
	Workload string       `json:"workload"`
	Stage    spread.Stage `json:"stage"`
	// Until is when it vouches, if it stays healthy.
	Until   *metav1.Time `json:"until,omitempty"`
	Message string       `json:"message,omitempty"`
}

// Spreads returns how far the present content of sources has spread.
func (v *View) Spreads(ctx context.Context, objects []Object) (*SpreadList, error) {
	list := &SpreadList{TypeMeta: typeMeta("SpreadList"), Items: []SpreadStatus{}}
	for _, o := range objects {
		source, is := o.Source()
		if !is || o.Name == "" {
			return nil, fmt.Errorf("%s is not the name of a source: name a ConfigMap or Secret, such as configmap/app", o.Resource)
		}
		if err := v.known(source, o); err != nil {
			return nil, err
		}
		s, err := v.Spread(ctx, v.namespace, source)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, spreadStatus(s))
	}
	list.Notes = v.Notes
	return list, nil
}

// lookAgain is how often to look at how far a change has spread although nothing that is watched has changed.
const lookAgain = 2 * time.Second

// FollowSpreads calls changed with how far sources have spread, and again after each change to the cluster, until it is done or ctx ends.
func (v *View) FollowSpreads(ctx context.Context, objects []Object, changed func(*SpreadList) (done bool, err error)) error {
	step := func() (bool, error) {
		list, err := v.Spreads(ctx, objects)
		if err != nil {
			return false, err
		}
		return changed(list)
	}
	// That a workload stays healthy for long enough, and that an analysis ends, is no change to what is watched.
	return v.follow(ctx, time.Tick(lookAgain), step)
}

// Spread surveys the workloads that use a source.
func (p *Planner) Spread(ctx context.Context, namespace string, source pin.Source) (*fleet.Survey, error) {
	return p.fleet.Look(ctx, revision.Ref{Kind: source.Kind, Namespace: namespace, Name: source.Name})
}

func spreadStatus(s *fleet.Survey) SpreadStatus {
	status := SpreadStatus{
		Namespace: s.Source.Namespace, Source: s.Source.Text(), Revision: revisionName(s.Current), Setting: s.Settings.By, MaxRolling: s.Budget,
		InFlight: s.Count(spread.Rolling, spread.Failed, spread.Unwell, spread.Baking), Vouched: s.Count(spread.Vouched), Members: s.Members(),
	}
	if s.Behind {
		status.After = s.Settings.Follows()
	}
	for i, wave := range s.Waves {
		status.Waves = append(status.Waves, WaveStatus{Wave: s.Number(i), Passed: i < s.Open, Members: memberStatuses(wave.Members)})
	}
	status.Apart = memberStatuses(s.Apart)
	if status.FirstPins = memberStatuses(s.FirstPins()); len(status.FirstPins) > 0 {
		status.FirstPinsAtOnce = s.FirstBudget
	}
	if len(s.Waves) > 0 {
		status.Wave = s.Number(s.Open)
	}
	status.State, status.Message = spreadState(s)
	return status
}

func spreadState(s *fleet.Survey) (SpreadState, string) {
	switch {
	case s.Stops() > 0:
		return Stopped, fmt.Sprintf("%s failed with it; to continue anyway: kubectl confrev resume %s -n %s", strings.Join(s.Record.FailedMembers(), ", "),
			s.Source.Text(), s.Source.Namespace)
	case s.Stopped:
		return Stopped, fmt.Sprintf("to continue: kubectl confrev resume %s -n %s", s.Source.Text(), s.Source.Namespace)
	case s.Done() && s.Members() > 0:
		return Complete, forOthers(s)
	case s.Done():
		return Complete, "no workload is to get it any more"
	case s.Behind:
		return Underway, fmt.Sprintf("it waits until namespace %s has vouched for it: kubectl confrev status %s -n %s; to continue anyway: kubectl confrev advance %s --past-stage -n %s",
			s.Settings.Follows(), s.Source.Text(), s.Settings.Follows(), s.Source.Text(), s.Source.Namespace)
	case s.Open < len(s.Waves)-1 && s.Waves[s.Open].Unproven():
		return Unproven, fmt.Sprintf("no one in wave %d can show whether it is good; to continue: kubectl confrev advance %s --past-wave %d -n %s",
			s.Number(s.Open), s.Source.Text(), s.Number(s.Open), s.Source.Namespace)
	}
	return Underway, ""
}

func memberStatuses(members []spread.Member) []MemberStatus {
	var all []MemberStatus
	for _, m := range members {
		status := MemberStatus{Workload: m.Name, Stage: m.Stage, Message: m.Why}
		if !m.Until.IsZero() {
			status.Until = &metav1.Time{Time: m.Until}
		}
		all = append(all, status)
	}
	return all
}

// Metadata returns the name of the source as an object of its kind.
func (s *SpreadStatus) Metadata() *metav1.PartialObjectMetadata {
	source, err := pin.ParseSource(s.Source)
	if err != nil {
		// It is the name of an object that exists.
		return nil
	}
	return nameOnly(revision.GVK(source.Kind), s.Namespace, source.Name)
}

// Done reports whether nothing is left to do for any of the sources.
func (l *SpreadList) Done() bool {
	return !slices.ContainsFunc(l.Items, func(s SpreadStatus) bool { return s.State != Complete })
}

// NeedsAction reports whether a person has to act on any of the sources.
func (l *SpreadList) NeedsAction() bool {
	return slices.ContainsFunc(l.Items, func(s SpreadStatus) bool { return s.State == Stopped || s.State == Unproven })
}

// forOthers returns why the namespaces that come next still wait, although the change is complete here.
func forOthers(s *fleet.Survey) string {
	if !s.Settings.Leads || s.Vouches() {
		return ""
	}
	against := s.Against()
	if len(against) == 0 {
		return "no workload could show whether it is good, so the namespaces that come next wait"
	}
	return fmt.Sprintf("the namespaces that come next wait, because %s did not get well with it", strings.Join(against, ", "))
}
