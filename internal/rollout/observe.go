package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
)

// observed is all that the plans for one workload need, and what to say of what its user wrote.
type observed struct {
	namespace string
	// uids are those of the workload and of those that refer to it: a source is opted in when one of them owns it.
	uids     []types.UID
	asked    optin.Config
	template *corev1.PodTemplateSpec
	// notes are what confrev wrote on the workload and its template before.
	notes notes
	// before are the pins of the template that a request replaces.
	before pin.Set
	// request are the pins that the template has in the request.
	request pin.Set
	// reader reads the metadata of sources, which metas remembers; nil for one that does not exist.
	reader client.Reader
	metas  map[pin.Source]*metav1.PartialObjectMetadata
	// eager is true where the type of each Secret counts that is followed, whether or not anything is to change. Else untyped are
	// those of which it is not known.
	eager   bool
	untyped []pin.Source
	// rotating are the sources that rotate, as far as that is known.
	rotating map[pin.Source]bool
	// noted are the hashes that the workload itself notes.
	noted pin.Set
	// pins is what the plan of pins is made of, hashes what that of hashes is made of: the same decisions for what is
	// pinned and for what only makes the workload restart.
	pins, hashes plan.Input
	// baseline has the hashes that the workload itself notes rather than its template: those of its opting in, which is
	// no reason to restart.
	baseline pin.Set
	sources  map[pin.Source]revision.Observation
	// holders are those of which the plans know; nil for what no holder shows yet.
	holders  []client.Object
	warnings []notice.Notice
	// unbounded is true when the template has more than admission can resolve, so that its pins stay.
	unbounded bool
	// requested is true within admission.
	requested bool
	// shown is true when a holder shows what was written last: from now on the holders speak for themselves, also when this one is pruned.
	shown bool
	// triggers are the kinds of other objects on which the workload restarts and that were read.
	triggers []FollowedKind
	// retry is true when something was refused that may be permitted later.
	retry bool
}

// newObserved has seen nothing yet.
func newObserved(namespace string, reader client.Reader) observed {
	return observed{
		namespace: namespace, sources: map[pin.Source]revision.Observation{}, baseline: pin.Set{}, rotating: map[pin.Source]bool{},
		reader: reader, metas: map[pin.Source]*metav1.PartialObjectMetadata{},
		pins: plan.Input{Sources: map[pin.Source]plan.Source{}}, hashes: plan.Input{Live: true, Sources: map[pin.Source]plan.Source{}},
	}
}

// pinsOf returns the pins of a workload's template; none when there is no workload, or when they are malformed.
func (r *Engine) pinsOf(obj client.Object) pin.Set {
	if obj == nil {
		return nil
	}
	pins, err := r.Kind.Pins(obj)
	if err != nil {
		return nil
	}
	return pins
}

// view says how to look at a workload.
type view struct {
	// wrote is what is known to have been rolled out last, whether or not a holder shows it yet; nil where nothing is.
	wrote *Given
	// reader reads the metadata of sources.
	reader client.Reader
	// stays reports whether its pins may not move now.
	stays func(optin.Advance) bool
	// eager is true where types of Secrets are looked up although nothing else may change: in a request that changes the template.
	eager bool
	// replaced is true for such a request.
	replaced bool
	// deploys is true where the template changes anyway.
	deploys bool
	// old is the object that a request replaces; nil outside of admission, and where there was none.
	old client.Object
	// request is true within admission: what needs an event is left to the reconciler.
	request bool
}

