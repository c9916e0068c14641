package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/exec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/view"
)

const diffLong = `Compare the content of two revisions of a source, key by key; or what a workload runs with the present content of its sources,
as far as it uses them.

It runs the program of the environment variable KUBECTL_EXTERNAL_DIFF, or "diff -u -N", as kubectl diff does. Of values that are
not text it compares size and hash. The sides are named by source, number and revision, and dated by when the revision was made. For a
workload with several sources, the program runs once for each that differs. Values of Secrets are not shown, only which of them differ, unless you ask with --show-secrets.

Exit status: 0 no differences, 1 differences, more than 1 an error.`

const diffExample = `# What the newest revision changed
kubectl confrev diff configmap/app

# What changed between two revisions, and since revision 2
kubectl confrev diff configmap/app --from=2 --to=3
kubectl confrev diff configmap/app --from=2 --to=source

# What a workload would get: what it runs against the sources as they are now
kubectl confrev diff deployment/web`

// statusOfFailure is the exit status of a failed diff, since 1 says that there are differences.
const statusOfFailure = 2

type diff struct {
	*session.Session
	name        string
	from, to    string
	showSecrets bool
}

// NewDiff returns the verb that compares revisions.
func NewDiff(p *session.Session) *cobra.Command {
	d := &diff{Session: p}
	cmd := &cobra.Command{
		Use: "diff (SOURCE [--from=N] [--to=N] | WORKLOAD)", Short: "Compare revisions, or what a workload runs with what is current",
		Long: diffLong, Example: session.Examples(diffExample), DisableFlagsInUseLine: true, ValidArgsFunction: p.CompleteSourcesAndWorkloads,
	}
	cmd.Flags().StringVar(&d.from, "from", "", `The revision to compare from: its number, or "source" (or 0) for the source as it is. If empty, the one before --to.`)
	cmd.Flags().StringVar(&d.to, "to", "", `The revision to compare with: its number, or "source" (or 0) for the source as it is. If empty, the newest.`)
	cmd.Flags().BoolVar(&d.showSecrets, "show-secrets", false, "If true, show the values of Secrets.")
	for _, flag := range []string{"from", "to"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, p.CompleteRevisions)
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return session.ExitStatus{Status: statusOfFailure, Err: err} })
	return session.Command(cmd, d)
}

func (d *diff) Fill(_ *cobra.Command, args []string) error {
	name, rest, err := session.SplitArgs(args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("want one source or workload, have %d more", len(rest))
	}
	if err != nil {
		return session.ExitStatus{Status: statusOfFailure, Err: err}
	}
	d.name = name
	return nil
}

func (d *diff) Run(ctx context.Context) error {
	differ, err := d.run(ctx)
	switch {
	case err != nil:
		return session.ExitStatus{Status: statusOfFailure, Err: err}
	case differ:
		return session.ExitStatus{Status: 1}
	}
	return nil
}

func (d *diff) run(ctx context.Context) (differ bool, err error) {
	c, err := d.Connect()
	if err != nil {
		return false, err
	}
	if source, sourceErr := session.ParseSource(d.name); sourceErr == nil {
		return d.ofSource(ctx, c, source)
	}
	return d.ofWorkload(ctx, c, d.name)
}

func (d *diff) ofSource(ctx context.Context, c *session.Connection, source pin.Source) (differ bool, err error) {
	list := revision.NewMetadataList(source.Kind)
	if err := c.List(ctx, list, client.InNamespace(c.Namespace), client.HasLabels{keys.Content}); err != nil {
		return false, err
	}
	from, to, err := revisionsOf(source, list.Items).choose(d.from, d.to)
	if err != nil {
		return false, err
	}
	old, err := read(ctx, c, source, from)
	if err != nil {
		return false, err
	}
	now, err := read(ctx, c, source, to)
	if err != nil {
		return false, err
	}
	return d.compare(d.sides(podspec.Use{Source: source, All: true}, old, now))
}

// ofWorkload compares what a workload is pinned to with the sources, one after the other, as far as it uses them.
func (d *diff) ofWorkload(ctx context.Context, c *session.Connection, name string) (differ bool, err error) {
	if d.from != "" || d.to != "" {
		return false, fmt.Errorf("--from and --to are for a source; %s is compared with the sources as they are now", name)
	}
	found, err := d.FindTarget(ctx, c, name)
	if err != nil {
		return false, err
	}
	pins, err := found.Kind.Pins(found.Object)
	if err != nil {
		return false, err
	}
	uses, err := found.Kind.Uses(found.Object)
	if err != nil {
		return false, err
	}
	if len(pins) == 0 {
		asked, err := found.Config(ctx, c)
		if err != nil {
			return false, err
		}
		return false, withoutPins(found, asked)
	}
	var all [][2]side
	for _, use := range uses {
		p, pinned := pins[use.Source]
		if !pinned {
			continue
		}
		old, err := read(ctx, c, use.Source, p)
		if err != nil {
			return false, err
		}
		now, err := read(ctx, c, use.Source, pin.Pin{Revision: use.Name})
		// Where every use is optional, what is not there is as good as empty (rule 6).
		if err != nil && (use.Required || !apierrors.IsNotFound(err)) {
			return false, err
		}
		all = append(all, d.sides(use, old, now))
	}
	for _, both := range all {
		// A program that opens a window is not to open one for nothing.
		if len(all) > 1 && both[0].equal(both[1]) {
			continue
		}
		different, err := d.compare(both)
		if err != nil {
			return false, err
		}
		differ = differ || different
	}
	return differ, nil
}

