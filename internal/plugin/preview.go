package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/controller"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/workload"
)

const previewLong = `Show what applying ConfigMaps, Secrets and workloads would lead to, before it is done: which workloads would roll out, which would
not, and why. Nothing is written.

The API server is asked what it would make of each object (a dry run, as kubectl diff does it), and the answer is planned with as the
controller plans. If confrev's webhook does not answer the dry run, a note says so: only the webhook tells an undo from a deploy within a
request. It needs your rights to apply the objects and to list workloads.`

const previewExample = `# What would a new configuration restart?
kubectl confrev preview -f app.yaml

# The same for a whole folder, and from a pipe
kubectl confrev preview -f deploy/
cat app.yaml | kubectl confrev preview -f -`

type preview struct {
	*plugin
	files      resource.FilenameOptions
	output     string
	serverSide bool
	force      bool
	manager    string
}

// forecast is what would become of one workload.
type forecast struct {
	Namespace string `json:"namespace"`
	Workload  string `json:"workload"`
	RollsOut  bool   `json:"rollsOut"`
	// When is what the rollout waits for; empty when it begins at once.
	When     string         `json:"when,omitempty"`
	Template bool           `json:"templateChanges"`
	Sources  []sourceChange `json:"sources,omitempty"`
}

// sourceChange is what would become of one source of a workload.
type sourceChange struct {
	Source  string `json:"source"`
	Verdict string `json:"verdict"`
	From    string `json:"from,omitempty"`
	To      string `json:"to,omitempty"`
	Because string `json:"because"`
}

func newPreview(p *plugin) *cobra.Command {
	v := &preview{plugin: p}
	cmd := &cobra.Command{
		Use: "preview -f FILENAME", Short: "Show what applying files would roll out, before it is done",
		Long: previewLong, Example: examples(previewExample), DisableFlagsInUseLine: true, Args: cobra.NoArgs,
	}
	cmdutil.AddFilenameOptionFlags(cmd, &v.files, "contains the ConfigMaps, Secrets and workloads to preview")
	cmdutil.AddServerSideApplyFlags(cmd)
	cmdutil.AddFieldManagerFlagVar(cmd, &v.manager, "kubectl-client-side-apply")
	cmd.Flags().StringVarP(&v.output, "output", "o", "", "Output format. One of: (json, yaml)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := v.files.RequireFilenameOrKustomize(); err != nil {
			return err
		}
		if !slices.Contains([]string{"", "json", "yaml"}, v.output) {
			return fmt.Errorf("--output=%s: want json or yaml", v.output)
		}
		v.serverSide, v.force = cmdutil.GetServerSideApplyFlag(cmd), cmdutil.GetForceConflictsFlag(cmd)
		all, err := v.run(cmd.Context())
		if err != nil {
			return err
		}
		return v.printForecasts(all)
	}
	return cmd
}

func (v *preview) run(ctx context.Context) ([]forecast, error) {
	c, err := v.connect()
	if err != nil {
		return nil, err
	}
	// Who reads files cannot tell a server that does not answer from a kind that it does not know.
	if err := v.reachable(); err != nil {
		return nil, err
	}
	installed, err := findInstallation(ctx, c, v.controllerNamespace)
	if err != nil {
		return nil, err
	}
	v.printNotes(installed.notes())
	edits, err := v.read(c, installed.kinds())
	if err != nil {
		return nil, err
	}
	all := []forecast{}
	for _, namespace := range edits.namespaces() {
		found, err := v.forecast(ctx, c, namespace, edits, installed)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		notes, err := unanswered(ctx, c, namespace, edits, installed)
		if err != nil {
			return nil, err
		}
		v.printNotes(notes)
	}
	return all, nil
}

