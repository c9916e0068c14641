package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/utils/exec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
)

const diffLong = `Compare the content of two revisions of a source, key by key; or what a workload runs with the present content of its sources,
as far as it uses them.

It runs the program of the environment variable KUBECTL_EXTERNAL_DIFF, or "diff -u -N", as kubectl diff does. Of values that are
not text it compares size and hash. Values of Secrets are not shown, only which of them differ, unless you ask with --show-secrets.

Exit status: 0 no differences, 1 differences, more than 1 an error.`

const diffExample = `# What the newest revision changed
kubectl confrev diff configmap/app

# What changed between two revisions, and since revision 2
kubectl confrev diff configmap/app --from=2 --to=3
kubectl confrev diff configmap/app --from=2 --to=source

# What a workload would get: what it runs against the sources as they are now
kubectl confrev diff deployment/web`

// statusOfFailure is the exit status of diff where 1 says that there are differences.
const statusOfFailure = 2

type diff struct {
	*plugin
	from, to    string
	showSecrets bool
}

func newDiff(p *plugin) *cobra.Command {
	d := &diff{plugin: p}
	cmd := &cobra.Command{
		Use: "diff (SOURCE [--from=N] [--to=N] | WORKLOAD)", Short: "Compare revisions, or what a workload runs with what is current",
		Long: diffLong, Example: examples(diffExample), DisableFlagsInUseLine: true, ValidArgsFunction: p.completeSourcesAndWorkloads,
	}
	cmd.Flags().StringVar(&d.from, "from", "", `The revision to compare from: its number, or "source" (or 0) for the source as it is (default the one before --to)`)
	cmd.Flags().StringVar(&d.to, "to", "", `The revision to compare with: its number, or "source" (or 0) for the source as it is (default the newest)`)
	cmd.Flags().BoolVar(&d.showSecrets, "show-secrets", false, "Show the values of Secrets")
	for _, flag := range []string{"from", "to"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, p.completeRevisions)
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exitStatus{statusOfFailure, err} })
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		differ, err := d.run(cmd.Context(), args)
		switch {
		case err != nil:
			return exitStatus{statusOfFailure, err}
		case differ:
			return exitStatus{status: 1}
		}
		return nil
	}
	return cmd
}

func (d *diff) run(ctx context.Context, args []string) (differ bool, err error) {
	name, rest, err := splitArgs(args)
	if err != nil {
		return false, err
	}
	if len(rest) > 0 {
		return false, fmt.Errorf("want one source or workload, have %d more", len(rest))
	}
	c, err := d.connect()
	if err != nil {
		return false, err
	}
	before, after := files{}, files{}
	if source, sourceErr := parseSource(name); sourceErr == nil {
		err = d.ofSource(ctx, c, source, before, after)
	} else {
		err = d.ofWorkload(ctx, c, name, before, after)
	}
	if err != nil {
		return false, err
	}
	return d.compare(before, after)
}

// ofSource reads two revisions of a source.
func (d *diff) ofSource(ctx context.Context, c *connection, source pin.Source, before, after files) error {
	list := revision.NewMetadataList(source.Kind)
	if err := c.List(ctx, list, client.InNamespace(c.namespace), client.HasLabels{keys.Content}); err != nil {
		return err
	}
	known := numbersOf(source, list.Items)
	from, to, err := known.choose(d.from, d.to)
	if err != nil {
		return err
	}
	old, err := c.content(ctx, source.Kind, from)
	if err != nil {
		return err
	}
	now, err := c.content(ctx, source.Kind, to)
	if err != nil {
		return err
	}
	masked := source.Kind == pin.Secret && !d.showSecrets
	addFiles(before, after, "", values(old), values(now), masked)
	return nil
}

