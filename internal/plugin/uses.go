package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/controller"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/workload"
)

const usesLong = `Show which workloads use a source, and what a change of it would do to each.

 *  Rolls: it is rolled out, which replaces the pods.
 *  Restarts: the same, in mode restart: the pods read the source itself.
 *  NextJob: the next Job has it.
 *  Waits: it changes nothing until somebody says so.
 *  Stays: nothing happens.

KEYS are those that the workload uses; a change of others does nothing.`

const usesExample = `
		# Who would roll if this ConfigMap changed?
		kubectl confrev uses configmap/app

		# The same with how many pods, for a script
		kubectl confrev uses configmap/app -o json`

// rotates says of a source that it has the policy rotate.
const rotates = "rotates: pods read it live, and no undo brings old content back"

// effect is what a change of a source would do to a workload.
type effect string

const (
	effectRolls    effect = "Rolls"
	effectRestarts effect = "Restarts"
	effectNextJob  effect = "NextJob"
	effectWaits    effect = "Waits"
	effectStays    effect = "Stays"
)

// UseList is what `uses` prints as JSON and YAML.
type UseList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []UseEntry `json:"items"`
	Notes           []string   `json:"notes,omitempty"`
}

// UseEntry is one workload that uses a source.
type UseEntry struct {
	Namespace string `json:"namespace"`
	Source    string `json:"source"`
	Workload  string `json:"workload"`
	// Effect is what a change of a key that it uses would do.
	Effect effect `json:"effect"`
	Reason string `json:"reason,omitempty"`
	// Keys are those that it uses; none means all.
	Keys []string `json:"keys,omitempty"`
	// Pods is -1 when they are not known.
	Pods int `json:"pods"`

	look controller.Look
}

type usesReport struct {
	list  UseList
	notes []string
}

type usesOptions struct {
	*plugin
	output
}

func newUses(p *plugin) *cobra.Command {
	o := &usesOptions{plugin: p}
	cmd := &cobra.Command{
		Use:               "uses TYPE/NAME...",
		Short:             "Show who uses a source, and what a change of it would do",
		Long:              usesLong,
		Example:           examples(usesExample),
		Args:              needsObjects,
		ValidArgsFunction: p.completeSource,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.add(cmd)
	return cmd
}

func (o *usesOptions) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	arguments, err := o.arguments(args)
	if err != nil {
		return err
	}
	for _, a := range arguments {
		if _, ok := a.source(); !ok {
			return fmt.Errorf("%s/%s is no source: name a ConfigMap or Secret, such as configmap/app", a.resource, a.name)
		}
	}
	s, err := o.look(ctx, false)
	if err != nil {
		return err
	}
	report := &usesReport{notes: s.notes}
	for _, a := range arguments {
		source, _ := a.source()
		found, err := s.uses(ctx, source)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			// It may be used before it is there.
			if err := s.known(source, a); err != nil {
				return err
			}
		}
		report.list.Items = append(report.list.Items, found...)
	}
	o.printNotes(report.notes)
	if len(report.list.Items) == 0 && o.isTable() {
		_, err := fmt.Fprintf(o.ErrOut, "No workload of the namespace %s uses it.\n", s.namespace)
		return err
	}
	return o.print(o.Out, report, false)
}

// uses gives the workloads that use a source.
func (s *scope) uses(ctx context.Context, source pin.Source) ([]UseEntry, error) {
	candidates, err := s.UsersOf(ctx, s.namespace, source)
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
		look, err := s.Look(ctx, c.Kind, c.Workload, false)
		if err != nil {
			return nil, err
		}
		if entry, uses := s.use(look, source); uses {
			entries = append(entries, entry)
		}
	}
	entries = append(entries, s.jobs(source)...)
	slices.SortFunc(entries, func(a, b UseEntry) int { return cmp.Compare(a.Workload, b.Workload) })
	return entries, nil
}

// use judges what a change of a source would do to a workload, and whether it uses it at all.
func (s *scope) use(look controller.Look, source pin.Source) (UseEntry, bool) {
	entry := UseEntry{
		Namespace: look.Workload.GetNamespace(), Source: source.String(), look: look,
		Workload: look.String(), Pods: -1,
	}
	if pods, err := s.Pods(look); err == nil && s.seesPods() {
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
		entry.Effect, entry.Reason = s.effect(look, look.Pins.Decisions[pinned])
	case hashed >= 0:
		if entry.Effect, entry.Reason = s.effect(look, look.Hashes.Decisions[hashed]); entry.Effect == effectRolls {
			entry.Effect = effectRestarts
		}
		if look.Rotates(source) {
			entry.Reason = cmp.Or(entry.Reason, rotates)
		}
	default:
		entry.Effect, entry.Reason = effectStays, s.whyNot(look, source)
	}
	return entry, pinned >= 0 || hashed >= 0 || used >= 0
}

