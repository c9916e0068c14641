// Package revision creates and maintains revisions: it reads sources, creates and numbers revisions, sets their owners, restores
// those that were deleted while in use, and deletes those that nothing uses (rules 5, 8 to 13).
package revision

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
)

// BySource indexes the metadata of revisions by their source: pin.Source.String().
const BySource = "confrev.source"

// Ref names a source or a revision: an object of a source's kind in a namespace.
type Ref struct {
	Kind      pin.Kind
	Namespace string
	Name      string
}

// String returns "configmap/namespace/name".
func (r Ref) String() string { return string(r.Kind) + "/" + r.Namespace + "/" + r.Name }

func (r Ref) key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// Text returns the form that indexes use: "configmap/app-5f7d8c9b2k".
func (r Ref) Text() string { return r.Source().String() }

// Source returns the name that templates refer to the object by.
func (r Ref) Source() pin.Source { return pin.Source{Kind: r.Kind, Name: r.Name} }

// GVK returns the API kind of a source.
func GVK(kind pin.Kind) schema.GroupVersionKind {
	if kind == pin.Secret {
		return corev1.SchemeGroupVersion.WithKind("Secret")
	}
	return corev1.SchemeGroupVersion.WithKind("ConfigMap")
}

// NewMetadata returns an empty metadata-only object of a source's kind to read into.
func NewMetadata(kind pin.Kind) *metav1.PartialObjectMetadata {
	return metadata.New(GVK(kind))
}

// Metadata returns a metadata-only object with the given name, to write to or to refer to in an event.
func Metadata(ref Ref) *metav1.PartialObjectMetadata {
	meta := NewMetadata(ref.Kind)
	meta.Namespace, meta.Name = ref.Namespace, ref.Name
	return meta
}

// NewMetadataList returns an empty metadata-only list of a source's kind to read into.
func NewMetadataList(kind pin.Kind) *metav1.PartialObjectMetadataList {
	return metadata.NewList(GVK(kind))
}

// SourceOf returns the source of a revision.
func SourceOf(kind pin.Kind, obj client.Object) pin.Source {
	return pin.Source{Kind: kind, Name: obj.GetAnnotations()[keys.SourceName]}
}

// IndexBySource returns the index function of BySource.
func IndexBySource(kind pin.Kind) client.IndexerFunc {
	return func(obj client.Object) []string {
		if !IsRevision(obj) {
			return nil
		}
		return []string{SourceOf(kind, obj).String()}
	}
}

// Compact drops every label and annotation that confrev does not read from the metadata of a source or revision, before it is
// cached.
func Compact(obj client.Object) {
	obj.SetManagedFields(nil)
	annotations := optin.Kept(obj.GetAnnotations(), keptKeys...)
	if len(annotations[keys.KeyDigests]) > content.MaxDigests {
		// It is forged. What the revision contains is read then, as where there is no such annotation.
		delete(annotations, keys.KeyDigests)
	}
	obj.SetAnnotations(annotations)
	obj.SetLabels(optin.Kept(obj.GetLabels(), keptKeys...))
}

var keptKeys = append([]string{
	keys.Source, keys.Content, keys.SourceName, keys.Number, keys.KeyDigests, keys.SourceVersion, keys.Renewed, keys.Anchor, keys.Propagation,
}, optin.SourceKeys...)

// number returns a revision's number. A number that no pin can have counts as 0, which is below all others.
func number(obj client.Object) int64 {
	n, err := strconv.ParseInt(obj.GetAnnotations()[keys.Number], 10, 64)
	if err != nil || n < 0 || n >= pin.MaxNumber {
		return 0
	}
	return n
}

// numberFrom returns the number of a revision of present content that must have at least the number least: its own, which another writer may have
// raised further, unless that is too far above to be confrev's (rule 5). It stays on the revision: another workload may know a reason for it, and two that
// correct each other would never end.
func numberFrom(obj client.Object, least int64) int64 {
	if n := number(obj); n <= least+plan.MaxLeap {
		return max(n, least)
	}
	return least
}

// version returns a source's version in the form of keys.SourceVersion.
func version(source client.Object) string {
	return string(source.GetUID()) + "/" + source.GetResourceVersion()
}

// Labelled returns what the labels and annotations of a revision say about it. They prove nothing (rule 20).
func Labelled(obj client.Object) plan.Revision {
	revision := plan.Revision{Name: obj.GetName(), Number: number(obj), Hash: content.Hash(obj.GetLabels()[keys.Content])}
	if text, ok := obj.GetAnnotations()[keys.KeyDigests]; ok {
		if digests, err := content.ParseDigests(text); err == nil {
			revision.Digests = digests
		}
	}
	return revision
}

// object returns the revision of a source as it is created. It has none of the source's labels, annotations, owners and
// finalizers, except for the change cause.
func object(source client.Object, seen Snapshot, name string, number int64, owners ...Owner) client.Object {
	meta := metav1.ObjectMeta{
		Name: name, Namespace: source.GetNamespace(),
		Labels: map[string]string{keys.Source: content.SourceLabel(source.GetName()), keys.Content: string(seen.Hash)},
		Annotations: map[string]string{
			keys.SourceName:    source.GetName(),
			keys.Number:        strconv.FormatInt(number, 10),
			keys.SourceVersion: version(source),
		},
	}
	if digests, ok := seen.Digests.Text(); ok {
		meta.Annotations[keys.KeyDigests] = digests
	}
	if cause, ok := source.GetAnnotations()[keys.ChangeCause]; ok {
		meta.Annotations[keys.ChangeCause] = cause
	}
	meta.OwnerReferences = referencesTo(owners)
	immutable := true
	if secret, ok := source.(*corev1.Secret); ok {
		return &corev1.Secret{ObjectMeta: meta, Immutable: &immutable, Type: secret.Type, Data: secret.Data}
	}
	configMap := source.(*corev1.ConfigMap)
	return &corev1.ConfigMap{ObjectMeta: meta, Immutable: &immutable, Data: configMap.Data, BinaryData: configMap.BinaryData}
}

// NewSource returns an empty object of a source's kind to read data into.
func NewSource(kind pin.Kind) client.Object {
	if kind == pin.Secret {
		return &corev1.Secret{}
	}
	return &corev1.ConfigMap{}
}

// ContentOf returns the content of a ConfigMap or Secret.
func ContentOf(obj client.Object) content.Content {
	if secret, ok := obj.(*corev1.Secret); ok {
		return content.FromSecret(secret)
	}
	return content.FromConfigMap(obj.(*corev1.ConfigMap))
}

func isImmutable(obj client.Object) bool {
	var immutable *bool
	switch o := obj.(type) {
	case *corev1.Secret:
		immutable = o.Immutable
	case *corev1.ConfigMap:
		immutable = o.Immutable
	}
	return immutable != nil && *immutable
}

// SameContent reports whether two ConfigMaps, or two Secrets, have the same content.
func SameContent(a, b client.Object) bool { return ContentOf(a).Hash() == ContentOf(b).Hash() }
