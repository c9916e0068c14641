package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/version"
)

const releaseLong = `Remove the finalizer of confrev.io/protect from all sources, so that they and their namespaces can be deleted.

Run it after the controller is uninstalled: nothing else removes the finalizer then. The chart does so in a Job when its release is
deleted. It restarts nothing, and it leaves the annotation, so that sources are protected again if confrev is.`

// releaseSourcesCommand returns the command that removes what would keep sources from being deleted when confrev is gone (rule 16).
func releaseSourcesCommand() *cobra.Command {
	var f flags
	var options rollout.Options
	var namespaces []string
	cmd := &cobra.Command{
		Use:   "release-sources",
		Short: "Remove confrev's finalizer from all sources, after confrev is uninstalled",
		Long:  releaseLong,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := f.load()
			if err != nil {
				return err
			}
			config.UserAgent = "confrev/" + version.String()
			c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
			if err != nil {
				return err
			}
			return releaseSources(cmd.Context(), c, options.SourceKinds(), namespaces, cmd.OutOrStdout())
		},
	}
	f.addCluster(cmd)
	addSecrets(cmd, &options)
	cmd.Flags().StringSliceVar(&namespaces, "watch-namespaces", nil, "the only `namespaces` to work in (default: all)")
	return cmd
}

// passes is how often the sources of a kind are looked at while some of them change.
const passes = 10

// sourceList names the sources of a kind, in one namespace or all.
type sourceList struct {
	kind      pin.Kind
	namespace string
}

// releaseSources removes confrev's finalizer from all sources, in all namespaces if none are named, and prints which they were. What
// changes meanwhile is looked at again, after all others, so that one that changes all the time does not keep these.
func releaseSources(ctx context.Context, c client.Client, kinds []pin.Kind, namespaces []string, out io.Writer) error {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var lists []sourceList
	for _, namespace := range namespaces {
		for _, kind := range kinds {
			lists = append(lists, sourceList{kind, namespace})
		}
	}
	var problems []error
	for pass := 1; len(lists) > 0; pass++ {
		var again []sourceList
		for _, list := range lists {
			changed, err := releasePass(ctx, c, list, out)
			if changed != nil && pass < passes {
				again = append(again, list)
				continue
			}
			problems = append(problems, changed, err)
		}
		lists = again
	}
	return errors.Join(problems...)
}

// releasePass releases the sources of a list. changed says why another pass is needed, since some changed, or the list expired: that finds
// again what this one could not release.
func releasePass(ctx context.Context, c client.Client, sources sourceList, out io.Writer) (changed, err error) {
	var changes, problems []error
	for token := ""; ; {
		list := revision.NewMetadataList(sources.kind)
		if err := c.List(ctx, list, client.InNamespace(sources.namespace), client.Limit(500), client.Continue(token)); err != nil {
			err = fmt.Errorf("list %ss%s: %w", sources.kind, in(sources.namespace), err)
			if apierrors.IsResourceExpired(err) {
				return err, errors.Join(problems...)
			}
			return nil, errors.Join(append(problems, err)...)
		}
		for i := range list.Items {
			source := &list.Items[i]
			if !slices.Contains(source.Finalizers, keys.ProtectFinalizer) {
				continue
			}
			err := release(ctx, c, sources.kind, source)
			switch {
			case apierrors.IsConflict(err):
				changes = append(changes, err)
			case err != nil:
				problems = append(problems, err)
			default:
				_, _ = fmt.Fprintf(out, "released %s/%s in namespace %s\n", sources.kind, source.Name, source.Namespace)
			}
		}
		if token = list.Continue; token == "" {
			return errors.Join(changes...), errors.Join(problems...)
		}
	}
}

func in(namespace string) string {
	if namespace == metav1.NamespaceAll {
		return ""
	}
	return " in namespace " + namespace
}

// release removes confrev's finalizer from a source, on the condition that it is as it was read. One that is gone needs none.
func release(ctx context.Context, c client.Client, kind pin.Kind, source *metav1.PartialObjectMetadata) error {
	source.SetGroupVersionKind(revision.GVK(kind))
	before := source.DeepCopy()
	source.Finalizers = slices.DeleteFunc(source.Finalizers, func(f string) bool { return f == keys.ProtectFinalizer })
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Patch(ctx, source, patch, client.FieldOwner(keys.FieldManager)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release %s %s/%s: %w", kind, before.Namespace, before.Name, err)
	}
	return nil
}
