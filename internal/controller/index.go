// Package controller watches workloads, sources and holders, and runs the two reconcilers: one pins revisions in
// workloads, the other keeps the revisions (docs/reconcile.md has the rules).
package controller

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// The indexes, with which an event costs work in proportion to the workloads that use the source, never a scan of a
// namespace.
const (
	// bySource indexes workloads by the sources that they track: "configmap/app".
	bySource = "confrev.tracks"
	// byPin indexes workloads and holders by the revisions that their templates pin: "configmap/app-5f7d8c9b2k".
	byPin = "confrev.pins"
	// byController indexes holders by the UID of their controller: the workload.
	byController = "confrev.controller"
)

func (o Options) index(ctx context.Context, indexer client.FieldIndexer) error {
	add := func(obj client.Object, field string, fn client.IndexerFunc) error {
		if err := indexer.IndexField(ctx, obj, field, fn); err != nil {
			return fmt.Errorf("index %T by %s: %w", obj, field, err)
		}
		return nil
	}
	for _, kind := range o.sourceKinds() {
		if err := add(revision.NewMetadata(kind), revision.BySource, revision.IndexBySource(kind)); err != nil {
			return err
		}
	}
	for _, kind := range workload.Kinds() {
		if err := add(kind.New(), bySource, o.sources(kind)); err != nil {
			return err
		}
		if err := add(kind.New(), byPin, func(obj client.Object) []string { return pinned(templatePins(kind, obj)) }); err != nil {
			return err
		}
		holder := kind.Holder()
		if err := add(holder.New(), byPin, func(obj client.Object) []string { return pinned(holder.PinsText(obj)) }); err != nil {
			return err
		}
		if err := add(holder.New(), byController, controllerUID); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) sources(kind workload.Kind) client.IndexerFunc {
	return func(obj client.Object) []string {
		// What could not be read of the annotation is reported by the reconciler.
		uses, _, _ := workload.Tracked(kind, obj, o.enabled)
		var texts []string
		for _, use := range uses {
			texts = append(texts, use.String())
		}
		return texts
	}
}

func templatePins(kind workload.Kind, obj client.Object) string {
	return kind.Template(obj).Annotations[keys.Pins]
}

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
