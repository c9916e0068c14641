package session

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// completionPatience is how long a user who pressed the tab key waits.
const completionPatience = 5 * time.Second

// CompleteWorkload completes TYPE/NAME of a workload.
func (p *Session) CompleteWorkload(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	var types []string
	for _, kind := range workload.Standard() {
		types = append(types, kind.Resource()+"/")
	}
	return p.completeName(cmd, toComplete, types, func(typed string) (schema.GroupVersionKind, error) {
		mapper, err := p.Factory.ToRESTMapper()
		if err != nil {
			return schema.GroupVersionKind{}, err
		}
		// The mapper knows kubectl's abbreviations too.
		gvk, err := mapper.KindFor(schema.GroupVersionResource{Resource: typed})
		if err == nil && !p.handles(cmd.Context(), gvk.GroupKind()) {
			err = fmt.Errorf("%s is not a kind of workload", gvk.Kind)
		}
		return gvk, err
	})
}

// handles reports whether confrev handles workloads of a kind. It looks for configured kinds only if the kind is not a standard one.
func (p *Session) handles(ctx context.Context, named schema.GroupKind) bool {
	is := func(kind workload.Kind) bool { return kind.GVK.GroupKind() == named }
	if slices.ContainsFunc(workload.Standard(), is) {
		return true
	}
	ctx, stop := context.WithTimeout(ctx, completionPatience)
	defer stop()
	c, err := p.Connect()
	if err != nil {
		return false
	}
	installed, err := installation.Find(ctx, c, p.ControllerNamespace, c.Namespace)
	return err == nil && slices.ContainsFunc(installed.Kinds(), is)
}

// CompleteSource completes TYPE/NAME of a source.
func (p *Session) CompleteSource(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return p.completeName(cmd, toComplete, []string{"configmap/", "secret/"}, func(typed string) (schema.GroupVersionKind, error) {
		source, err := ParseSource(typed + "/any")
		return revision.GVK(source.Kind), err
	})
}

// completeName completes a type, then the name of an object of its kind. Revisions are the controller's own business.
func (p *Session) completeName(cmd *cobra.Command, toComplete string, types []string, kindOf func(typed string) (schema.GroupVersionKind, error)) ([]string, cobra.ShellCompDirective) {
	typed, _, slash := strings.Cut(toComplete, "/")
	if !slash {
		return matching(types, toComplete), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	gvk, err := kindOf(typed)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, obj := range p.metadata(cmd.Context(), gvk) {
		if !revision.IsRevision(obj) {
			names = append(names, typed+"/"+obj.GetName())
		}
	}
	return matching(names, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// CompleteSourcesAndWorkloads completes one of either.
func (p *Session) CompleteSourcesAndWorkloads(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	sources, directive := p.CompleteSource(cmd, args, toComplete)
	if typed, _, slash := strings.Cut(toComplete, "/"); slash {
		if _, err := ParseSource(typed + "/any"); err == nil {
			return sources, directive
		}
	}
	workloads, directive := p.CompleteWorkload(cmd, args, toComplete)
	return append(sources, workloads...), directive
}

// CompleteWorkloadThenSources completes a workload, then the sources that its template refers to.
func (p *Session) CompleteWorkloadThenSources(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return p.CompleteWorkload(cmd, args, toComplete)
	}
	ctx, stop := context.WithTimeout(cmd.Context(), completionPatience)
	defer stop()
	c, err := p.Connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := p.FindTarget(ctx, c, args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	uses, _ := found.Kind.Uses(found.Object)
	var names []string
	for _, use := range uses {
		names = append(names, use.String())
	}
	return matching(names, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// CompleteRevisions completes the number of a revision of the source that the arguments name.
func (p *Session) CompleteRevisions(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	var numbers []string
	for _, arg := range args {
		source, err := ParseSource(arg)
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
func (p *Session) metadata(ctx context.Context, gvk schema.GroupVersionKind) []client.Object {
	ctx, stop := context.WithTimeout(ctx, completionPatience)
	defer stop()
	c, err := p.Connect()
	if err != nil {
		return nil
	}
	list := metadata.NewList(gvk)
	if err := c.List(ctx, list, client.InNamespace(c.Namespace)); err != nil {
		return nil
	}
	var all []client.Object
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

func matching(all []string, prefix string) []string {
	return slices.DeleteFunc(all, func(text string) bool { return !strings.HasPrefix(text, prefix) })
}
