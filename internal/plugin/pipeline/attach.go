package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

const attachLong = `Make the newest ReplicaSet of a workload own ConfigMaps and Secrets, so that Kubernetes deletes them with the last ReplicaSet
that needs them. For deploys that give each version a name of its own, and for clusters without confrev's controller; run it as a
Job after each deploy.

It waits until the workload's controller has made the ReplicaSet of the workload's present template, then adds it to the owners of
each object. Owners that are there stay. Without names it takes every ConfigMap and Secret that the ReplicaSet's pod template
refers to; mind that whatever is attached goes with its last ReplicaSet.

The flags -rollout, -namespace and -configmaps of configmap-attacher are understood. The exit status is 0 when all is attached, 1
otherwise.`

const attachExamples = `
	# What the newest ReplicaSet of a Rollout refers to
	kubectl confrev attach --rollout web

	# Two ConfigMaps and a Secret, to that of a Deployment
	kubectl confrev attach --deployment web --configmaps app-7,flags-7 --secrets db-7

	# All ConfigMaps and Secrets with a label
	kubectl confrev attach --rollout web --selector release=7

	# To the newest ReplicaSet with a label, whatever created it
	kubectl confrev attach --replicaset-selector configMap=app-7 --configmaps app-7`

type attachOptions struct {
	*session.Session
	rollout, deployment  string
	replicaSets, sources string
	configMaps, secrets  []string
	timeout              time.Duration

	replicaSetSelector, sourceSelector labels.Selector
}

// NewAttach returns the verb that makes a new ReplicaSet own sources.
func NewAttach(p *session.Session) *cobra.Command {
	o := &attachOptions{Session: p}
	return session.Command(o.command(), o)
}

// command returns the command without its effect.
func (o *attachOptions) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "attach (--rollout NAME | --deployment NAME | --replicaset-selector LABELS)",
		Short:   "Make the newest ReplicaSet own ConfigMaps and Secrets, once",
		Long:    attachLong,
		Example: session.Examples(attachExamples),
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.rollout, "rollout", "", "Name of the Argo Rollout.")
	flags.StringVar(&o.deployment, "deployment", "", "Name of the Deployment.")
	flags.StringVar(&o.replicaSets, "replicaset-selector", "", "Selector (label query) of ReplicaSets. The newest is taken instead of a workload's.")
	flags.StringSliceVar(&o.configMaps, "configmaps", nil, "Names of the ConfigMaps to attach.")
	flags.StringSliceVar(&o.secrets, "secrets", nil, "Names of the Secrets to attach.")
	flags.StringVarP(&o.sources, "selector", "l", "", "Selector (label query) of the ConfigMaps and Secrets to attach.")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "The length of time to wait for the ReplicaSet.")
	cmd.MarkFlagsMutuallyExclusive("rollout", "deployment", "replicaset-selector")
	cmd.MarkFlagsOneRequired("rollout", "deployment", "replicaset-selector")
	return cmd
}

func (o *attachOptions) Fill(cmd *cobra.Command, _ []string) (err error) {
	if err := o.filled(cmd); err != nil {
		return err
	}
	if o.replicaSetSelector, err = labels.Parse(o.replicaSets); err != nil {
		return fmt.Errorf("--replicaset-selector: %w", err)
	}
	if o.sourceSelector, err = labels.Parse(o.sources); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	return nil
}

