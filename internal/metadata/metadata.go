// Package metadata makes metadata-only objects of any kind. Clients and caches that read into them fetch nothing except metadata.
package metadata

import (
	"context"
	"slices"
	"strings"
	"unique"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// New returns an empty metadata-only object of a kind.
func New(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gvk)
	return object
}

// NewList returns an empty metadata-only list of a kind. gvk is the kind of its items.
func NewList(gvk schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	return list
}

// Only returns those labels or annotations that have one of some keys; nil if there are none.
func Only(all map[string]string, kept ...string) map[string]string {
	var only map[string]string
	for _, key := range kept {
		if value, ok := all[key]; ok {
			if only == nil {
				only = map[string]string{}
			}
			only[key] = value
		}
	}
	return only
}

// Share makes an object's metadata, which the caller owns, use the one copy of each text and flag that many objects have: its namespace, the kinds of its
// owners, and its controller, which a workload's holders have in common. Other owners, such as those of a revision, hardly occur twice, and to look for a copy
// takes memory, too: their texts are joined, and so are those that identify the object, since many short texts take more memory than one.
func Share(obj *metav1.PartialObjectMetadata) {
	obj.APIVersion, obj.Kind, obj.Namespace = shared(obj.APIVersion), shared(obj.Kind), shared(obj.Namespace)
	join(&obj.Name, (*string)(&obj.UID), &obj.ResourceVersion)
	if cap(obj.OwnerReferences) > len(obj.OwnerReferences) {
		obj.OwnerReferences = slices.Clone(obj.OwnerReferences)
	}
	var others []*string
	for i := range obj.OwnerReferences {
		o := &obj.OwnerReferences[i]
		o.APIVersion, o.Kind = shared(o.APIVersion), shared(o.Kind)
		o.Controller, o.BlockOwnerDeletion = sharedFlag(o.Controller), sharedFlag(o.BlockOwnerDeletion)
		if o.Controller == &yes {
			o.Name, o.UID = shared(o.Name), shared(o.UID)
		} else {
			others = append(others, &o.Name, (*string)(&o.UID))
		}
	}
	join(others...)
}

// join makes texts parts of one.
func join(texts ...*string) {
	var all strings.Builder
	length := 0
	for _, text := range texts {
		length += len(*text)
	}
	all.Grow(length)
	for _, text := range texts {
		all.WriteString(*text)
	}
	rest := all.String()
	for _, text := range texts {
		*text, rest = rest[:len(*text)], rest[len(*text):]
	}
}

func shared[T ~string](text T) T { return unique.Make(text).Value() }

var yes, no = true, false

func sharedFlag(flag *bool) *bool {
	switch {
	case flag == nil:
		return nil
	case *flag:
		return &yes
	}
	return &no
}

type once struct {
	client.Reader
	read map[object]result
}

type object struct {
	kind schema.GroupVersionKind
	key  client.ObjectKey
}

// result is what the first read returned: the metadata, or the NotFound error. Other errors are not kept.
type result struct {
	meta *metav1.PartialObjectMetadata
	err  error
}

// Once returns a reader that reads the metadata of each object only once and then repeats it, so that all decisions about an
// object are about the same version. It must not be used by several goroutines.
func Once(reader client.Reader) client.Reader { return once{reader, map[object]result{}} }

// Get reads an object. It answers from memory if obj is metadata-only and that object was read before.
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
