package operator

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// compact drops what confrev does not need of everything that goes into the cache, whatever its kind: kinds come while
// confrev runs.
func compact(kinds []workload.Kind) toolscache.TransformFunc {
	byKind := map[schema.GroupVersionKind]func(client.Object){}
	for _, kind := range kinds {
		byKind[kind.Holder.GVK] = kind.Holder.Compact
	}
	for _, kind := range kinds {
		// What is both a workload and a holder is needed as a workload.
		byKind[kind.GVK] = kind.Compact
	}
	return func(obj any) (any, error) {
		if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
			compactMetadata(meta)
			return obj, nil
		}
		if o, ok := obj.(client.Object); ok {
			if compact := byKind[workload.GVKOf(o)]; compact != nil {
				compact(o)
			}
		}
		return obj, nil
	}
}

// compactMetadata drops what confrev does not need of an object of which it knows the metadata only.
func compactMetadata(meta *metav1.PartialObjectMetadata) {
	switch meta.Kind {
	case "ConfigMap", "Secret":
		revision.Compact(meta)
	case "Namespace":
		meta.Labels, meta.Annotations, meta.ManagedFields = only(meta.Labels, keys.Track, keys.Owners), only(meta.Annotations, keys.Owners), nil
	default:
		meta.Labels, meta.Annotations, meta.ManagedFields = nil, nil, nil
	}
}

// only keeps some keys of labels or annotations.
func only(all map[string]string, kept ...string) map[string]string {
	values := map[string]string{}
	for _, key := range kept {
		if value, ok := all[key]; ok {
			values[key] = value
		}
	}
	return values
}
