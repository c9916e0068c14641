package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/revision"
)

// indexSources makes the indexes of ConfigMaps and Secrets.
func indexSources(ctx context.Context, manager ctrl.Manager, o Options) error {
	for _, kind := range o.SourceKinds() {
		err := manager.GetFieldIndexer().IndexField(ctx, revision.NewMetadata(kind), revision.BySource, revision.IndexBySource(kind))
		if err != nil {
			return fmt.Errorf("index %ss: %w", kind, err)
		}
	}
	return nil
}

// inAll is what values of an index of controller-runtime begin with that are for lists in all namespaces.
const inAll = "__all_namespaces/"

// byTrigger is how controller-runtime calls the index of what workloads restart on.
const byTrigger = "field:" + index.ByTrigger

// byNamespace is an informer with indexes that only answer for one namespace. Those of controller-runtime have each object twice, so that it is found in all
// namespaces, too. With a dozen holders for each workload, indexes are a good part of what is in memory, and confrev asks only one for all namespaces, which has
// few workloads: a StorageClass may matter to those of any namespace.
type byNamespace struct{ toolscache.SharedIndexInformer }

func (i byNamespace) AddIndexers(all toolscache.Indexers) error {
	trimmed := toolscache.Indexers{}
	for name, values := range all {
		if trimmed[name] = values; name != byTrigger {
			trimmed[name] = withinNamespaces(values)
		}
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
