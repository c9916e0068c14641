package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// namespaceTerminating is the cause that the API server gives for refusing to create objects.
const namespaceTerminating = corev1.NamespaceTerminatingCause

// observed is all that the plans for one workload need, and what to say of what its user wrote.
type observed struct {
	namespace string
	// uids are those of the workload and of those that refer to it: a source is opted in when one of them owns it.
	uids     []types.UID
	asked    optin.Asked
	template *corev1.PodTemplateSpec
	// notes are what confrev wrote on the workload and its template before.
	notes notes
	// before are the pins of the template that a request replaces.
	before pin.Set
	// reader reads the metadata of sources, which metas remembers; nil for one that does not exist.
	reader client.Reader
	metas  map[pin.Source]*metav1.PartialObjectMetadata
	// pins is what the plan of pins is made of, hashes what that of hashes is made of: the same decisions for what is
	// pinned and for what only makes the workload restart.
	pins, hashes plan.Input
	// baseline has the hashes that the workload itself notes rather than its template: those of its opting in, which is
	// no reason to restart.
	baseline pin.Set
	sources  map[pin.Source]revision.Observation
	warnings []warning
	// unbounded is true when the template has more than admission can resolve, so that its pins stay.
	unbounded bool
	// retry is true when something was refused that may be permitted later.
	retry bool
}

// read reads what a workload asks for.
func (o Options) read(kind workload.Kind, obj client.Object, referring []client.Object, namespace map[string]string) optin.Asked {
	others := make([]map[string]string, 0, len(referring))
	for _, other := range referring {
		others = append(others, other.GetAnnotations())
	}
	written := optin.Written{Annotations: optin.Merge(obj.GetAnnotations(), others...), NamespaceLabels: namespace}
	if template, err := kind.Template(obj); err == nil {
		written.TemplateAnnotations = template.Annotations
	}
	return optin.Read(written, optin.Defaults{Settle: o.Settle, Injection: o.Injection, Compat: o.Compat})
}

// asks reads what a workload asks for, in its own words and those of its namespace and of the workloads that refer to it.
func asks(ctx context.Context, reader client.Reader, kinds *kinds, o Options, kind workload.Kind, obj client.Object,
) (asked optin.Asked, referring []client.Object, err error) {
	if referring, err = referringTo(ctx, reader, kinds, kind, obj); err != nil {
		return optin.Asked{}, nil, err
	}
	namespace := newNamespace()
	err = reader.Get(ctx, client.ObjectKey{Name: obj.GetNamespace()}, namespace)
	if client.IgnoreNotFound(err) != nil {
		return optin.Asked{}, nil, err
	}
	return o.read(kind, obj, referring, namespace.Labels), referring, nil
}

// leftAlone tells whether nothing is to be done in a namespace: it is excluded, or it is being deleted, so that the API
// server refuses revisions and events in it.
func (o Options) leftAlone(ctx context.Context, reader client.Reader, name string) (bool, error) {
	if o.excluded(name) {
		return true, nil
	}
	namespace := newNamespace()
	err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	return err == nil && namespace.DeletionTimestamp != nil, client.IgnoreNotFound(err)
}