// ofWorkload reads what a workload is pinned to, and the sources, as far as it uses them.
func (d *diff) ofWorkload(ctx context.Context, c *connection, name string, before, after files) error {
	if d.from != "" || d.to != "" {
		return fmt.Errorf("--from and --to are for a source; %s is compared with the sources as they are now", name)
	}
	found, err := d.find(ctx, c, name)
	if err != nil {
		return err
	}
	pins, err := found.kind.Pins(found.obj)
	if err != nil {
		return err
	}
	uses, err := found.kind.Uses(found.obj)
	if err != nil {
		return err
	}
	if len(pins) == 0 {
		return fmt.Errorf("%s has no pins: its pods read the sources as they are when they start; to begin: kubectl confrev track %s", found, found)
	}
	for _, use := range uses {
		p, pinned := pins[use.Source]
		if !pinned {
			continue
		}
		old, err := c.content(ctx, use.Kind, p.Revision)
		if err != nil {
			return err
		}
		now, err := c.content(ctx, use.Kind, use.Name)
		if err != nil {
			return err
		}
		addFiles(before, after, string(use.Kind)+"."+use.Name+".", used(use, values(old)), used(use, values(now)),
			use.Kind == pin.Secret && !d.showSecrets)
	}
	return nil
}

// used are the values that a workload uses.
func used(use podspec.Use, all map[string][]byte) map[string][]byte {
	if use.All {
		return all
	}
	some := map[string][]byte{}
	for _, key := range use.Keys {
		if value, has := all[key]; has {
			some[key] = value
		}
	}
	return some
}

// compare runs the user's program on the files.
func (d *diff) compare(before, after files) (differ bool, err error) {
	err = runDiff(d.IOStreams, before, after)
	var exit exec.ExitError
	if errors.As(err, &exit) && exit.ExitStatus() == 1 {
		return true, nil
	}
	return false, err
}

// content reads a source or revision.
func (c *connection) content(ctx context.Context, kind pin.Kind, name string) (client.Object, error) {
	obj := newSource(kind)
	return obj, c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, obj)
}

// named has the names of the revisions of a source by their numbers; that of the source itself by 0.
type named struct {
	source pin.Source
	names  map[int64]string
	sorted []int64
}

func numbersOf(source pin.Source, metas []metadata) named {
	n := named{source: source, names: map[int64]string{0: source.Name}}
	for i := range metas {
		number, err := strconv.ParseInt(metas[i].Annotations[keys.Number], 10, 64)
		if err == nil && number > 0 && revision.SourceOf(source.Kind, &metas[i]) == source {
			n.names[number] = metas[i].Name
			n.sorted = append(n.sorted, number)
		}
	}
	slices.Sort(n.sorted)
	return n
}

// choose gives the names of what to compare.
func (n named) choose(from, to string) (fromName, toName string, err error) {
	if len(n.sorted) == 0 {
		return "", "", fmt.Errorf("%s has no revisions: nothing that tracks it has been rolled out", n.source)
	}
	target := n.sorted[len(n.sorted)-1]
	if to != "" {
		if target, err = n.parse("to", to); err != nil {
			return "", "", err
		}
	}
	var base int64
	switch {
	case from != "":
		base, err = n.parse("from", from)
	default:
		base, err = n.before(target)
	}
	return n.names[base], n.names[target], err
}

// before gives the number of the revision before one, or before the source.
func (n named) before(number int64) (int64, error) {
	for _, candidate := range slices.Backward(n.sorted) {
		if number == 0 || candidate < number {
			return candidate, nil
		}
	}
	return 0, fmt.Errorf("%s has no revision before %d; to compare it with the source as it is: --from=%d --to=source", n.source, number, number)
}

func (n named) parse(flag, text string) (int64, error) {
	if text == "source" {
		return 0, nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 0 {
		return 0, fmt.Errorf(`--%s=%s: want the number of a revision, or "source"`, flag, text)
	}
	if _, has := n.names[number]; !has {
		return 0, fmt.Errorf("%s has no revision %d: there is %s", n.source, number, joined(n.sorted))
	}
	return number, nil
}