// filled refuses flags that are given and empty, such as a pipeline's variable that is not set. They would mean everything.
func (o *attachOptions) filled(cmd *cobra.Command) error {
	blank := func(text string) bool { return strings.TrimSpace(text) == "" }
	for _, flag := range []struct{ name, value, want string }{
		{"rollout", o.rollout, "name a Rollout"},
		{"deployment", o.deployment, "name a Deployment"},
		{"replicaset-selector", o.replicaSets, "give labels of ReplicaSets"},
		{"selector", o.sources, "give labels of ConfigMaps and Secrets"},
	} {
		if cmd.Flags().Changed(flag.name) && blank(flag.value) {
			return fmt.Errorf("--%s is empty: %s", flag.name, flag.want)
		}
	}
	for _, flag := range []struct {
		name, want string
		values     []string
	}{{"configmaps", "name ConfigMaps", o.configMaps}, {"secrets", "name Secrets", o.secrets}} {
		if cmd.Flags().Changed(flag.name) && (len(flag.values) == 0 || slices.ContainsFunc(flag.values, blank)) {
			return fmt.Errorf("--%s is empty, or has an empty name: %s", flag.name, flag.want)
		}
	}
	return nil
}

func (o *attachOptions) Run(ctx context.Context) error {
	c, err := o.Connect()
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	replicaSet, err := o.await(waiting, c)
	if err != nil {
		return err
	}
	uses, err := o.choose(ctx, c, replicaSet)
	if err != nil {
		return err
	}
	if len(uses) == 0 {
		return fmt.Errorf("replicaset/%s refers to no ConfigMap and no Secret; name some with --configmaps or --secrets", replicaSet.Name)
	}
	// One that is missing does not keep the others from being attached.
	var errs []error
	for _, use := range uses {
		errs = append(errs, o.attach(ctx, c, replicaSet, use))
	}
	return errors.Join(errs...)
}

// choose returns what to attach. What is named must be there.
func (o *attachOptions) choose(ctx context.Context, c *session.Connection, replicaSet *appsv1.ReplicaSet) ([]podspec.Use, error) {
	if len(o.configMaps)+len(o.secrets) == 0 && o.sources == "" {
		return podspec.Uses(&replicaSet.Spec.Template.Spec), nil
	}
	var uses []podspec.Use
	add := func(kind pin.Kind, name string) {
		uses = append(uses, podspec.Use{Source: pin.Source{Kind: kind, Name: strings.TrimSpace(name)}, Required: true})
	}
	for kind, names := range map[pin.Kind][]string{pin.ConfigMap: o.configMaps, pin.Secret: o.secrets} {
		for _, name := range names {
			add(kind, name)
		}
	}
	if o.sources != "" {
		for _, kind := range pin.Kinds {
			list := revision.NewMetadataList(kind)
			if err := c.List(ctx, list, client.InNamespace(c.Namespace), client.MatchingLabelsSelector{Selector: o.sourceSelector}); err != nil {
				return nil, err
			}
			for i := range list.Items {
				add(kind, list.Items[i].Name)
			}
		}
	}
	slices.SortFunc(uses, func(a, b podspec.Use) int { return a.Compare(b.Source) })
	return slices.CompactFunc(uses, func(a, b podspec.Use) bool { return a.Source == b.Source }), nil
}

func (o *attachOptions) attach(ctx context.Context, c *session.Connection, replicaSet *appsv1.ReplicaSet, use podspec.Use) error {
	source, owner := use.Source, revision.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet.Name, UID: replicaSet.UID}
	added := false
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		added, err = revision.AddOwner(ctx, c, revision.Ref{Kind: source.Kind, Namespace: c.Namespace, Name: source.Name}, owner)
		return err
	})
	if apierrors.IsNotFound(err) && !use.Required {
		_, err = fmt.Fprintf(o.Out, "%s does not exist, and is optional in replicaset/%s\n", source, replicaSet.Name)
		return err
	}
	if err != nil {
		return fmt.Errorf("attach %s to replicaset/%s: %w%s", source, replicaSet.Name, err, enforced(err))
	}
	what := "is attached already to"
	if added {
		what = "attached to"
	}
	_, err = fmt.Fprintf(o.Out, "%s %s replicaset/%s\n", source, what, replicaSet.Name)
	return err
}

// enforced returns what to do where the API server lets only those set owners who may delete the object. It gives no other sign of it.
func enforced(err error) string {
	if !strings.Contains(err.Error(), "cannot set an ownerRef on a resource you can't delete") {
		return ""
	}
	return " (it runs the admission plugin OwnerReferencesPermissionEnforcement: add the right to delete)"
}

