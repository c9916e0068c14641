// Package change has the verbs that write: undo, resume, advance, track, untrack, create and set. They move pins as the controller
// does, with the rights of the user.
package change

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/view"
)

const undoLong = `Roll the configuration of a workload back, and nothing else: the image stays. (kubectl rollout undo takes both back.)

The workload is pinned to an earlier revision of its sources, and held there until the source changes or you resume it. Without
SOURCE, all sources go back to what the workload had before its last change of configuration. Without --to-revision, a source
goes back to the revision before, among those that the workload has rolled out and still knows.

With --restore-source the old content is written back into the source itself instead: everything that uses the source gets it, as
with any other edit, and nothing is held. Without --to-revision, that is the content that the workload has, if the source has
another (the workload is held, or the change has not reached it yet), and otherwise the one before. If the source is gone, it is
created. It needs a right to change, or to create, the source.`

const undoExample = `# See what would be written
kubectl confrev undo deployment/web --dry-run=server -o yaml

# The configuration before the last change; the image stays
kubectl confrev undo deployment/web

# Only one of its sources, to a certain revision (kubectl confrev history configmap/app lists them)
kubectl confrev undo deployment/web configmap/app --to-revision=1

# Write the old content back into the source, for all who use it
kubectl confrev undo deployment/web configmap/app --restore-source`

type undo struct {
	onWorkload
	toRevision int64
	restore    bool
}

// NewUndo returns the verb that rolls a workload back.
func NewUndo(p *session.Session) *cobra.Command {
	base, cmd := newOnWorkload(p, "undo WORKLOAD [SOURCE] [--to-revision=N]", "Roll back the configuration only; the image stays",
		undoLong, undoExample, "rolled back")
	u := &undo{onWorkload: base}
	cmd.Flags().Int64Var(&u.toRevision, "to-revision", 0, "The revision of the source to go back to. 0 means the one before.")
	cmd.Flags().BoolVar(&u.restore, "restore-source", false, "If true, write the old content back into the source instead of pinning the workload to it.")
	_ = cmd.RegisterFlagCompletionFunc("to-revision", p.CompleteRevisions)
	return session.Command(cmd, u)
}

func (u *undo) Fill(cmd *cobra.Command, args []string) error {
	if err := u.onWorkload.Fill(cmd, args); err != nil {
		return err
	}
	switch {
	case len(u.sources) > 1:
		return fmt.Errorf("want at most one source, have %d", len(u.sources))
	case u.toRevision < 0:
		return fmt.Errorf("--to-revision=%d: want 1 or more, or 0 for the one before", u.toRevision)
	}
	return nil
}

func (u *undo) Run(ctx context.Context) error {
	if u.restore {
		return u.restoreSource(ctx)
	}
	return u.steer(ctx, func(t session.Target, look rollout.Assessment) (move, error) {
		return previousPins(t, look, u.sources, u.toRevision)
	})
}

// previousPins finds the earlier pins of the sources that are named, or of all.
func previousPins(t session.Target, look rollout.Assessment, sources []pin.Source, number int64) (move, error) {
	all, err := pinned(t, look, sources)
	if err != nil {
		return move{}, err
	}
	if len(sources) == 0 && len(all) > 1 {
		if number > 0 {
			return move{}, fmt.Errorf("%s has several sources: name the one that --to-revision=%d is of, such as %s", t, number, all[0].Source)
		}
		return previousConfiguration(t, look, all)
	}
	to, err := earlier(all[0], look, number)
	if err != nil {
		return move{}, err
	}
	if all[0].From == to {
		return move{why: []string{fmt.Sprintf("%s: is at revision %d already", all[0].Source, to.Number)}}, nil
	}
	all[0].To = to
	return move{decisions: all[:1]}, nil
}

// pinned returns the decisions about sources of which the workload has a pin that could go back.
func pinned(t session.Target, look rollout.Assessment, sources []pin.Source) ([]plan.Decision, error) {
	all, err := chosen(t, look, sources)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(d plan.Decision) bool {
		_, isPinned := look.Template[d.Source]
		return !isPinned || look.Rotates(d.Source)
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no pins to roll back: %s", t, whyUnpinned(look))
	}
	return all, nil
}

func whyUnpinned(look rollout.Assessment) string {
	for _, d := range look.Hashes.Decisions {
		if look.Rotates(d.Source) {
			return fmt.Sprintf("%s rotates, so pods read it live, and no undo brings old content back", d.Source)
		}
	}
	if len(look.Pins.Decisions) == 0 {
		return view.NothingCopied(look.Config.Mode)
	}
	return "the controller has not pinned it yet"
}

// previousConfiguration finds the pins that the workload had before its last change of configuration: those of the newest holder
// that has an earlier revision of some source.
func previousConfiguration(t session.Target, look rollout.Assessment, all []plan.Decision) (move, error) {
	newestFirst := slices.SortedStableFunc(slices.Values(look.RolledOut), func(a, b plan.Holder) int { return cmp.Compare(b.Order, a.Order) })
	for _, holder := range newestFirst {
		var moving move
		for _, d := range all {
			p := holder.Pins[d.Source]
			if p.Number < d.From.Number && p.Revision != d.From.Revision && look.Sources[d.Source].Exists(p.Revision) {
				d.To = p
				moving.decisions = append(moving.decisions, d)
			}
		}
		if len(moving.decisions) > 0 {
			return moving, nil
		}
	}
	return move{}, fmt.Errorf("%s has rolled out no earlier configuration that still exists", t)
}

