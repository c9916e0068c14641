// Package controller watches workloads, sources and holders, and runs the two reconcilers: one pins revisions in
// workloads, the other keeps the revisions (docs/reconcile.md has the rules).
package controller

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
)

// The indexes, with which an event costs work in proportion to the workloads that use the source, never a scan of a
// namespace.
const (
	// bySource indexes workloads by the sources and other objects that may matter to them: "configmap/app". Those that
	// choose sources by expressions are under the kind alone: "configmap/*".
	bySource = "confrev.sources"
	// byReference indexes holders by the sources that their templates name.
	byReference = "confrev.references"
	// byPin indexes workloads and holders by the revisions that their templates pin: "configmap/app-5f7d8c9b2k".
	byPin = "confrev.pins"
	// byController indexes holders by the UID of their controller: the workload.
	byController = "confrev.controller"
	// byReferred indexes workloads by the workload that has their template: "Deployment.apps/web".
	byReferred = "confrev.referred"
)

// anyOf is the value of bySource for any source of a kind.
func anyOf(kind pin.Kind) string { return string(kind) + "/*" }

// index makes the indexes of a kind of workloads and of its holders. What is there already, since an earlier attempt made
// it or since another kind shares it, stays.
func (a *assembly) index(ctx context.Context, kind workload.Kind) error {
	for _, i := range a.options.indexes(kind) {
		if a.indexed[i.gvk.String()+" "+i.field] {
			continue
		}
		if err := a.manager.GetFieldIndexer().IndexField(ctx, i.obj, i.field, i.fn); err != nil {
			return fmt.Errorf("index %s by %s: %w", i.gvk, i.field, err)
		}
		a.indexed[i.gvk.String()+" "+i.field] = true
	}
	return nil
}

// indexes are those of a kind of workloads and of its holders.
func (o Options) indexes(kind workload.Kind) []index {
	holder := kind.Holder
	return []index{
		{kind.GVK, kind.New(), bySource, o.sources(kind)},
		{kind.GVK, kind.New(), byPin, func(obj client.Object) []string { return pinned(kind.PinsText(obj)) }},
		{kind.GVK, kind.New(), byReferred, referred(kind)},
		{holder.GVK, holder.New(), byPin, func(obj client.Object) []string { return pinned(holder.Facts(obj).Pins) }},
		{holder.GVK, holder.New(), byReference, func(obj client.Object) []string { return holder.Facts(obj).References }},
		{holder.GVK, holder.New(), byController, controllerUID},
	}
}

// index is one index of the cache.
type index struct {
	gvk   schema.GroupVersionKind
	obj   client.Object
	field string
	fn    client.IndexerFunc
}

// sources lists what may matter to a workload, whether it is opted in or not: that may depend on its namespace and on the
// sources themselves.
func (o Options) sources(kind workload.Kind) client.IndexerFunc {
	return func(obj client.Object) []string {
		// What could not be read is reported by the reconciler.
		uses, _ := kind.Uses(obj)
		var texts []string
		for _, use := range uses {
			texts = append(texts, use.String())
		}
		asked := o.read(kind, obj, nil, newNamespace())
		for _, trigger := range asked.RestartOn {
			texts = append(texts, trigger.String())
		}
		for _, source := range pin.Kinds {
			names, all := asked.Track.ListedNames(source)
			for _, name := range names {
				texts = append(texts, pin.Source{Kind: source, Name: name}.String())
			}
			if !all {
				texts = append(texts, anyOf(source))
			}
		}
		return texts
	}
}

// referred gives the workload that has an object's template in its place.
func referred(kind workload.Kind) client.IndexerFunc {
	return func(obj client.Object) []string {
		if named, name, ok := kind.WorkloadRef(obj); ok {
			return []string{referredKey(named, name)}
		}
		return nil
	}
}

func referredKey(kind schema.GroupKind, name string) string { return kind.String() + "/" + name }

// pinned lists the revisions that a template pins: "configmap/app-5f7d8c9b2k". Malformed pins hold nothing: no pod can
// be created from such a template.
func pinned(text string) []string {
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

func controllerUID(obj client.Object) []string {
	if owner := metav1.GetControllerOf(obj); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}