// await waits for the ReplicaSet of the workload's present template.
func (o *attachOptions) await(ctx context.Context, c *session.Connection) (*appsv1.ReplicaSet, error) {
	missing := errors.New("the API server has not said yet what there is")
	for {
		found, err := o.watch(ctx, c, &missing)
		switch {
		case errors.Is(ctx.Err(), context.Canceled):
			return nil, ctx.Err()
		case ctx.Err() != nil && found == nil:
			return nil, fmt.Errorf("waited %s: %w", o.timeout, missing)
		case !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
			return found, err
		}
	}
}

// watch watches one kind: the workload, whose controller reports in its status that it has made a ReplicaSet, or ReplicaSets where there
// is no workload. missing becomes why there is none yet.
func (o *attachOptions) watch(ctx context.Context, c *session.Connection, missing *error) (found *appsv1.ReplicaSet, err error) {
	list, options := client.ObjectList(&appsv1.ReplicaSetList{}), []client.ListOption{client.InNamespace(c.Namespace)}
	if kind, name := o.workload(); name != "" {
		list, options = kind.NewList(), append(options, client.MatchingFields{"metadata.name": name})
	}
	if err := c.List(ctx, list, options...); err != nil {
		return nil, err
	}
	items, err := index.Items(list)
	if err != nil {
		return nil, err
	}
	examine := func(obj ...client.Object) (bool, error) {
		var why error
		// One that was cut off says nothing.
		if found, why, err = o.newest(ctx, c, obj); err == nil {
			*missing = why
		}
		return found != nil, err
	}
	if done, err := examine(items...); done || err != nil {
		return found, err
	}
	watcher := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
		return c.Watch(ctx, list, append(slices.Clone(options), &client.ListOptions{Raw: &raw})...)
	}}
	_, err = watchtools.Until(ctx, list.GetResourceVersion(), watcher, func(event watch.Event) (bool, error) {
		switch event.Type {
		case watch.Error:
			return false, apierrors.FromObject(event.Object)
		case watch.Deleted:
			return examine()
		}
		return examine(event.Object.(client.Object))
	})
	return found, err
}

// workload returns the kind and name of the workload; no name when only ReplicaSets are looked for.
func (o *attachOptions) workload() (workload.Kind, string) {
	if o.rollout != "" {
		return workload.Rollout, o.rollout
	}
	return workload.Deployment, o.deployment
}

// newest finds the ReplicaSet to attach to; missing says why there is none yet. seen has the workload, if it exists.
func (o *attachOptions) newest(ctx context.Context, c *session.Connection, seen []client.Object) (found *appsv1.ReplicaSet, missing, err error) {
	all := &appsv1.ReplicaSetList{}
	if err := c.List(ctx, all, client.InNamespace(c.Namespace)); err != nil {
		return nil, nil, err
	}
	kind, name := o.workload()
	switch {
	case name == "":
		found, missing = newestOf(all.Items, o.replicaSetSelector)
	case len(seen) == 0:
		missing = fmt.Errorf("%s %q does not exist in namespace %q", kind.Resource(), name, c.Namespace)
	default:
		found, missing = kind.CurrentReplicaSet(seen[0], all.Items)
	}
	return found, missing, nil
}

// newestOf returns the ReplicaSet that was made last among those with some labels.
func newestOf(all []appsv1.ReplicaSet, selector labels.Selector) (*appsv1.ReplicaSet, error) {
	with := slices.DeleteFunc(all, func(rs appsv1.ReplicaSet) bool { return !selector.Matches(labels.Set(rs.Labels)) })
	newest := workload.NewestReplicaSet(with)
	if newest == nil {
		return nil, fmt.Errorf("no ReplicaSet has the labels %s", selector)
	}
	return newest, nil
}
