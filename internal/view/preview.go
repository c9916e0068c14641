package view

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/overlay"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
)

// Preview is what would become of one workload.
type Preview struct {
	WorkloadRef `json:",inline"`
	RollsOut    bool `json:"rollsOut"`
	// When is what the rollout waits for; empty when it begins at once.
	When     string         `json:"when,omitempty"`
	Template bool           `json:"templateChanges"`
	Sources  []SourceChange `json:"sources,omitempty"`
}

// SourceChange is what would become of one source of a workload.
type SourceChange struct {
	Source  string `json:"source"`
	Verdict string `json:"verdict"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	Because string `json:"because"`
}

// PreviewList has what edits would lead to.
type PreviewList struct {
	metav1.TypeMeta `json:",inline"`
	Workloads       []Preview `json:"workloads"`
	// Changes are those of sources whose changes spread.
	Changes []ChangePreview `json:"changes,omitempty"`
	// Notes say what could not be told.
	Notes []string `json:"notes,omitempty"`
}

// PreviewEdits returns what edits would lead to, for the workloads of their namespaces to which they matter.
func PreviewEdits(ctx context.Context, live client.Client, installed installation.Installation, edits overlay.Edits) (*PreviewList, error) {
	list := &PreviewList{TypeMeta: typeMeta("PreviewList"), Workloads: []Preview{}}
	v := &View{Installation: installed, Notes: installed.Notes()}
	for _, namespace := range edits.Namespaces() {
		found, changes, err := v.forecast(ctx, live, namespace, edits)
		if err != nil {
			return nil, err
		}
		list.Workloads, list.Changes = append(list.Workloads, found...), append(list.Changes, changes...)
		notes, err := unanswered(ctx, live, namespace, edits, installed)
		if err != nil {
			return nil, err
		}
		v.Notes = append(v.Notes, notes...)
	}
	list.Notes = v.Notes
	return list, nil
}

// unanswered names the workloads for which the webhook did not do its part of the dry run. What is forecast for them is what the
// controller does afterwards. Where the controller's options are not known, that cannot be told.
func unanswered(ctx context.Context, live client.Client, namespace string, edits overlay.Edits, installed installation.Installation) ([]string, error) {
	var planner *Planner
	var notes []string
	for _, e := range edits.In(namespace) {
		i := slices.IndexFunc(installed.Kinds(), func(kind workload.Kind) bool { return kind.GVK == e.GVK })
		if i < 0 || installed.Deployment == nil || installed.Problem != nil {
			continue
		}
		if planner == nil {
			// As the cluster is: each object has a dry run of its own, so the webhook saw no other edit.
			var err error
			if planner, err = NewPlanner(ctx, live, installed.Options, namespace); err != nil {
				return nil, err
			}
		}
		kind := installed.Kinds()[i]
		answer, err := planner.engine(kind).Admit(ctx, rollout.Request{Object: e.After, Old: e.Before, DryRun: true})
		if err != nil {
			return nil, fmt.Errorf("look at %s %s: %w", kind.Resource(), client.ObjectKeyFromObject(e.After), err)
		}
		// The webhook changes nothing of what it has changed before, so what the same plan adds is what it missed: it is not there, does
		// not answer, or does not do it for now.
		if len(answer.Patch) > 0 {
			notes = append(notes, fmt.Sprintf("confrev's webhook did not answer for %s/%s: what is shown is what the controller does afterwards, "+
				"in a rollout of its own, and an undo is not told from a deploy", kind.Resource(), e.After.GetName()))
		}
	}
	return notes, nil
}

// forecast plans for the workloads of a namespace to which the edits matter.
func (v *View) forecast(ctx context.Context, live client.Client, namespace string, edits overlay.Edits) (all []Preview, changes []ChangePreview, err error) {
	overlaid := overlay.New(live, edits)
	options := v.Installation.Options
	if v.Installation.Deployment == nil {
		options.Secrets = slices.ContainsFunc(edits.In(namespace), func(e overlay.Edit) bool { return e.GVK == revision.GVK(pin.Secret) })
	}
	v.namespace = namespace
	if v.Planner, err = NewPlanner(ctx, overlaid, options, namespace); err != nil {
		return nil, nil, err
	}
	if err := v.noteLimits(); err != nil {
		return nil, nil, err
	}
	// Planning lets workloads go, so the look at all of them comes first.
	if changes, err = spreadsOf(ctx, v.Planner, namespace, edits); err != nil {
		return nil, nil, err
	}
	looks, err := concerned(ctx, v.Planner, namespace, edits)
	if err != nil {
		return nil, nil, err
	}
	for _, look := range looks {
		if look, err = v.Assess(ctx, look.Kind, look.Workload); err != nil {
			return nil, nil, err
		}
		all = append(all, forecastOf(edits, look))
	}
	return all, changes, nil
}

// concerned returns the workloads that are edited or refer to an edited source, each once.
func concerned(ctx context.Context, planner *Planner, namespace string, edits overlay.Edits) ([]rollout.Assessment, error) {
	var all []rollout.Assessment
	seen := map[string]bool{}
	add := func(looks ...rollout.Assessment) {
		for _, look := range looks {
			if !seen[look.String()] {
				seen[look.String()] = true
				all = append(all, look)
			}
		}
	}
	for _, e := range edits.In(namespace) {
		if source, is := e.Source(); is {
			looks, err := planner.UsersOf(ctx, namespace, source)
			if err != nil {
				return nil, err
			}
			add(looks...)
			continue
		}
		for _, kind := range planner.Kinds {
			if kind.GVK == e.GVK {
				if obj := planner.Workload(kind, client.ObjectKeyFromObject(e.After)); obj != nil {
					add(rollout.Assessment{Kind: kind, Workload: obj})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b rollout.Assessment) int { return strings.Compare(a.String(), b.String()) })
	return all, nil
}

// forecastOf puts a plan that was made with the edits into words.
func forecastOf(edits overlay.Edits, look rollout.Assessment) Preview {
	f := Preview{WorkloadRef: refOf(look)}
	before := look.Template
	if own := edits.Find(look.Kind.GVK, look.Workload); own != nil {
		f.Template, before = changesTemplate(own, look.Kind)
	}
	for _, d := range slices.Concat(look.Pins.Decisions, look.Hashes.Decisions) {
		if look.Template[d.Source] == d.From {
			d.From = before[d.Source]
		}
		if edits.Changes(look.Workload.GetNamespace(), d.Source) || d.To != d.From {
			f.RollsOut = f.RollsOut || d.To != d.From
			f.Sources = append(f.Sources, changeOf(d))
		}
	}
	for _, use := range look.Uses {
		if edits.Changes(f.Namespace, use.Source) && !decided(look, use.Source) {
			f.Sources = append(f.Sources, undecided(look, use.Source))
		}
	}
	f.RollsOut = f.RollsOut || f.Template
	if f.RollsOut {
		f.When = when(look)
	}
	return f
}

// undecided returns what is known of an edited source that is in no plan of a workload that uses it.
func undecided(look rollout.Assessment, source pin.Source) SourceChange {
	if look.Hidden && source.Kind == pin.Secret {
		return SourceChange{Source: source.String(), Verdict: string(plan.Unknown), Because: secretsHidden}
	}
	return SourceChange{Source: source.String(), Verdict: "NotTracked",
		Because: "the workload does not track it, or it is never copied: pods read it as it is when they start"}
}

// when returns what the rollout of a changed template waits for.
func when(look rollout.Assessment) string {
	paused := slices.ContainsFunc(look.Rollers, isPaused)
	switch {
	case look.Kind.StartsJobs():
		return "with the next Job"
	case paused && !look.Resumes():
		return "when resumed"
	}
	return ""
}

func isPaused(r rollout.Roller) bool { return r.Kind.Paused(r.Object) }

func decided(look rollout.Assessment, source pin.Source) bool {
	return slices.ContainsFunc(slices.Concat(look.Pins.Decisions, look.Hashes.Decisions), func(d plan.Decision) bool { return d.Source == source })
}

func changeOf(d plan.Decision) SourceChange {
	change := SourceChange{Source: d.Source.String(), Verdict: string(d.Verdict), Because: ExplainVerdict(d)}
	if d.From != (pin.Pin{}) {
		change.From = d.From.String()
	}
	if d.To != (pin.Pin{}) {
		change.To = d.To.String()
	}
	return change
}

// changesTemplate reports whether more than the pins of a workload's template changes, and what it was pinned to.
func changesTemplate(e *overlay.Edit, kind workload.Kind) (changes bool, before pin.Set) {
	if e.Before == nil {
		return true, nil
	}
	before, _ = kind.Pins(e.Before)
	old, oldErr := kind.Template(e.Before)
	now, err := kind.Template(e.After)
	if oldErr != nil || err != nil {
		return true, before
	}
	return workload.TemplateChanges(now, old), before
}

// NewEdit returns the edit of an object: as the API server has it, nil when it has none, and as it would be. The kind is one that
// confrev handles (installation.Installation.Handles).
func NewEdit(gvk schema.GroupVersionKind, before, after runtime.Object, installed installation.Installation) (overlay.Edit, error) {
	return overlay.NewEdit(gvk, before, after, func() client.Object { return installed.New(gvk) })
}