// effect is what a change would do to a workload that follows the source.
func (s *scope) effect(look controller.Look, d plan.Decision) (effect, string) {
	p := s.progress(look)
	switch {
	case d.From != (pin.Pin{}) && look.Asked.Advance.Blocks(false):
		return effectWaits, fmt.Sprintf("%s: %s", keys.Advance, look.Asked.Advance)
	case p.paused != "":
		return effectWaits, "until it is resumed: " + p.paused
	case look.Kind == workload.CronJob:
		return effectNextJob, ""
	case d.Verdict == plan.Held:
		return effectRolls, "held now; a change of the source ends that"
	}
	return effectRolls, ""
}

// whyNot tells why a workload does not follow a source that its template refers to.
func (s *scope) whyNot(look controller.Look, source pin.Source) string {
	asked := look.Asked
	traits := s.traits(look, source)
	switch {
	case look.Hidden && source.Kind == pin.Secret:
		return "you may not list Secrets, so this is not known"
	case source.Kind == pin.Secret && !s.Options.Secrets:
		return "the controller does not handle Secrets (--secrets)"
	case traits.Policy != optin.PolicyRevision && traits.Policy != "":
		return fmt.Sprintf("%s: %s; pods read the source itself", keys.Policy, traits.Policy)
	case traits.Never != "":
		return "never copied: " + traits.Never
	case asked.Mode == optin.Attach && asked.Track.Enabled():
		return "mode attach: the name is taken to be unique per deploy"
	}
	if traits.Owned && !asked.Track.None() {
		return fmt.Sprintf("its ownerReference to the workload opts nothing in without %s: true", keys.Owners)
	}
	for _, w := range look.Warnings {
		if w.Reason == controller.TooComplex {
			return w.Note
		}
	}
	return "not tracked: see the annotation " + keys.Track
}

// traits gives what a source says of itself.
func (s *scope) traits(look controller.Look, source pin.Source) optin.Traits {
	for _, obj := range s.Snapshot.Sources(source.Kind) {
		if obj.GetNamespace() == look.Workload.GetNamespace() && obj.GetName() == source.Name {
			traits, _ := s.Options.Compat.Describe(source, obj, look.Workload.GetUID())
			return traits
		}
	}
	return optin.Traits{}
}

// jobs gives the Jobs that no controller made and that use a source: their templates never change.
func (s *scope) jobs(source pin.Source) []UseEntry {
	var entries []UseEntry
	for _, obj := range s.Snapshot.Objects(workload.Job.GVK) {
		uses, err := workload.StandAloneJob.Uses(obj)
		mine := slices.ContainsFunc(uses, func(u podspec.Use) bool { return u.Source == source })
		if err != nil || !mine || obj.GetNamespace() != s.namespace || metav1.GetControllerOf(obj) != nil {
			continue
		}
		entries = append(entries, UseEntry{
			Namespace: obj.GetNamespace(), Source: source.String(), Workload: "job/" + obj.GetName(), Pods: -1,
			Effect: effectStays, Reason: "the template of a Job never changes",
			look: controller.Look{Kind: workload.StandAloneJob, Workload: obj},
		})
	}
	return entries
}

func (r *usesReport) object() any {
	r.list.TypeMeta = metav1.TypeMeta{APIVersion: outputVersion, Kind: "UseList"}
	r.list.Notes = r.notes
	if r.list.Items == nil {
		r.list.Items = []UseEntry{}
	}
	return &r.list
}

func (r *usesReport) named() []runtime.Object {
	var all []runtime.Object
	for _, item := range r.list.Items {
		all = append(all, nameOnly(item.look.Kind, item.look.Workload))
	}
	return all
}

func (r *usesReport) table() *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: columns([]string{"Source", "Workload", "Effect", "Keys", "Pods", "Reason"}, "Mode")}
	for _, e := range r.list.Items {
		pods, mode := "-", string(e.look.Asked.Mode)
		if e.Pods >= 0 {
			pods = fmt.Sprint(e.Pods)
		}
		keysUsed := "<all>"
		if len(e.Keys) > 0 {
			keysUsed = strings.Join(e.Keys, ",")
		}
		table.Rows = append(table.Rows, row(e.Namespace, e.Source, e.Workload, string(e.Effect), keysUsed, pods, orDash(e.Reason), orDash(mode)))
	}
	return table
}