// withoutPins returns the error that there is nothing to compare.
func withoutPins(t session.Target, asked optin.Config) error {
	if !asked.Mode.Pins {
		return fmt.Errorf("%s has no pins: %s", t, view.NothingCopied(asked.Mode))
	}
	return fmt.Errorf("%s has no pins: its pods read the sources as they are when they start; to begin: kubectl confrev track %s%s", t, t, t.Namespaced())
}

// sides returns two contents of a source as the diff program gets them.
func (d *diff) sides(use podspec.Use, old, now contents) [2]side {
	before, after := old.side(use.Source), now.side(use.Source)
	addFiles(before.files, after.files, used(use, values(old.object)), used(use, values(now.object)), use.Kind == pin.Secret && !d.showSecrets)
	return [2]side{before, after}
}

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

func (d *diff) compare(both [2]side) (differ bool, err error) {
	err = runDiff(d.IOStreams, both)
	var exit exec.ExitError
	if errors.As(err, &exit) && exit.ExitStatus() == 1 {
		return true, nil
	}
	return false, err
}

// contents is a source or revision that was read. A source itself has no number.
type contents struct {
	object client.Object
	pin    pin.Pin
}

func read(ctx context.Context, c *session.Connection, source pin.Source, at pin.Pin) (contents, error) {
	obj := revision.NewSource(source.Kind)
	return contents{obj, at}, c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: at.Revision}, obj)
}

// side names the contents, and dates a revision: "configmap/app@1/app-5f7d8c9b2k".
func (c contents) side(source pin.Source) side {
	if c.pin.Number == 0 {
		return side{path: source.String(), files: files{}}
	}
	return side{fmt.Sprintf("%s@%d/%s", source, c.pin.Number, c.pin.Revision), c.object.GetCreationTimestamp().Time, files{}}
}

// revisions are those of a source, by ascending numbers.
type revisions struct {
	of  pin.Source
	all []plan.Revision
}

func revisionsOf(source pin.Source, metas []metav1.PartialObjectMetadata) revisions {
	r := revisions{of: source}
	for i := range metas {
		if found := revision.Labelled(&metas[i]); found.Number > 0 && revision.SourceOf(source.Kind, &metas[i]) == source {
			r.all = append(r.all, found)
		}
	}
	slices.SortFunc(r.all, func(a, b plan.Revision) int { return cmp.Compare(a.Number, b.Number) })
	return r
}

func (r revisions) choose(from, to string) (old, now pin.Pin, err error) {
	if len(r.all) == 0 {
		return old, now, fmt.Errorf("%s has no revisions: no workload was pinned to it", r.of)
	}
	target := r.all[len(r.all)-1].Number
	if to != "" {
		if target, err = parseNumber("to", to); err != nil {
			return old, now, err
		}
	}
	if now, err = r.numbered(target); err != nil {
		return old, now, err
	}
	base := int64(0)
	if from != "" {
		base, err = parseNumber("from", from)
	} else {
		base, err = r.before(target)
	}
	if err != nil {
		return old, now, err
	}
	old, err = r.numbered(base)
	return old, now, err
}

// numbered returns the revision of a number, or the source itself for 0.
func (r revisions) numbered(number int64) (pin.Pin, error) {
	if number == 0 {
		return pin.Pin{Revision: r.of.Name}, nil
	}
	return session.Numbered(r.of, r.all, number)
}

// before returns the number of the revision before one, or before the source.
func (r revisions) before(number int64) (int64, error) {
	for _, candidate := range slices.Backward(r.all) {
		if number == 0 || candidate.Number < number {
			return candidate.Number, nil
		}
	}
	return 0, fmt.Errorf("%s has no revision before %d; to compare it with the source as it is: --from=%d --to=source", r.of, number, number)
}

func parseNumber(flag, text string) (int64, error) {
	if text == "source" {
		return 0, nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 0 {
		return 0, fmt.Errorf(`--%s=%s: want the number of a revision, or "source"`, flag, text)
	}
	return number, nil
}
