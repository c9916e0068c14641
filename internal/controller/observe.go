package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// namespaceTerminating is the cause that the API server gives for refusing to create objects.
const namespaceTerminating = corev1.NamespaceTerminatingCause

// observed is all that a plan for one workload needs, and what to say of the workload's own annotations.
type observed struct {
	namespace string
	input     plan.Input
	sources   map[pin.Source]revision.Observation
	settle    time.Duration
	warnings  []warning
}

// observe looks at a workload, its sources and its holders. With an error, the sources that could not be observed are
// missing from the input.
func (r *workloads) observe(ctx context.Context, obj client.Object, known *memory) (observed, error) {
	seen := observed{
		namespace: obj.GetNamespace(), settle: r.options.Settle, sources: map[pin.Source]revision.Observation{},
		input: plan.Input{Sources: map[pin.Source]plan.Source{}},
	}
	r.observeAnnotations(obj, &seen)
	holders, err := r.holders(ctx, obj, known)
	seen.input.Holders = holders
	errs := []error{err}
	for _, use := range seen.input.Uses {
		source, err := r.store.Observe(ctx, revision.Ref{Kind: use.Kind, Namespace: seen.namespace, Name: use.Name})
		if terminal, ok := errors.AsType[*revision.TerminalError](err); ok {
			seen.warnings = append(seen.warnings, warning{reason: terminal.Reason, note: terminal.Message})
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		seen.sources[use.Source], seen.input.Sources[use.Source] = source, source.Source
	}
	return seen, errors.Join(errs...)
}

// observeAnnotations reads the workload's own annotations. What is wrong with one of them is a warning; the rest counts.
func (r *workloads) observeAnnotations(obj client.Object, seen *observed) {
	say := func(reason, format string, args ...any) {
		seen.warnings = append(seen.warnings, warning{reason: reason, note: fmt.Sprintf(format, args...)})
	}
	uses, unused, err := workload.Tracked(r.kind, obj, r.options.enabled)
	if err != nil {
		say(reasonInvalidTrack, "annotation %s: %v", keys.Track, err)
	}
	for _, source := range unused {
		say(reasonNotReferenced, "annotation %s lists %s, which the pod template does not refer to", keys.Track, source)
	}
	if track, _ := workload.Track(obj); track.Lists(pin.Secret) && !r.options.enabled(pin.Secret) {
		say(reasonKindNotEnabled, "annotation %s lists a Secret; this confrev tracks ConfigMaps only", keys.Track)
	}
	if n := podspec.References(&r.kind.Template(obj).Spec); n > podspec.MaxReferences || len(uses) > pin.MaxPins {
		say(reasonTooComplex, "the pod template has %d references to %d tracked sources; its pods could not be admitted with pins of "+
			"more than %d references or %d sources, so pins stay as they are", n, len(uses), podspec.MaxReferences, pin.MaxPins)
		uses = nil
	}
	seen.input.Uses = uses
	if seen.input.Pins, err = workload.Pins(r.kind, obj); err != nil && len(uses) > 0 {
		say(reasonMalformedPins, "annotation %s of the pod template was malformed, so it is written anew: %v", keys.Pins, err)
	}
	// A note that cannot be read is no note: the holders show a hold too.
	seen.input.Held, _ = pin.Parse(obj.GetAnnotations()[keys.Held])
	if text, ok := obj.GetAnnotations()[keys.Settle]; ok {
		settle, err := time.ParseDuration(text)
		if err != nil || settle < 0 {
			say(reasonInvalidSettle, "annotation %s: %q is not a duration such as 5s; using %s", keys.Settle, text, seen.settle)
			return
		}
		seen.settle = settle
	}
}

// holders gives what the workload rolled out, as its holders show it, and as this process knows it before they do.
func (r *workloads) holders(ctx context.Context, obj client.Object, known *memory) ([]plan.Holder, error) {
	kind := r.kind.Holder()
	found, err := list(ctx, r.client, kind.NewList(), obj.GetNamespace(), byController, string(obj.GetUID()))
	if err != nil {
		return nil, fmt.Errorf("list the holders of %s %s: %w", r.kind.Resource(), key(obj), err)
	}
	var holders []plan.Holder
	shown := false
	for _, holder := range found {
		pins, err := pin.Parse(kind.PinsText(holder))
		if err != nil {
			continue
		}
		holders = append(holders, plan.Holder{Order: kind.Order(holder), Pins: pins})
		shown = shown || maps.Equal(pins, known.pins)
	}
	if shown {
		// From now on the holders speak for themselves, also when this one is pruned.
		known.pins = nil
	}
	if known.pins != nil {
		// We wrote these pins, and the holder is not in the cache yet, or never will be because the template was rolled
		// back at once. Without this, an undo within that moment would be undone.
		holders = append(holders, plan.Holder{Order: math.MaxInt64, Pins: known.pins})
	}
	return holders, nil
}

// items gives the objects of a list, not copies.
func items(list client.ObjectList) ([]client.Object, error) {
	var objects []client.Object
	err := meta.EachListItem(list, func(item runtimeObject) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("a list holds a %T, which is not an object of the API", item)
		}
		objects = append(objects, obj)
		return nil
	})
	return objects, err
}
