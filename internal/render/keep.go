package render

import (
	"fmt"
	"slices"
	"strings"
)

// Tool is a deploy tool that deletes what is no longer in the manifests.
type Tool string

// The tools.
const (
	Helm   Tool = "helm"
	ArgoCD Tool = "argocd"
	Flux   Tool = "flux"
)

// ParseTools reads the names of tools.
func ParseTools(names []string) ([]Tool, error) {
	var tools []Tool
	for _, name := range names {
		tool := Tool(name)
		if !slices.Contains([]Tool{Helm, ArgoCD, Flux}, tool) {
			return nil, fmt.Errorf("%q is not a tool that confrev knows: want %s, %s or %s", name, Helm, ArgoCD, Flux)
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

// keep annotates an object so that the tool does not delete it when it is no longer in the manifests, and does not report that as
// a difference.
func (t Tool) keep(o *object) {
	switch t {
	case Helm:
		o.annotate(o.node, "helm.sh/resource-policy", "keep")
	case ArgoCD:
		o.annotateItem("argocd.argoproj.io/sync-options", "Prune=false")
		o.annotateItem("argocd.argoproj.io/compare-options", "IgnoreExtraneous")
	case Flux:
		o.annotate(o.node, "kustomize.toolkit.fluxcd.io/prune", "disabled")
	}
}

// annotateItem adds an item to an annotation that is a list.
func (o *object) annotateItem(key, item string) {
	var items []string
	if list := text(o.node, "metadata", "annotations", key); list != "" {
		items = strings.Split(list, ",")
	}
	if !slices.Contains(items, item) {
		o.annotate(o.node, key, strings.Join(append(items, item), ","))
	}
}
