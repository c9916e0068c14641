package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
)

// rotates describes a source that has the policy rotate.
const rotates = "rotates: pods read it live, and no undo brings old content back"

// Effect is what a change to a source would do to a workload.
type Effect string

// What happens to the users of a source when it changes.
const (
	Rolls    Effect = "Rolls"
	Restarts Effect = "Restarts"
	NextJob  Effect = "NextJob"
	Waits    Effect = "Waits"
	Stays    Effect = "Stays"
)

// UseList is what `uses` prints as JSON and YAML.
type UseList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []UseEntry `json:"items"`
	Notes           []string   `json:"notes,omitempty"`
}

// UseEntry is one workload that uses a source.
type UseEntry struct {
	WorkloadRef `json:",inline"`
	Source      string `json:"source"`
	// Mode is that of the workload; empty for a Job that no controller made.
	Mode string `json:"mode,omitempty"`
	// Effect is what a change to a key that it uses would do.
	Effect Effect `json:"effect"`
	Reason string `json:"reason,omitempty"`
	// Keys are those that it uses; none means all.
	Keys []string `json:"keys,omitempty"`
	// Pods is -1 when they are not known.
	Pods int `json:"pods"`
}

// Uses returns the workloads that use sources.
func (v *View) Uses(ctx context.Context, objects []Object) (*UseList, error) {
	list := &UseList{TypeMeta: typeMeta("UseList"), Items: []UseEntry{}}
	for _, o := range objects {
		source, is := o.Source()
		if !is {
			return nil, fmt.Errorf("%s/%s is not a source: name a ConfigMap or Secret, such as configmap/app", o.Resource, o.Name)
		}
		found, err := v.uses(ctx, source)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			// It may be used before it is there.
			if err := v.known(source, o); err != nil {
				return nil, err
			}
		}
		list.Items = append(list.Items, found...)
	}
	list.Notes = v.Notes
	return list, nil
}

func (v *View) uses(ctx context.Context, source pin.Source) ([]UseEntry, error) {
	candidates, err := v.UsersOf(ctx, v.namespace, source)
	if err != nil {
		return nil, err
	}
	seen := map[types.UID]bool{}
	var entries []UseEntry
	for _, c := range candidates {
		if _, _, refers := c.Kind.WorkloadRef(c.Workload); refers || seen[c.Workload.GetUID()] {
			continue
		}
		seen[c.Workload.GetUID()] = true
		look, err := v.Assess(ctx, c.Kind, c.Workload)
		if err != nil {
			return nil, err
		}
		if entry, uses := v.use(look, source); uses {
			entries = append(entries, entry)
		}
	}
	entries = append(entries, v.jobs(source)...)
	slices.SortFunc(entries, func(a, b UseEntry) int { return cmp.Compare(a.Workload, b.Workload) })
	return entries, nil
}

// use judges what a change to a source would do to a workload, and whether it uses it at all.
func (v *View) use(look rollout.Assessment, source pin.Source) (UseEntry, bool) {
	entry := UseEntry{WorkloadRef: refOf(look), Source: source.String(), Mode: look.Config.Mode.Name, Pods: -1}
	if pods, err := v.Pods(look); err == nil && v.seesPods() {
		entry.Pods = len(pods)
	}
	of := func(d plan.Decision) bool { return d.Source == source }
	pinned, hashed := slices.IndexFunc(look.Pins.Decisions, of), slices.IndexFunc(look.Hashes.Decisions, of)
	used := slices.IndexFunc(look.Uses, func(u podspec.Use) bool { return u.Source == source })
	if used >= 0 && !look.Uses[used].All {
		entry.Keys = look.Uses[used].Keys
	}
	switch {
	case pinned >= 0:
		entry.Effect, entry.Reason = v.effect(look, look.Pins.Decisions[pinned])
	case hashed >= 0:
		if entry.Effect, entry.Reason = v.effect(look, look.Hashes.Decisions[hashed]); entry.Effect == Rolls {
			entry.Effect = Restarts
		}
		if look.Rotates(source) {
			entry.Reason = cmp.Or(entry.Reason, rotates)
		}
	default:
		entry.Effect, entry.Reason = Stays, v.whyNot(look, source)
	}
	return entry, pinned >= 0 || hashed >= 0 || used >= 0
}

// effect returns what a change would do to a workload that follows the source.
func (v *View) effect(look rollout.Assessment, d plan.Decision) (Effect, string) {
	p := v.progress(look)
	wait := look.WouldWait(d.Source)
	switch {
	case d.From != (pin.Pin{}) && wait.Reason != "":
		return Waits, wait.String()
	case p.paused != "":
		return Waits, "until it is resumed: " + p.paused
	case look.Kind.StartsJobs():
		return NextJob, ""
	case d.Verdict == plan.Held:
		return Rolls, "held now; a change to the source ends that"
	}
	return Rolls, ""
}

// secretsHidden is why nothing is known of how a workload follows a Secret.
const secretsHidden = "you may not list Secrets, so this is not known"

// whyNot reports why a workload does not follow a source that its template refers to.
func (v *View) whyNot(look rollout.Assessment, source pin.Source) string {
	asked := look.Config
	traits := optin.Traits{}
	if meta, exists := v.metadataOf(look.Workload.GetNamespace(), source); exists {
		traits, _ = v.Options.Compat.Describe(source, meta, look.Workload.GetUID())
	}
	never := WhyNeverCopied(source, traits, v.Options.Secrets)
	switch {
	case look.Hidden && source.Kind == pin.Secret:
		return secretsHidden
	case never != "":
		return never
	case asked.Mode.Attaches && asked.Track.Enabled():
		return "mode attach: the name is assumed to be unique per deploy"
	}
	if traits.Owned && !asked.Track.None() {
		return fmt.Sprintf("its ownerReference to the workload opts nothing in without %s: true", keys.Owners)
	}
	for _, w := range look.Warnings {
		if w.Reason == notice.TooManyReferences {
			return w.Text
		}
	}
	return "not tracked: see the annotation " + keys.Track
}

// WhyNeverCopied returns why a source is never copied, whatever tracks it; empty if it is. secrets is true if the controller handles Secrets.
func WhyNeverCopied(source pin.Source, traits optin.Traits, secrets bool) string {
	switch {
	case source.Kind == pin.Secret && !secrets:
		return "the controller does not handle Secrets (--secrets)"
	case traits.Policy.ReadsLive:
		return fmt.Sprintf("%s: %s; pods read the source itself", keys.Policy, traits.Policy)
	case traits.Never != "":
		return "never copied: " + traits.Never
	}
	return ""
}

// jobs returns the Jobs that no controller made and that use a source: their templates never change.
func (v *View) jobs(source pin.Source) []UseEntry {
	var entries []UseEntry
	for _, obj := range v.Snapshot.Objects(workload.Job.GVK) {
		uses, err := workload.StandAloneJob.Uses(obj)
		mine := slices.ContainsFunc(uses, func(u podspec.Use) bool { return u.Source == source })
		if err != nil || !mine || obj.GetNamespace() != v.namespace || metav1.GetControllerOf(obj) != nil {
			continue
		}
		entries = append(entries, UseEntry{
			WorkloadRef: refOf(rollout.Assessment{Kind: workload.StandAloneJob, Workload: obj}), Source: source.String(), Pods: -1,
			Effect: Stays, Reason: "the template of a Job never changes",
		})
	}
	return entries
}
