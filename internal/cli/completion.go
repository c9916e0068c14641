package cli

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// completeWorkloads completes workloads: deployment/web.
func (p *plugin) completeWorkloads(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return p.completeObjects(cmd.Context(), args, workloadKinds()...)
}

// completeSources completes sources: configmap/app.
func (p *plugin) completeSources(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return p.completeObjects(cmd.Context(), args, sourceKinds()...)
}

// completeBoth completes sources and workloads.
func (p *plugin) completeBoth(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return p.completeObjects(cmd.Context(), args, append(sourceKinds(), workloadKinds()...)...)
}

func workloadKinds() []schema.GroupVersionKind {
	var gvks []schema.GroupVersionKind
	for _, kind := range workload.Standard() {
		gvks = append(gvks, kind.GVK)
	}
	return gvks
}

func sourceKinds() []schema.GroupVersionKind {
	var gvks []schema.GroupVersionKind
	for _, kind := range pin.Kinds {
		gvks = append(gvks, revision.GVK(kind))
	}
	return gvks
}

// completeObjects gives the objects of some kinds in the namespace that are no revisions. What cannot be listed is not offered.
func (p *plugin) completeObjects(ctx context.Context, known []string, gvks ...schema.GroupVersionKind) ([]string, cobra.ShellCompDirective) {
	c, err := p.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	offers := make([][]string, len(gvks))
	var group sync.WaitGroup
	for i, gvk := range gvks {
		group.Go(func() {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			if err := c.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
				return
			}
			for j := range list.Items {
				if name := strings.ToLower(gvk.Kind) + "/" + list.Items[j].Name; !revision.IsRevision(&list.Items[j]) && !slices.Contains(known, name) {
					offers[i] = append(offers[i], name)
				}
			}
		})
	}
	group.Wait()
	all := slices.Concat(offers...)
	slices.Sort(all)
	return all, cobra.ShellCompDirectiveNoFileComp
}
