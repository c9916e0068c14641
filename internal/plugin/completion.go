package plugin

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// completionPatience is how long somebody who pressed the tabulator waits.
const completionPatience = 5 * time.Second

// completeWorkload completes TYPE/NAME of a workload.
func (p *plugin) completeWorkload(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	typed, _, slash := strings.Cut(toComplete, "/")
	if !slash {
		var types []string
		for _, kind := range workload.Standard() {
			types = append(types, kind.Resource()+"/")
		}
		return matching(types, toComplete), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	mapper, err := p.factory.ToRESTMapper()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	// The mapper knows kubectl's abbreviations too.
	gvk, err := mapper.KindFor(schema.GroupVersionResource{Resource: typed})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, obj := range p.metadata(cmd.Context(), gvk) {
		names = append(names, typed+"/"+obj.GetName())
	}
	return matching(names, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// completeSource completes TYPE/NAME of a source; revisions are none.
func (p *plugin) completeSource(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	typed, _, slash := strings.Cut(toComplete, "/")
	if !slash {
		return matching([]string{"configmap/", "secret/"}, toComplete), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	source, err := parseSource(typed + "/any")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, obj := range p.metadata(cmd.Context(), revision.GVK(source.Kind)) {
		if !revision.IsRevision(obj) {
			names = append(names, typed+"/"+obj.GetName())
		}
	}
	return matching(names, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// completeSourcesAndWorkloads completes one of either.
func (p *plugin) completeSourcesAndWorkloads(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	sources, directive := p.completeSource(cmd, args, toComplete)
	if typed, _, slash := strings.Cut(toComplete, "/"); slash {
		if _, err := parseSource(typed + "/any"); err == nil {
			return sources, directive
		}
	}
	workloads, directive := p.completeWorkload(cmd, args, toComplete)
	return append(sources, workloads...), directive
}

// completeWorkloadThenSources completes a workload, then the sources that its template refers to.
func (p *plugin) completeWorkloadThenSources(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return p.completeWorkload(cmd, args, toComplete)
	}
	ctx, stop := context.WithTimeout(cmd.Context(), completionPatience)
	defer stop()
	c, err := p.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := p.find(ctx, c, args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	uses, _ := found.kind.Uses(found.obj)
	var names []string
	for _, use := range uses {
		names = append(names, use.String())
	}
	return matching(names, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// completeRevisions completes the number of a revision of the source that the arguments name.
func (p *plugin) completeRevisions(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	var numbers []string
	for _, arg := range args {
		source, err := parseSource(arg)
		if err != nil {
			continue
		}
		for _, obj := range p.metadata(cmd.Context(), revision.GVK(source.Kind)) {
			if revision.IsRevision(obj) && revision.SourceOf(source.Kind, obj) == source {
				numbers = append(numbers, obj.GetAnnotations()[keys.Number])
			}
		}
	}
	slices.SortFunc(numbers, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return matching(numbers, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// metadata lists the metadata of the objects of a kind; nothing when that fails, as completion does.
func (p *plugin) metadata(ctx context.Context, gvk schema.GroupVersionKind) []client.Object {
	ctx, stop := context.WithTimeout(ctx, completionPatience)
	defer stop()
	c, err := p.connect()
	if err != nil {
		return nil
	}
	list := metadata.NewList(gvk)
	if err := c.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		return nil
	}
	var all []client.Object
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

func matching(all []string, prefix string) []string {
	var found []string
	for _, text := range all {
		if strings.HasPrefix(text, prefix) {
			found = append(found, text)
		}
	}
	return found
}
