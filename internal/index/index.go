// Package index has the indexes of the objects that confrev watches, and reads through them. They answer which workloads a source
// matters to, what pins a revision, and what a workload has rolled out. The controller reads from its cache, the plugin from a
// snapshot. The package must not import anything that decides or writes.
package index

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
)

// The names of the indexes. Because of them, the work for an event is proportional to the number of workloads that use the source,
// and no namespace is scanned.
const (
	// BySource indexes workloads by the sources that may matter to them: "configmap/app". Workloads that select sources by regular
	// expressions are under AnyOf: "configmap/*".
	BySource = "confrev.sources"
	// ByTrigger indexes workloads by the objects other than sources that they restart on: "persistentvolumeclaims.v1/data". These may
	// be in no namespace, so it is the one index that also answers for all namespaces.
	ByTrigger = "confrev.triggers"
	// ByReference indexes holders by the sources that their templates name.
	ByReference = "confrev.references"
	// ByPin indexes workloads and holders by the revisions that their templates pin: "configmap/app-5f7d8c9b2k".
	ByPin = "confrev.pins"
	// ByController indexes holders by the UID of their controller: the workload.
	ByController = "confrev.controller"
	// ByReferred indexes workloads by the workload whose template they use: "Deployment.apps/web".
	ByReferred = "confrev.referred"
)

// AnyOf returns the value of BySource for workloads that any source of a kind may matter to.
func AnyOf(kind pin.Kind) string { return string(kind) + "/*" }

// Of returns the indexes of a kind of workload and of its kind of holder.
func Of(kind workload.Kind, defaults optin.Defaults) []Index {
	holder := kind.Holder
	return []Index{
		{kind.GVK, kind.New(), BySource, sources(kind, defaults)},
		{kind.GVK, kind.New(), ByTrigger, triggers},
		{kind.GVK, kind.New(), ByPin, func(obj client.Object) []string { return Pins(kind.PinsText(obj)) }},
		{kind.GVK, kind.New(), ByReferred, Referred(kind)},
		{holder.GVK, holder.New(), ByPin, func(obj client.Object) []string { return Pins(holder.Facts(obj).Pins) }},
		{holder.GVK, holder.New(), ByReference, func(obj client.Object) []string { return holder.Facts(obj).References }},
		{holder.GVK, holder.New(), ByController, ControllerUID},
	}
}

// Index is one index of the cache.
type Index struct {
	GVK    schema.GroupVersionKind
	Object client.Object
	Field  string
	Func   client.IndexerFunc
}

// sources returns the function of BySource. It returns every source that may matter to a workload, even if the workload is not opted in:
// whether it is may depend on its namespace and on the sources.
func sources(kind workload.Kind, defaults optin.Defaults) client.IndexerFunc {
	return func(obj client.Object) []string {
		// The reconciler reports what cannot be read.
		uses, _ := kind.Uses(obj)
		var texts []string
		for _, use := range uses {
			texts = append(texts, use.String())
		}
		config := kind.Config(obj, Namespace(), defaults)
		for _, trigger := range config.RestartOn {
			if trigger.IsSource() {
				texts = append(texts, trigger.String())
			}
		}
		for _, source := range pin.Kinds {
			names, all := config.Track.ListedNames(source)
			for _, name := range names {
				texts = append(texts, pin.Source{Kind: source, Name: name}.String())
			}
			if !all {
				texts = append(texts, AnyOf(source))
			}
		}
		return texts
	}
}

// triggers implements ByTrigger. Hardly any workload has such objects, so it reads nothing else of the configuration.
func triggers(obj client.Object) []string {
	// The reconciler reports what cannot be read.
	all, _ := optin.ParseRestartOn(obj.GetAnnotations()[keys.RestartOn])
	var texts []string
	for _, trigger := range all {
		if !trigger.IsSource() {
			texts = append(texts, trigger.String())
		}
	}
	return texts
}

// Referred returns the function of ByReferred: it returns the workload whose template an object uses instead of one of its own.
func Referred(kind workload.Kind) client.IndexerFunc {
	return func(obj client.Object) []string {
		if named, name, ok := kind.WorkloadRef(obj); ok {
			return []string{referredKey(named, name)}
		}
		return nil
	}
}

func referredKey(kind schema.GroupKind, name string) string { return kind.String() + "/" + name }

// Pins returns the revisions in the text of a template's pins: "configmap/app-5f7d8c9b2k". It returns none if the text is
// malformed, because no pod can be created from such a template.
func Pins(text string) []string {
	pins, err := pin.Parse(text)
	if err != nil {
		return nil
	}
	var revisions []string
	for source, p := range pins {
		revisions = append(revisions, pin.Source{Kind: source.Kind, Name: p.Revision}.String())
	}
	return revisions
}

// ControllerUID implements ByController: it returns the UID of an object's controller, if the object has one.
func ControllerUID(obj client.Object) []string {
	if owner := metav1.GetControllerOf(obj); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}

// List reads the objects of a namespace that an index has under a value; with ByTrigger, those of all namespaces if it is empty. It does not copy them, so callers
// must not change them.
func List(ctx context.Context, reader client.Reader, into client.ObjectList, namespace, field, value string, options ...client.ListOption) ([]client.Object, error) {
	options = append(options, client.InNamespace(namespace), client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy)
	err := reader.List(ctx, into, options...)
	if err != nil {
		return nil, err
	}
	return Items(into)
}

// Items returns the objects of a list without copying them.
func Items(list client.ObjectList) ([]client.Object, error) {
	var objects []client.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("a list holds a %T, which is not an object of the API", item)
		}
		objects = append(objects, obj)
		return nil
	})
	return objects, err
}

// Namespace returns an empty metadata-only Namespace to read into.
func Namespace() *metav1.PartialObjectMetadata {
	return metadata.New(corev1.SchemeGroupVersion.WithKind("Namespace"))
}

// Referring returns the workloads that use an object's template instead of one of their own, sorted by name.
func Referring(ctx context.Context, reader client.Reader, kinds *workload.Kinds, kind workload.Kind, obj client.Object) ([]client.Object, error) {
	var all []client.Object
	for _, other := range kinds.Referring() {
		found, err := List(ctx, reader, other.NewList(), obj.GetNamespace(), ByReferred, referredKey(kind.GVK.GroupKind(), obj.GetName()))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	// In the order of the cache, two workloads that disagree would take turns.
	slices.SortFunc(all, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all, nil
}