// unanswered names the workloads for which the webhook did not do its part of the dry run. What is forecast for them is what the
// controller does afterwards. Where the controller's options are not known, that cannot be told.
func unanswered(ctx context.Context, c *connection, namespace string, edits *edits, installed installation) ([]string, error) {
	var planner *controller.Planner
	var notes []string
	for _, e := range edits.of(namespace) {
		i := slices.IndexFunc(installed.kinds(), func(kind workload.Kind) bool { return kind.GVK == e.gvk })
		if i < 0 || installed.deployment == nil || installed.problem != nil {
			continue
		}
		if planner == nil {
			// As the cluster is: each object has a dry run of its own, so the webhook saw no other edit.
			var err error
			if planner, err = controller.NewPlanner(ctx, c, installed.options, namespace); err != nil {
				return nil, err
			}
		}
		kind := installed.kinds()[i]
		missed, err := planner.Unanswered(ctx, kind, e.after, e.before)
		if err != nil {
			return nil, fmt.Errorf("look at %s %s: %w", kind.Resource(), client.ObjectKeyFromObject(e.after), err)
		}
		if missed {
			notes = append(notes, fmt.Sprintf("confrev's webhook did not answer for %s/%s: what is shown is what the controller does afterwards, "+
				"in a rollout of its own, and an undo is not told from a deploy", kind.Resource(), e.after.GetName()))
		}
	}
	return notes, nil
}

func (v *preview) reachable() error {
	discovery, err := v.factory.ToDiscoveryClient()
	if err != nil {
		return err
	}
	_, err = discovery.ServerVersion()
	return err
}

// forecast plans for the workloads of a namespace to which the edits matter.
func (v *preview) forecast(ctx context.Context, c *connection, namespace string, edits *edits, installed installation) ([]forecast, error) {
	overlaid := &overlay{Client: c, edits: edits}
	options := installed.options
	if installed.deployment == nil {
		options.Secrets = edits.secrets(namespace)
	}
	planner, err := controller.NewPlanner(ctx, overlaid, options, namespace)
	if err != nil {
		return nil, err
	}
	looks, err := concerned(ctx, planner, namespace, edits)
	if err != nil {
		return nil, err
	}
	var all []forecast
	for _, look := range looks {
		if look, err = planner.Look(ctx, look.Kind, look.Workload, false); err != nil {
			return nil, err
		}
		all = append(all, edits.forecast(look))
	}
	return all, nil
}

