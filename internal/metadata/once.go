package metadata

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// once reads the metadata of each object once.
type once struct {
	client.Reader
	read map[object]result
}

type object struct {
	kind schema.GroupVersionKind
	key  client.ObjectKey
}

// result has nil metadata for what does not exist, and the error that said so.
type result struct {
	meta *metav1.PartialObjectMetadata
	err  error
}

// Once returns a reader that reads the metadata of each object once, so that all that is decided about an object is decided about the
// same version. It is for one goroutine.
func Once(reader client.Reader) client.Reader { return once{reader, map[object]result{}} }

// Get reads what was not read yet.
func (r once) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	meta, is := obj.(*metav1.PartialObjectMetadata)
	if !is || len(options) > 0 {
		return r.Reader.Get(ctx, key, obj, options...)
	}
	of := object{meta.GroupVersionKind(), key}
	before, known := r.read[of]
	if !known {
		err := r.Reader.Get(ctx, key, meta)
		switch {
		case err == nil:
			r.read[of] = result{meta: meta.DeepCopy()}
		case apierrors.IsNotFound(err):
			r.read[of] = result{err: err}
		}
		return err
	}
	if before.meta != nil {
		before.meta.DeepCopyInto(meta)
	}
	return before.err
}
