package change

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/revision"
)

// NewSet groups the verbs that set one thing of an object, as kubectl set does.
func NewSet(p *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set SUBCOMMAND", Short: "Set the owner of a source, or the volumes of a workload",
		Example: session.Examples(`kubectl confrev set volume deployment/web`), Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSetOwner(p), newSetVolume(p))
	return cmd
}

const setOwnerLong = `Make a workload an owner of a ConfigMap or Secret, and roll the workload out when that source changes.

It lists the source in the workload's annotation confrev.io/track, unless it is tracked already, and then adds the owner: an owner
by itself opts nothing in. So it needs a right to change both.

It has a cost: when the workload is deleted, Kubernetes deletes the source too, unless another owner is left. If you do not want
that, use the annotation alone: kubectl confrev track WORKLOAD SOURCE.`

const setOwnerExample = `# Roll deployment/web out when configmap/app changes, and delete the ConfigMap with the Deployment
kubectl confrev set owner configmap/app deployment/web

# Remove the owner
kubectl confrev set owner configmap/app deployment/web --remove`

type setOwner struct {
	*writing
	source   pin.Source
	workload string
	remove   bool
}

func newSetOwner(p *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "owner SOURCE WORKLOAD", Short: "Make a workload an owner of a source", Long: setOwnerLong, Example: session.Examples(setOwnerExample),
		DisableFlagsInUseLine: true,
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return p.CompleteSource(cmd, args, toComplete)
		case 1:
			return p.CompleteWorkload(cmd, args, toComplete)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return session.Command(cmd, newOwnerSetter(p, cmd))
}

// newOwnerSetter adds the flags to a command.
func newOwnerSetter(p *session.Session, cmd *cobra.Command) *setOwner {
	s := &setOwner{writing: newWriting(p, cmd, "owned")}
	cmd.Flags().BoolVar(&s.remove, "remove", false, "If true, remove the owner instead.")
	return s
}

func (s *setOwner) Fill(cmd *cobra.Command, args []string) (err error) {
	if len(args) != 2 {
		return fmt.Errorf("want a source and a workload, such as configmap/app deployment/web; have %d arguments", len(args))
	}
	if s.source, err = session.ParseSource(args[0]); err != nil {
		return err
	}
	s.workload = args[1]
	if s.remove {
		s.print.NamePrintFlags.Operation = "no longer owned"
	}
	return s.complete(cmd)
}

func (s *setOwner) Run(ctx context.Context) error {
	c, err := s.Connect()
	if err != nil {
		return err
	}
	found, err := s.FindNamed(ctx, c, s.workload)
	if err != nil {
		return err
	}
	// Nothing is to be written on the workload for a source that is not there.
	key := client.ObjectKey{Namespace: c.Namespace, Name: s.source.Name}
	if err := c.Get(ctx, key, revision.NewSource(s.source.Kind)); err != nil {
		return err
	}
	var tracked listing
	if !s.remove {
		if tracked, err = s.trackOwned(ctx, c, s.workload, s.source); err != nil {
			return err
		}
	}
	return untilUnchanged(func() error {
		obj := revision.NewSource(s.source.Kind)
		if err := c.Get(ctx, key, obj); err != nil {
			return err
		}
		return s.own(ctx, c, found, obj, tracked)
	})
}

// own writes the reference. tracked is what became of the workload's annotation.
func (s *setOwner) own(ctx context.Context, c *session.Connection, found session.Target, obj client.Object, tracked listing) error {
	owner := ownerReference(found)
	before := obj.GetOwnerReferences()
	after := slices.DeleteFunc(slices.Clone(before), func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
	if !s.remove {
		after = append(after, owner)
	}
	if len(after) == len(before) && !tracked.wrote {
		return s.unchanged(obj)
	}
	obj.SetOwnerReferences(after)
	if s.dryRun != cmdutil.DryRunClient {
		// With the resourceVersion that was read: an owner that is added meanwhile must not be lost.
		if err := c.Update(ctx, obj, &client.UpdateOptions{FieldManager: s.fieldManager, DryRun: s.serverDryRun()}); err != nil {
			return err
		}
	}
	if s.remove {
		return s.printed(obj, fmt.Sprintf("%[1]s no longer owns it. If %[1]s tracks it, that does not change; to stop: kubectl confrev untrack %[1]s %[2]s%[3]s", s.workload, s.source, session.Namespaced(obj.GetNamespace())))
	}
	return s.printed(obj, append(tracked.notes, deletedWith(s.source, s.workload, obj.GetNamespace()))...)
}

// deletedWith returns the cost of an owner.
func deletedWith(source pin.Source, workload, namespace string) string {
	return fmt.Sprintf("deleting %[1]s now deletes %[2]s too. To prevent that: kubectl confrev set owner %[2]s %[1]s --remove%[3]s", workload, source, session.Namespaced(namespace))
}

// listing is what became of the annotation confrev.io/track of a workload that is to own a source: whether it was written, and what follows.
type listing struct {
	wrote bool
	notes []string
}

// trackOwned lists a source in the workload's annotation confrev.io/track, before the workload becomes its owner: a user who may
// write owners into a source has no say about workloads, so the reference by itself opts nothing in. It writes nothing where the
// source is tracked already, or where the workload or its namespace consents to ownerReferences.
func (w *writing) trackOwned(ctx context.Context, c *session.Connection, workload string, source pin.Source) (tracked listing, err error) {
	err = w.onTarget(ctx, c, workload, func(found session.Target) error {
		tracked, err = w.tryToTrackOwned(ctx, c, found, source)
		return err
	})
	return tracked, err
}

func (w *writing) tryToTrackOwned(ctx context.Context, c *session.Connection, found session.Target, source pin.Source) (listing, error) {
	asked, err := found.Config(ctx, c)
	if err != nil {
		return listing{}, err
	}
	before := found.Object.GetAnnotations()[keys.Track]
	after, err := withOwned(found, before, asked.Track, source)
	if err != nil {
		return listing{}, err
	}
	tracked := listing{wrote: after != before, notes: consequences(ctx, c, found, source.String())}
	if !tracked.wrote {
		return tracked, nil
	}
	if err := w.annotate(ctx, c, found.Object, map[string]string{keys.Track: after}); err != nil {
		return listing{}, fmt.Errorf("annotate %s: %w", found, err)
	}
	tracked.notes = append([]string{fmt.Sprintf("%s of %s: %s -> %s", keys.Track, found, orNothing(before), after)}, tracked.notes...)
	return tracked, nil
}

// withOwned returns the annotation confrev.io/track with one source more, or as it is if that is tracked without.
func withOwned(t session.Target, before string, track optin.Track, source pin.Source) (string, error) {
	switch {
	case track.None():
		return "", fmt.Errorf("%[1]s is opted out of everything (%[2]s: none), owners too, so nothing was done; first: kubectl confrev track %[1]s %[3]s%[4]s", t, keys.Track, source, t.Namespaced())
	case track.Owners():
		return before, nil
	}
	return addTracked(t, before, track, []pin.Source{source})
}

// ownerReference returns the reference by which a workload owns a source: neither as its controller, nor in the way of its deletion.
func ownerReference(t session.Target) metav1.OwnerReference {
	apiVersion, kind := t.Kind.GVK.ToAPIVersionAndKind()
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: t.Object.GetName(), UID: t.Object.GetUID()}
}