// earlier returns the pin of a source that has a number, or the one before the present one.
func earlier(d plan.Decision, look rollout.Assessment, number int64) (pin.Pin, error) {
	source := look.Sources[d.Source]
	var before pin.Pin
	for _, holder := range look.RolledOut {
		p := holder.Pins[d.Source]
		switch {
		case p == (pin.Pin{}) || !source.Exists(p.Revision):
		case number > 0 && p.Number == number:
			return p, nil
		case number == 0 && p.Number < d.From.Number && p.Revision != d.From.Revision && p.Number > before.Number:
			before = p
		}
	}
	if number > 0 {
		return session.Numbered(d.Source, source.Revisions, number)
	}
	if before == (pin.Pin{}) {
		return pin.Pin{}, fmt.Errorf("no revision of %s before %d, which the workload is on, was rolled out by it and still exists; "+
			"choose one with --to-revision: there is %s", d.Source, d.From.Number, session.Numbers(source.Revisions))
	}
	return before, nil
}

// restoreSource writes the content of an earlier revision back into its source.
func (u *undo) restoreSource(ctx context.Context) error {
	c, err := u.Connect()
	if err != nil {
		return err
	}
	found, err := u.FindTarget(ctx, c, u.workload)
	if err != nil {
		return err
	}
	_, look, err := found.Assess(ctx, c)
	if err != nil {
		return err
	}
	d, err := toRestore(found, look, u.sources, u.toRevision)
	if err != nil {
		return err
	}
	namespace := look.Workload.GetNamespace()
	old := revision.NewSource(d.Source.Kind)
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: d.To.Revision}, old); err != nil {
		return err
	}
	return u.overwriteUnlessEdited(ctx, c, namespace, d, old)
}

// toRestore finds the one revision whose content is to be restored.
func toRestore(t session.Target, look rollout.Assessment, sources []pin.Source, number int64) (plan.Decision, error) {
	all, err := pinned(t, look, sources)
	if err != nil {
		return plan.Decision{}, err
	}
	if len(all) > 1 {
		return plan.Decision{}, fmt.Errorf("%s has several sources: name the one to restore, such as %s", t, all[0].Source)
	}
	d := all[0]
	// What a workload still has, of a source whose present content it does not have, is what to restore.
	if d.To = d.From; number > 0 || d.Verdict == plan.InSync {
		d.To, err = earlier(d, look, number)
	}
	return d, err
}

// overwriteUnlessEdited replaces the content of a source. After a conflict, it does so again only if no one else has edited the
// content: the new version has the resourceVersion that would let that edit be overwritten.
func (u *undo) overwriteUnlessEdited(ctx context.Context, c *session.Connection, namespace string, d plan.Decision, old client.Object) error {
	var first client.Object
	read := false
	return untilUnchanged(func() error {
		source, err := readSource(ctx, c, namespace, d.Source)
		switch {
		case err != nil:
			return err
		case source != nil && revision.SameContent(source, old):
			return u.unchanged(source, fmt.Sprintf("has the content of revision %d already", d.To.Number))
		case read && !sameSource(source, first):
			return fmt.Errorf("%s has just been changed by someone else, so nothing was done: look at it, and run this again", d.Source)
		}
		first, read = source, true
		return u.overwrite(ctx, c, namespace, d, source, old)
	})
}

// readSource returns a source, or nil if it does not exist.
func readSource(ctx context.Context, c client.Reader, namespace string, name pin.Source) (client.Object, error) {
	source := revision.NewSource(name.Kind)
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name.Name}, source)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return source, err
}

// sameSource reports whether two sources that were read have the same content, or both do not exist.
func sameSource(a, b client.Object) bool {
	return a == nil && b == nil || a != nil && b != nil && revision.SameContent(a, b)
}

// overwrite replaces the content of a source, and nothing else of it. It creates a source that is gone, which is nil.
func (u *undo) overwrite(ctx context.Context, c *session.Connection, namespace string, d plan.Decision, source, old client.Object) (err error) {
	gone := source == nil
	if gone {
		source = revision.NewSource(d.Source.Kind)
		source.SetNamespace(namespace)
		source.SetName(d.Source.Name)
	} else {
		source = source.DeepCopyObject().(client.Object)
	}
	setContent(source, old)
	switch {
	case u.dryRun == cmdutil.DryRunClient:
	case gone:
		err = c.Create(ctx, source, &client.CreateOptions{FieldManager: u.fieldManager, DryRun: u.serverDryRun()})
		if apierrors.IsAlreadyExists(err) {
			err = revision.NewChanged("%s", d.Source)
		}
	default:
		// With the resourceVersion that was read: an edit made meanwhile is not to be lost.
		err = c.Update(ctx, source, &client.UpdateOptions{FieldManager: u.fieldManager, DryRun: u.serverDryRun()})
	}
	if err != nil {
		return err
	}
	u.print.NamePrintFlags.Operation = strings.Replace(u.print.NamePrintFlags.Operation, "rolled back", "restored", 1)
	return u.printed(source,
		fmt.Sprintf("has the content of revision %d (%s) again", d.To.Number, d.To.Revision),
		"every workload that tracks it rolls out to that content, as after any edit; the tool that deploys it (GitOps, Helm) may overwrite it")
}

func setContent(source, from client.Object) {
	switch o := source.(type) {
	case *corev1.Secret:
		if o.Type == "" {
			// It is new: the type of one that exists cannot be changed.
			o.Type = from.(*corev1.Secret).Type
		}
		o.Data = from.(*corev1.Secret).Data
	case *corev1.ConfigMap:
		o.Data, o.BinaryData = from.(*corev1.ConfigMap).Data, from.(*corev1.ConfigMap).BinaryData
	}
}