// newNamespace makes the empty metadata of a namespace to read into.
func newNamespace() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// referringTo gives the workloads that have their template in this one.
func referringTo(ctx context.Context, reader client.Reader, kinds *kinds, kind workload.Kind, obj client.Object) ([]client.Object, error) {
	var all []client.Object
	for _, other := range kinds.referring() {
		found, err := list(ctx, reader, other.NewList(), obj.GetNamespace(), byReferred, referredKey(kind.GVK.GroupKind(), obj.GetName()))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	// In the order of the cache, two that disagree would win by turns.
	slices.SortFunc(all, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all, nil
}

// newObserved has seen nothing yet.
func newObserved(namespace string, reader client.Reader) observed {
	return observed{
		namespace: namespace, sources: map[pin.Source]revision.Observation{}, baseline: pin.Set{},
		reader: reader, metas: map[pin.Source]*metav1.PartialObjectMetadata{},
		pins: plan.Input{Sources: map[pin.Source]plan.Source{}}, hashes: plan.Input{Sources: map[pin.Source]plan.Source{}},
	}
}

// pinsOf gives the pins of a workload's template; none when there is no workload, or when they are malformed.
func (r *workloads) pinsOf(obj client.Object) pin.Set {
	if obj == nil {
		return nil
	}
	pins, err := r.kind.Pins(obj)
	if err != nil {
		return nil
	}
	return pins
}

// view says how to look at a workload.
type view struct {
	// known is what is known of what it rolled out, beyond what its holders show.
	known *memory
	// reader reads the metadata of sources.
	reader client.Reader
	// stays tells whether its pins may not move now.
	stays func(optin.Advance) bool
	// old is the object that a request replaces; nil outside of admission, and where there was none.
	old client.Object
}

// observe looks at a workload, its sources and its holders. With an error, the sources that could not be observed are
// missing from the inputs.
func (r *workloads) observe(ctx context.Context, obj client.Object, v view) (observed, error) {
	seen := newObserved(obj.GetNamespace(), v.reader)
	seen.before = r.pinsOf(v.old)
	cached := false
	asked, referring, err := asks(ctx, r.client, r.kinds, r.options, r.kind, obj)
	if err != nil {
		return seen, err
	}
	seen.asked = asked
	if r.kind.Fixed {
		// Nothing restarts its pods.
		seen.asked.RestartOn = nil
		if asked.Mode != optin.Revision {
			return seen, nil
		}
	}
	if !asked.Track.Enabled() {
		// A source may still say itself that it belongs to the workload; that is not worth asking the API server for.
		seen.reader, cached = r.client, true
	}
	seen.pins.Stay, seen.hashes.Stay = v.stays(asked.Advance), v.stays(asked.Advance)
	for _, o := range append(slices.Clone(referring), obj) {
		seen.uids = append(seen.uids, o.GetUID())
	}
	seen.sayProblems(asked.Problems)
	if seen.template, err = r.kind.Template(obj); err != nil {
		if asked.Track.Enabled() {
			seen.say(reasonNoTemplate, "%v", err)
		}
		return seen, nil
	}
	if equality.Semantic.DeepEqual(seen.template, &corev1.PodTemplateSpec{}) {
		// There is nothing to write to.
		return seen, nil
	}
	if err := r.selectUses(ctx, obj, &seen); err != nil {
		return seen, err
	}
	seen.readNotes(r.notesOf(obj, v.old, &seen))
	if !seen.follows() {
		return seen, nil
	}
	if cached {
		seen.reader = v.reader
		clear(seen.metas)
	}
	return seen, errors.Join(r.observeHolders(ctx, obj, referring, v.known, &seen), r.observeSources(ctx, &seen), r.observeTriggers(ctx, &seen))
}

func (seen *observed) say(reason, format string, args ...any) {
	seen.warnings = append(seen.warnings, warning{reason: reason, note: fmt.Sprintf(format, args...)})
}

func (seen *observed) sayProblems(problems []optin.Problem) {
	for _, problem := range problems {
		seen.say(problem.Reason, "%s", problem.Note)
	}
}

// selectUses chooses what is tracked, and says what of it cannot be.
func (r *workloads) selectUses(ctx context.Context, obj client.Object, seen *observed) error {
	uses, err := r.kind.Uses(obj, seen.before)
	if err != nil {
		return err
	}
	traits, err := r.traits(ctx, uses, seen)
	if err != nil {
		return err
	}
	enabled := slices.DeleteFunc(slices.Clone(uses), func(use podspec.Use) bool { return !r.options.enabled(use.Kind) })
	asked := seen.asked
	selection := asked.Track.Select(enabled, asked.Mode == optin.Revision, func(source pin.Source) optin.Traits { return traits[source] })
	r.sayUntracked(seen, uses, selection)
	switch asked.Mode {
	case optin.Revision:
		seen.pins.Uses = r.bounded(seen, selection.Uses)
	case optin.Restart:
		seen.hashes.Uses = selection.Uses
	}
	unreferenced, err := r.unreferenced(ctx, seen)
	if err != nil {
		return err
	}
	for _, source := range unreferenced {
		known := slices.IndexFunc(seen.hashes.Uses, func(use podspec.Use) bool { return use.Source == source })
		if known < 0 {
			seen.hashes.Uses = append(seen.hashes.Uses, podspec.Use{Source: source, All: true})
			continue
		}
		seen.hashes.Uses[known].All = true
	}
	slices.SortFunc(seen.hashes.Uses, func(a, b podspec.Use) int { return a.Compare(b.Source) })
	return nil
}

// traits gives what the sources of a template say of themselves.
func (r *workloads) traits(ctx context.Context, uses []podspec.Use, seen *observed) (map[pin.Source]optin.Traits, error) {
	traits := map[pin.Source]optin.Traits{}
	for _, use := range uses {
		about, problems, err := r.describe(ctx, seen, use.Source)
		if err != nil {
			return nil, err
		}
		traits[use.Source] = about
		if seen.asked.Track.Enabled() || about.Owned {
			seen.sayProblems(problems)
		}
	}
	return traits, nil
}

// describe gives what a source says of itself. One that does not exist has no metadata, and its name still counts.
func (r *workloads) describe(ctx context.Context, seen *observed, source pin.Source) (optin.Traits, []optin.Problem, error) {
	if !r.options.enabled(source.Kind) {
		return optin.Traits{}, nil, nil
	}
	meta, err := seen.metadata(ctx, source)
	if err != nil {
		return optin.Traits{}, nil, err
	}
	if meta == nil {
		meta = revision.Metadata(revision.Ref{Kind: source.Kind, Namespace: seen.namespace, Name: source.Name})
	}
	about, problems := r.options.Compat.Describe(source, meta, seen.uids...)
	return about, problems, nil
}

// metadata gives the metadata of a source; nil when it does not exist.
func (seen *observed) metadata(ctx context.Context, source pin.Source) (*metav1.PartialObjectMetadata, error) {
	if meta, known := seen.metas[source]; known {
		return meta, nil
	}
	meta := revision.Metadata(revision.Ref{Kind: source.Kind, Namespace: seen.namespace, Name: source.Name})
	err := seen.reader.Get(ctx, key(meta), meta)
	if apierrors.IsNotFound(err) {
		meta, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", source, err)
	}
	seen.metas[source] = meta
	return meta, nil
}

// sayUntracked says which of the listed sources have no effect, and why.
func (r *workloads) sayUntracked(seen *observed, uses []podspec.Use, selection optin.Selection) {
	if seen.asked.Track.Lists(pin.Secret) && !r.options.enabled(pin.Secret) {
		seen.say(reasonKindNotEnabled, "annotation %s lists a Secret; this confrev runs without --secrets, so it tracks ConfigMaps only", keys.Track)
	}
	for _, source := range selection.Unused {
		if slices.ContainsFunc(uses, func(use podspec.Use) bool { return use.Source == source }) {
			continue
		}
		seen.say(reasonNotReferenced, "annotation %s lists %s, which the pod template does not refer to", keys.Track, source)
	}
	for _, source := range slices.SortedFunc(maps.Keys(selection.Refused), pin.Source.Compare) {
		seen.say(revision.NeverCopied, "%s is not followed: %s", source, selection.Refused[source])
	}
}

// bounded refuses a template that admission could not resolve.
func (r *workloads) bounded(seen *observed, uses []podspec.Use) []podspec.Use {
	n := podspec.References(&seen.template.Spec)
	if n <= podspec.MaxReferences && len(uses) <= pin.MaxPins {
		return uses
	}
	seen.say(reasonTooComplex, "the pod template has %d references to %d tracked sources; its pods could not be admitted with pins of "+
		"more than %d references or %d sources, so pins stay as they are", n, len(uses), podspec.MaxReferences, pin.MaxPins)
	seen.unbounded = true
	return nil
}

// notes are what confrev wrote: on the template pins and stamped hashes, on the workload noted hashes and what it is held
// from.
type notes struct{ pins, stamped, noted, held string }

// notesOf gives the notes of a workload. A request that takes some of them away altogether, as kubectl replace does, does
// not mean to: they are those of the old object then.
func (r *workloads) notesOf(obj, old client.Object, seen *observed) notes {
	template, annotations := seen.template.Annotations, obj.GetAnnotations()
	oldTemplate, oldAnnotations := map[string]string{}, map[string]string{}
	if old != nil {
		oldAnnotations = old.GetAnnotations()
		if before, err := r.kind.Template(old); err == nil {
			oldTemplate = before.Annotations
		}
	}
	kept := func(now, before map[string]string, key string) string { return cmp.Or(now[key], before[key]) }
	return notes{
		pins: kept(template, oldTemplate, keys.Pins), stamped: kept(template, oldTemplate, keys.Hashes),
		noted: kept(annotations, oldAnnotations, keys.Hashes), held: kept(annotations, oldAnnotations, keys.Held),
	}
}

// readNotes reads what confrev wrote before.
func (seen *observed) readNotes(n notes) {
	var err error
	seen.notes = n
	if seen.pins.Pins, err = pin.Parse(n.pins); err != nil && len(seen.pins.Uses) > 0 {
		seen.say(reasonMalformedPins, "annotation %s of the pod template was malformed, so it is written anew: %v", keys.Pins, err)
	}
	if seen.hashes.Pins, err = pin.ParseHashes(n.stamped); err != nil && len(seen.hashes.Uses) > 0 {
		seen.say(reasonMalformedPins, "annotation %s of the pod template is malformed, so it counts as none: %v", keys.Hashes, err)
		seen.hashes.Pins = pin.Set{}
	}
	// A note that cannot be read is no note: the holders show a hold too.
	held, _ := pin.ParseHashes(n.held)
	seen.pins.Held, seen.hashes.Held = held, held
	if len(seen.hashes.Uses) == 0 {
		return
	}
	noted, _ := pin.ParseHashes(n.noted)
	for _, use := range seen.hashes.Uses {
		if p, ok := noted[use.Source]; ok && seen.hashes.Pins[use.Source] == (pin.Pin{}) {
			seen.baseline[use.Source] = p
			seen.hashes.Pins[use.Source] = p
		}
	}
}

// observeHolders reads what the workload rolled out, as its holders show it, and as this process knows it before they do.
func (r *workloads) observeHolders(ctx context.Context, obj client.Object, referring []client.Object, known *memory, seen *observed) error {
	owners := []client.Object{obj}
	kind := r.kind.Holder
	if len(referring) > 0 {
		// Their controllers roll the template out, so it is their holders that count.
		owners = referring
	}
	shown := false
	for _, owner := range owners {
		found, err := list(ctx, r.client, kind.NewList(), obj.GetNamespace(), byController, string(owner.GetUID()))
		if err != nil {
			return fmt.Errorf("list the holders of %s %s: %w", r.kind.Resource(), key(obj), err)
		}
		for _, holder := range found {
			facts := kind.Facts(holder)
			pins, err := pin.Parse(facts.Pins)
			hashes, hashErr := pin.ParseHashes(facts.Hashes)
			if err != nil || hashErr != nil {
				continue
			}
			seen.pins.Holders = append(seen.pins.Holders, plan.Holder{Order: facts.Order, Pins: pins})
			seen.hashes.Holders = append(seen.hashes.Holders, plan.Holder{Order: facts.Order, Pins: hashes})
			shown = shown || known.wrote != nil && maps.Equal(pins, known.wrote.pins) && maps.Equal(hashes, known.wrote.hashes)
		}
	}
	if shown {
		// From now on the holders speak for themselves, also when this one is pruned.
		known.wrote = nil
	}
	if known.wrote != nil {
		// We wrote these pins, and the holder is not in the cache yet, or never will be because the template was rolled
		// back at once. Without this, an undo within that moment would be undone.
		seen.pins.Holders = append(seen.pins.Holders, plan.Holder{Order: math.MaxInt64, Pins: known.wrote.pins})
		seen.hashes.Holders = append(seen.hashes.Holders, plan.Holder{Order: math.MaxInt64, Pins: known.wrote.hashes})
	}
	return nil
}

// observeSources looks at the ConfigMaps and Secrets that are used.
func (r *workloads) observeSources(ctx context.Context, seen *observed) error {
	var errs []error
	look := func(use podspec.Use) (revision.Observation, bool) {
		meta, err := seen.metadata(ctx, use.Source)
		if err != nil {
			errs = append(errs, err)
			return revision.Observation{}, false
		}
		source, err := r.store.Observe(ctx, revision.Ref{Kind: use.Kind, Namespace: seen.namespace, Name: use.Name}, meta)
		if terminal, ok := errors.AsType[*revision.TerminalError](err); ok {
			seen.say(terminal.Reason, "%s", terminal.Message)
			return source, false
		}
		if err != nil {
			errs = append(errs, err)
			return source, false
		}
		seen.sources[use.Source] = source
		return source, true
	}
	for _, use := range seen.pins.Uses {
		if source, ok := look(use); ok {
			seen.pins.Sources[use.Source] = source.Source
		}
	}
	for _, use := range seen.hashes.Uses {
		if !slices.Contains(pin.Kinds, use.Kind) {
			continue
		}
		if !r.options.enabled(use.Kind) {
			seen.say(reasonKindNotEnabled, "%s cannot be followed: this confrev runs without --secrets", use.Source)
			continue
		}
		if source, ok := look(use); ok {
			if !source.Present && seen.restartsOn(use.Source) {
				seen.sayNotThere(use.Source)
			}
			seen.setHash(use, plan.Source{
				Present: source.Present, Digests: source.Digests, Name: source.Digests.Sum(use.All, use.Keys),
			})
		}
	}
	return errors.Join(errs...)
}

// items gives the objects of a list, not copies.
func items(list client.ObjectList) ([]client.Object, error) {
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