// observe looks at a workload, its sources and its holders. With an error, the sources that could not be observed are
// missing from the inputs.
func (r *Engine) observe(ctx context.Context, obj client.Object, v view) (observed, error) {
	seen := newObserved(obj.GetNamespace(), v.reader)
	seen.requested = v.request
	seen.before, seen.eager, seen.hashes.Replaced = r.pinsOf(v.old), v.eager, v.replaced
	seen.request = r.pinsOf(obj)
	cached := false
	asked, referring, err := Config(ctx, r.Client, r.Kinds, r.Options, r.Kind, obj)
	if err != nil {
		return seen, err
	}
	seen.asked = asked
	if r.Kind.Fixed {
		// Nothing restarts its pods.
		seen.asked.RestartOn = nil
		if !asked.Mode.Pins {
			return seen, nil
		}
	}
	if !asked.Track.Enabled() {
		// A source may still say itself that it belongs to the workload; that is not worth asking the API server for.
		seen.reader, cached = r.Client, true
	}
	seen.pins.Stay, seen.hashes.Stay = v.stays(asked.Advance), v.stays(asked.Advance)
	seen.pins.Deploys = v.deploys
	for _, o := range append(slices.Clone(referring), obj) {
		seen.uids = append(seen.uids, o.GetUID())
	}
	seen.sayProblems(asked.Problems)
	if seen.template, err = r.Kind.Template(obj); err != nil {
		if asked.Track.Enabled() {
			seen.say(notice.NoPodTemplate, "%v", err)
		}
		return seen, nil
	}
	if equality.Semantic.DeepEqual(seen.template, &corev1.PodTemplateSpec{}) {
		// There is nothing to write to.
		return seen, nil
	}
	seen.notes = r.notesOf(obj, v.old, &seen)
	if err := r.selectUses(ctx, obj, &seen); err != nil {
		return seen, err
	}
	seen.readNotes()
	seen.pins.Before = seen.before
	if !seen.follows() {
		return seen, nil
	}
	if cached {
		seen.reader = v.reader
		clear(seen.metas)
	}
	return seen, errors.Join(r.observeHolders(ctx, obj, referring, v.wrote, &seen), r.observeSources(ctx, &seen), r.observeTriggers(ctx, &seen))
}

func (seen *observed) say(reason, format string, args ...any) {
	seen.warnings = append(seen.warnings, notice.Notice{Reason: reason, Text: fmt.Sprintf(format, args...)})
}

// sayOf says something of one source.
func (seen *observed) sayOf(about pin.Source, reason, format string, args ...any) {
	seen.warnings = append(seen.warnings, notice.Notice{Reason: reason, Source: about, Text: fmt.Sprintf(format, args...)})
}

func (seen *observed) sayProblems(problems []optin.Problem) {
	for _, problem := range problems {
		seen.say(problem.Reason, "%s", problem.Note)
	}
}

// observeHolders reads what the workload rolled out, as its holders show it, and as this process knows it before they do.
func (r *Engine) observeHolders(ctx context.Context, obj client.Object, referring []client.Object, wrote *Given, seen *observed) error {
	found, err := r.holders(ctx, obj, referring)
	if err != nil {
		return err
	}
	for _, holder := range found {
		facts := r.Kind.Holder.Facts(holder)
		pins, err := pin.Parse(facts.Pins)
		hashes, hashErr := pin.ParseHashes(facts.Hashes)
		if err != nil || hashErr != nil {
			continue
		}
		seen.holders = append(seen.holders, holder)
		seen.pins.Holders = append(seen.pins.Holders, plan.Holder{Order: facts.Order, Pins: pins})
		seen.hashes.Holders = append(seen.hashes.Holders, plan.Holder{Order: facts.Order, Pins: hashes})
		seen.shown = seen.shown || wrote != nil && maps.Equal(pins, wrote.pins) && maps.Equal(hashes, wrote.hashes)
	}
	if wrote != nil && !seen.shown {
		// We wrote these pins, and the holder is not in the cache yet, or never will be because the template was rolled
		// back at once. Without this, an undo within that moment would be undone.
		seen.holders = append(seen.holders, nil)
		seen.pins.Holders = append(seen.pins.Holders, plan.Holder{Order: math.MaxInt64, Pins: wrote.pins})
		seen.hashes.Holders = append(seen.hashes.Holders, plan.Holder{Order: math.MaxInt64, Pins: wrote.hashes})
	}
	return nil
}