// concerned gives the workloads that are edited or refer to an edited source, each once.
func concerned(ctx context.Context, planner *controller.Planner, namespace string, edits *edits) ([]controller.Look, error) {
	var all []controller.Look
	seen := map[string]bool{}
	add := func(looks ...controller.Look) {
		for _, look := range looks {
			if !seen[look.String()] {
				seen[look.String()] = true
				all = append(all, look)
			}
		}
	}
	for _, e := range edits.of(namespace) {
		if source, is := e.source(); is {
			looks, err := planner.UsersOf(ctx, namespace, source)
			if err != nil {
				return nil, err
			}
			add(looks...)
			continue
		}
		for _, kind := range planner.Kinds {
			if kind.GVK == e.gvk {
				if obj := planner.Workload(kind, client.ObjectKeyFromObject(e.after)); obj != nil {
					add(controller.Look{Kind: kind, Workload: obj})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b controller.Look) int { return strings.Compare(a.String(), b.String()) })
	return all, nil
}

// forecast puts a plan that was made with the edits into words.
func (e *edits) forecast(look controller.Look) forecast {
	f := forecast{Namespace: look.Workload.GetNamespace(), Workload: look.String()}
	before := look.Template
	if own := e.find(look.Kind.GVK, look.Workload); own != nil {
		f.Template, before = own.changesTemplate(look.Kind)
	}
	for _, d := range slices.Concat(look.Pins.Decisions, look.Hashes.Decisions) {
		if look.Template[d.Source] == d.From {
			d.From = before[d.Source]
		}
		if e.edited(look.Workload.GetNamespace(), d.Source) || d.To != d.From {
			f.RollsOut = f.RollsOut || d.To != d.From
			f.Sources = append(f.Sources, changeOf(d))
		}
	}
	for _, use := range look.Uses {
		if e.edited(f.Namespace, use.Source) && !decided(look, use.Source) {
			f.Sources = append(f.Sources, sourceChange{Source: use.String(), Verdict: "NotTracked",
				Because: "the workload does not track it, or it is never copied: pods read it as it is when they start"})
		}
	}
	f.RollsOut = f.RollsOut || f.Template
	if f.RollsOut {
		f.When = when(look)
	}
	return f
}

// when says what the rollout of a changed template waits for.
func when(look controller.Look) string {
	paused := slices.ContainsFunc(look.Rollers, func(r controller.Roller) bool { return r.Kind.Paused(r.Object) })
	switch {
	case look.Kind == workload.CronJob:
		return "with the next Job"
	case paused:
		return "when resumed"
	}
	return ""
}

func decided(look controller.Look, source pin.Source) bool {
	return slices.ContainsFunc(slices.Concat(look.Pins.Decisions, look.Hashes.Decisions), func(d plan.Decision) bool { return d.Source == source })
}

func changeOf(d plan.Decision) sourceChange {
	change := sourceChange{Source: d.Source.String(), Verdict: string(d.Verdict), Because: because(d)}
	if d.From != (pin.Pin{}) {
		change.From = d.From.String()
	}
	if d.To != (pin.Pin{}) {
		change.To = d.To.String()
	}
	return change
}

func because(d plan.Decision) string {
	switch d.Verdict {
	case plan.InSync:
		if d.From != d.To {
			return fmt.Sprintf("rolled out to revision %d with the workload", d.To.Number)
		}
		return "nothing changes of what the workload uses"
	case plan.Pinned:
		return fmt.Sprintf("pinned for the first time, to revision %d", d.To.Number)
	case plan.Advanced:
		return fmt.Sprintf("revision %d -> %d", d.From.Number, d.To.Number)
	case plan.Held:
		return fmt.Sprintf("held at revision %d: it was rolled back from this content", d.To.Number)
	case plan.Waiting:
		return fmt.Sprintf("waits at revision %d, as confrev.io/advance says", d.To.Number)
	case plan.KeyMissing:
		return fmt.Sprintf("lacks %q, which a container requires: nothing rolls out", d.Keys)
	case plan.SourceMissing:
		return "does not exist, and a container requires it"
	case plan.Absent:
		if d.From != d.To {
			return fmt.Sprintf("does not exist, and is optional: pinned to revision %d, which is empty", d.To.Number)
		}
		return "does not exist, and is optional"
	}
	return "could not be looked at"
}

func (v *preview) printForecasts(all []forecast) error {
	if v.output != "" {
		return printAs(v.Out, v.output, map[string]any{"workloads": all})
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(v.Out, "Nothing uses what is in the files.")
		return err
	}
	table := tabwriter.NewWriter(v.Out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAMESPACE\tWORKLOAD\tROLLS OUT\tBECAUSE")
	for _, f := range all {
		reasons := make([]string, 0, len(f.Sources)+1)
		if f.Template {
			reasons = append(reasons, "its template changes")
		}
		for _, change := range f.Sources {
			reasons = append(reasons, oneLine(change.Source+": "+change.Because))
		}
		if len(reasons) == 0 {
			reasons = []string{"nothing changes of its template, nor of what it uses"}
		}
		rolls := cmp.Or(f.When, map[bool]string{true: "yes", false: "no"}[f.RollsOut])
		for i, reason := range reasons {
			if i == 0 {
				_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", f.Namespace, f.Workload, rolls, reason)
				continue
			}
			_, _ = fmt.Fprintf(table, "\t\t\t%s\n", reason)
		}
	}
	return table.Flush()
}

// changesTemplate tells whether more than the pins of a workload's template changes, and what it was pinned to.
func (e *edited) changesTemplate(kind workload.Kind) (changes bool, before pin.Set) {
	if e.before == nil {
		return true, nil
	}
	before, _ = kind.Pins(e.before)
	old, oldErr := kind.Template(e.before)
	now, err := kind.Template(e.after)
	if oldErr != nil || err != nil {
		return true, before
	}
	pins, _ := kind.Pins(e.after)
	oldMeta, nowMeta := withoutPins(old.Annotations), withoutPins(now.Annotations)
	return !equality.Semantic.DeepEqual(oldMeta, nowMeta) || !equality.Semantic.DeepEqual(old.Labels, now.Labels) ||
		!equality.Semantic.DeepEqual(podspec.Original(&old.Spec, before), podspec.Original(&now.Spec, pins, before)), before
}
