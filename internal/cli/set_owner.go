package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/pin"
)

const setOwnerLong = `Make a workload an owner of a ConfigMap or Secret, which lets changes of that source roll the workload out.

It has a cost: when the workload is deleted, Kubernetes deletes the source too, unless another owner is left. If you do not want
that, use the annotation instead: kubectl confrev track WORKLOAD SOURCE.`

const setOwnerExample = `# Let changes of configmap/app roll deployment/web out; the ConfigMap goes with the Deployment
kubectl confrev set owner configmap/app deployment/web

# Take it back
kubectl confrev set owner configmap/app deployment/web --remove`

type setOwner struct {
	*writing
	remove bool
}

func newSetOwner(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use: "owner SOURCE WORKLOAD", Short: "Make a workload an owner of a source", Long: setOwnerLong, Example: examples(setOwnerExample),
		DisableFlagsInUseLine: true,
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return p.completeSource(cmd, args, toComplete)
		case 1:
			return p.completeWorkload(cmd, args, toComplete)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s := &setOwner{writing: newWriting(p, cmd, "owned")}
	cmd.Flags().BoolVar(&s.remove, "remove", false, "Take the owner away instead")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return fmt.Errorf("want a source and a workload, such as configmap/app deployment/web; have %d arguments", len(args))
		}
		source, err := parseSource(args[0])
		if err != nil {
			return err
		}
		c, err := s.ready(cmd)
		if err != nil {
			return err
		}
		return untilUnchanged(func() error { return s.run(cmd.Context(), c, source, args[1]) })
	}
	return cmd
}

func (s *setOwner) run(ctx context.Context, c *connection, source pin.Source, workload string) error {
	owner, err := s.owner(ctx, c, workload)
	if err != nil {
		return err
	}
	obj := newSource(source.Kind)
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: source.Name}, obj); err != nil {
		return err
	}
	before := obj.GetOwnerReferences()
	after := slices.DeleteFunc(slices.Clone(before), func(o metav1.OwnerReference) bool { return o.UID == owner.UID })
	if !s.remove {
		after = append(after, owner)
	}
	if len(after) == len(before) {
		return s.unchanged(obj)
	}
	obj.SetOwnerReferences(after)
	if s.dryRun != cmdutil.DryRunClient {
		// With the resourceVersion that was read: an owner whom somebody else adds meanwhile is not to be lost.
		if err := c.Update(ctx, obj, s.updateOptions()); err != nil {
			return err
		}
	}
	if s.remove {
		return s.printed(obj, fmt.Sprintf("%s no longer owns it; its pins stay until its next change", workload))
	}
	return s.printed(obj, ownerNotes(source, workload)...)
}

func ownerNotes(source pin.Source, workload string) []string {
	return []string{
		fmt.Sprintf("changes of %s roll %s out; a controller pins it at once, which is a rollout", source, workload),
		fmt.Sprintf("deleting %s now deletes %s too. Without that: kubectl confrev track %s %s", workload, source, workload, source),
	}
}

// owner gives the reference by which a workload owns a source: neither its controller, nor in the way of its deletion.
func (p *plugin) owner(ctx context.Context, c *connection, name string) (metav1.OwnerReference, error) {
	found, err := p.named(ctx, c, name)
	if err != nil {
		return metav1.OwnerReference{}, err
	}
	apiVersion, kind := found.kind.GVK.ToAPIVersionAndKind()
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: found.obj.GetName(), UID: found.obj.GetUID()}, nil
}
