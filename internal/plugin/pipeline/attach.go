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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/metadata"
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

// attachOptions are what is attached to what.
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
	cmd := &cobra.Command{
		Use:     "attach (--rollout NAME | --deployment NAME | --replicaset-selector LABELS)",
		Short:   "Make the newest ReplicaSet own ConfigMaps and Secrets, once",
		Long:    attachLong,
		Example: session.Examples(attachExamples),
		Args:    cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.rollout, "rollout", "", "`name` of the Argo Rollout")
	flags.StringVar(&o.deployment, "deployment", "", "`name` of the Deployment")
	flags.StringVar(&o.replicaSets, "replicaset-selector", "", "take the newest ReplicaSet with these `labels` instead of a workload's")
	flags.StringSliceVar(&o.configMaps, "configmaps", nil, "`names` of ConfigMaps")
	flags.StringSliceVar(&o.secrets, "secrets", nil, "`names` of Secrets")
	flags.StringVarP(&o.sources, "selector", "l", "", "every ConfigMap and Secret with these `labels`")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long to wait for the ReplicaSet")
	cmd.MarkFlagsMutuallyExclusive("rollout", "deployment", "replicaset-selector")
	cmd.MarkFlagsOneRequired("rollout", "deployment", "replicaset-selector")
	return session.Command(cmd, o)
}

// Fill reads the selectors.
func (o *attachOptions) Fill(*cobra.Command, []string) (err error) {
	if o.replicaSetSelector, err = labels.Parse(o.replicaSets); err != nil {
		return fmt.Errorf("--replicaset-selector: %w", err)
	}
	if o.sourceSelector, err = labels.Parse(o.sources); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	return nil
}

// Run waits for the ReplicaSet, and makes it an owner.
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

// attach appends the ReplicaSet to the owners of one object.
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

// enforced says what to do where the API server lets only those set owners who may delete the object. It gives no other sign of it.
func enforced(err error) string {
	if !strings.Contains(err.Error(), "cannot set an ownerRef on a resource you can't delete") {
		return ""
	}
	return " (it runs the admission plugin OwnerReferencesPermissionEnforcement: add the right to delete)"
}

// await waits, by watching, for the ReplicaSet of the workload's present template.
func (o *attachOptions) await(ctx context.Context, c *session.Connection) (*appsv1.ReplicaSet, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	forbidden, changed := make(chan error, 1), make(chan struct{}, 1)
	seen, err := o.watch(ctx, c, forbidden, changed)
	if err != nil {
		return nil, err
	}
	missing := errors.New("the API server has not said yet what there is")
	for {
		select {
		case err := <-forbidden:
			return nil, err
		case <-ctx.Done():
			return nil, fmt.Errorf("waited %s: %w", o.timeout, missing)
		case <-changed:
		}
		var found *appsv1.ReplicaSet
		if found, missing = o.newest(ctx, c, seen); missing == nil {
			return found, nil
		}
	}
}

// watch starts to watch ReplicaSets, and the workload if there is one: all that the Job needs rights for. It notifies of each change, and of
// nothing being there.
func (o *attachOptions) watch(ctx context.Context, c *session.Connection, forbidden chan<- error, changed chan<- struct{}) (client.Reader, error) {
	kind, name := o.workload()
	byObject := map[client.Object]cache.ByObject{&appsv1.ReplicaSet{}: {}}
	watched := []client.Object{&appsv1.ReplicaSet{}}
	if name != "" {
		byObject[kind.New()] = cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", name)}
		watched = append(watched, kind.New())
	}
	if err := o.permitted(ctx, c, watched); err != nil {
		return nil, err
	}
	seen, err := cache.New(c.Config, cache.Options{
		Scheme: clientgoscheme.Scheme, Mapper: c.RESTMapper(), ByObject: byObject,
		DefaultNamespaces: map[string]cache.Config{c.Namespace: {}},
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
			// Anything else passes, but the right to watch will not come.
			if apierrors.IsForbidden(err) {
				signal(forbidden, err)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	notify := func(any) { signal(changed, struct{}{}) }
	for _, obj := range watched {
		informer, err := seen.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(_, now any) { notify(now) }, DeleteFunc: notify,
		}); err != nil {
			return nil, err
		}
	}
	go func() { _ = seen.Start(ctx) }()
	go func() {
		// Where there is nothing, no handler is called.
		if seen.WaitForCacheSync(ctx) {
			notify(nil)
		}
	}()
	return seen, nil
}

// signal sends to a channel that holds one value, unless there is one that was not received yet.
func signal[T any](to chan<- T, value T) {
	select {
	case to <- value:
	default:
	}
}

// permitted asks for what will be watched once: a missing right or kind is no reason to wait.
func (o *attachOptions) permitted(ctx context.Context, c *session.Connection, watched []client.Object) error {
	for _, obj := range watched {
		gvk := workload.GVKOf(obj)
		list := metadata.NewList(gvk)
		options := []client.ListOption{client.InNamespace(c.Namespace), client.Limit(1)}
		if _, name := o.workload(); gvk.Kind != "ReplicaSet" {
			options = append(options, client.MatchingFields{"metadata.name": name})
		}
		if err := c.List(ctx, list, options...); err != nil {
			return err
		}
	}
	return nil
}

// workload returns the kind and name of the workload; no name when only ReplicaSets are looked for.
func (o *attachOptions) workload() (workload.Kind, string) {
	if o.rollout != "" {
		return workload.Rollout, o.rollout
	}
	return workload.Deployment, o.deployment
}

// newest finds the ReplicaSet to attach to; an error says why there is none yet.
func (o *attachOptions) newest(ctx context.Context, c *session.Connection, seen client.Reader) (*appsv1.ReplicaSet, error) {
	all := &appsv1.ReplicaSetList{}
	if err := seen.List(ctx, all, client.InNamespace(c.Namespace)); err != nil {
		return nil, err
	}
	kind, name := o.workload()
	if name == "" {
		return newestOf(all.Items, o.replicaSetSelector)
	}
	obj := kind.New()
	if err := seen.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, obj); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%s %q does not exist in namespace %q", kind.Resource(), name, c.Namespace)
		}
		return nil, err
	}
	return kind.CurrentReplicaSet(obj, all.Items)
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
