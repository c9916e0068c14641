package rollout

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recall is a reader for one look at a workload, by one goroutine: it reads the metadata of each object once, so that all that is
// decided of it is decided of the same version.
type recall struct {
	client.Reader
	read map[recalled]readResult
}

type recalled struct {
	kind schema.GroupVersionKind
	key  client.ObjectKey
}

// readResult has nil metadata for what does not exist, and the error that said so.
type readResult struct {
	meta *metav1.PartialObjectMetadata
	err  error
}

func newRecall(reader client.Reader) recall { return recall{reader, map[recalled]readResult{}} }

// Get reads what was not read yet.
func (r recall) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	meta, is := obj.(*metav1.PartialObjectMetadata)
	if !is || len(options) > 0 {
		return r.Reader.Get(ctx, key, obj, options...)
	}
	of := recalled{meta.GroupVersionKind(), key}
	before, known := r.read[of]
	if !known {
		err := r.Reader.Get(ctx, key, meta)
		switch {
		case err == nil:
			r.read[of] = readResult{meta: meta.DeepCopy()}
		case apierrors.IsNotFound(err):
			r.read[of] = readResult{err: err}
		}
		return err
	}
	if before.meta != nil {
		before.meta.DeepCopyInto(meta)
	}
	return before.err
}
