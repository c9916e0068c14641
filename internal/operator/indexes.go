package operator

import (
	"slices"
	"strings"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// inAll is what values of an index of controller-runtime begin with that are for lists in all namespaces.
const inAll = "__all_namespaces/"

// byNamespace is an informer with indexes that only answer for one namespace. Those of controller-runtime have each object twice, so that it is found in all
// namespaces, too. confrev never asks for that, and with a dozen holders for each workload, indexes are a good part of what is in memory.
type byNamespace struct{ toolscache.SharedIndexInformer }

func (i byNamespace) AddIndexers(all toolscache.Indexers) error {
	trimmed := toolscache.Indexers{}
	for name, values := range all {
		trimmed[name] = withinNamespaces(values)
	}
	return i.SharedIndexInformer.AddIndexers(trimmed)
}

func withinNamespaces(values toolscache.IndexFunc) toolscache.IndexFunc {
	return func(obj any) ([]string, error) {
		found, err := values(obj)
		// What is in no namespace is found in all, or not at all.
		if o, ok := obj.(client.Object); ok && o.GetNamespace() != "" {
			found = slices.DeleteFunc(found, func(value string) bool { return strings.HasPrefix(value, inAll) })
		}
		return found, err
	}
}