// holders lists the holders of a workload, or of those that refer to it: their controllers roll its template out then.
func (r *Engine) holders(ctx context.Context, obj client.Object, referring []client.Object) ([]client.Object, error) {
	owners := []client.Object{obj}
	if len(referring) > 0 {
		owners = referring
	}
	var all []client.Object
	for _, owner := range owners {
		found, err := index.List(ctx, r.Client, r.Kind.Holder.NewList(), obj.GetNamespace(), index.ByController, string(owner.GetUID()))
		if err != nil {
			return nil, fmt.Errorf("list the holders of %s %s: %w", r.Kind.Resource(), client.ObjectKeyFromObject(obj), err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// observeSources looks at the ConfigMaps and Secrets that are used. One that cannot be read does not keep the others from being seen.
func (r *Engine) observeSources(ctx context.Context, seen *observed) error {
	var errs []error
	for _, use := range seen.pins.Uses {
		errs = append(errs, r.observePinned(ctx, seen, use))
	}
	for _, use := range seen.hashes.Uses {
		if slices.Contains(pin.Kinds, use.Kind) {
			errs = append(errs, r.observeHashed(ctx, seen, use))
		}
	}
	return errors.Join(errs...)
}

// observePinned looks at a source that is pinned.
func (r *Engine) observePinned(ctx context.Context, seen *observed, use podspec.Use) error {
	source, ok, err := r.observeSource(ctx, seen, use)
	if !ok || err != nil {
		return err
	}
	if err := r.credit(ctx, seen, use.Source, source.Revisions); err != nil {
		return err
	}
	if err := r.recallHold(ctx, seen, use.Source, &source); err != nil {
		return err
	}
	seen.pins.Sources[use.Source] = source.Source
	return nil
}

// observeHashed looks at a source whose hash is stamped or noted.
func (r *Engine) observeHashed(ctx context.Context, seen *observed, use podspec.Use) error {
	if !r.Options.Enabled(use.Kind) {
		seen.sayOf(use.Source, notice.KindNotEnabled, "%s cannot be followed: this confrev runs without --secrets", use.Source)
		return nil
	}
	source, ok, err := r.observeSource(ctx, seen, use)
	if !ok || err != nil {
		return err
	}
	if !source.Present && !use.Required && seen.restartsOn(use.Source) {
		seen.sayNotThere(use.Source)
	}
	rotates, err := r.rotates(ctx, seen, use.Source)
	if err != nil {
		return err
	}
	if err := r.recall(ctx, seen, use.Source, &source, seen.statedHashes(use.Source)...); err != nil {
		return err
	}
	seen.setHash(use, hashOf(use, source, rotates), source.PlainDigests.Sum(use.All, use.Keys))
	return nil
}

// observeSource looks at one source. It returns false for a source that no retry would make readable; the user is told.
func (r *Engine) observeSource(ctx context.Context, seen *observed, use podspec.Use) (revision.Observation, bool, error) {
	meta, err := seen.metadata(ctx, use.Source)
	if err != nil {
		return revision.Observation{}, false, err
	}
	source, err := r.Store.Observe(ctx, revision.Ref{Kind: use.Kind, Namespace: seen.namespace, Name: use.Name}, meta, seen.pins.Pins[use.Source].Revision)
	if terminal, ok := errors.AsType[*revision.TerminalError](err); ok {
		seen.sayOf(use.Source, terminal.Reason, "%s", terminal.Message)
		seen.retry = seen.retry || terminal.Reason == revision.KeyUnreadable
		return source, false, nil
	}
	if err != nil {
		return source, false, err
	}
	seen.sources[use.Source] = source
	return source, true, nil
}

// Given is what a template was last given.
type Given struct{ pins, hashes pin.Set }
