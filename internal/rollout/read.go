package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
)

// Given is what was last written to a template.
type Given struct{ pins, hashes pin.Set }

// readHolders reads what the workload has rolled out: from its holders, and from what this process wrote that no holder shows yet.
func (r *Engine) readHolders(ctx context.Context, obj client.Object, referring []client.Object, seen *observed) error {
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
		seen.shown = seen.shown || seen.wrote != nil && maps.Equal(pins, seen.wrote.pins) && maps.Equal(hashes, seen.wrote.hashes)
	}
	if seen.wrote != nil && !seen.shown {
		// confrev wrote these pins, and the holder is not in the cache yet, or never will be because the template was rolled back at
		// once. Without this, confrev would revert an undo that immediately follows an advance.
		seen.holders = append(seen.holders, nil)
		seen.pins.Holders = append(seen.pins.Holders, plan.Holder{Order: math.MaxInt64, Pins: seen.wrote.pins})
		seen.hashes.Holders = append(seen.hashes.Holders, plan.Holder{Order: math.MaxInt64, Pins: seen.wrote.hashes})
	}
	return nil
}

// holders returns the holders of a workload, or of the workloads that refer to it, whose controllers then roll its template out.
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

// readSources reads the ConfigMaps and Secrets that are used. An error of one does not prevent reading the others.
func (r *Engine) readSources(ctx context.Context, seen *observed) error {
	var errs []error
	for _, use := range seen.pins.Uses {
		errs = append(errs, r.readPinned(ctx, seen, use))
	}
	for _, use := range seen.hashes.Uses {
		if slices.Contains(pin.Kinds, use.Kind) {
			errs = append(errs, r.readHashed(ctx, seen, use))
		}
	}
	return errors.Join(errs...)
}

func (r *Engine) readPinned(ctx context.Context, seen *observed, use podspec.Use) error {
	source, ok, err := r.readSource(ctx, seen, use)
	if !ok || err != nil {
		return err
	}
	if err := r.credit(ctx, seen, use.Source, source.Revisions); err != nil {
		return err
	}
	if err := r.readUnkeyed(ctx, seen, use.Source, &source, seen.pins.Held[use.Source].Keys); err != nil {
		return err
	}
	if meta := seen.metas[use.Source]; meta != nil {
		source.Resumed = spread.Ended(meta.Annotations[keys.Resume], pin.Pin{Revision: source.Name, Number: source.FollowingNumber()}, source.Since())
	}
	seen.pins.Sources[use.Source] = source.Source
	return nil
}

func (r *Engine) readHashed(ctx context.Context, seen *observed, use podspec.Use) error {
	if !r.Options.Enabled(use.Kind) {
		seen.warn(notice.KindNotEnabled, use.Source, "%s cannot be followed: this confrev runs without --secrets", use.Source)
		return nil
	}
	source, ok, err := r.readSource(ctx, seen, use)
	if !ok || err != nil {
		return err
	}
	if !source.Present && !use.Required && seen.restartsOn(use.Source) {
		seen.warn(notice.SourceMissing, use.Source, missingTrigger, keys.RestartOn, use.Source)
	}
	if meta := seen.metas[use.Source]; meta != nil && !seen.rotating[use.Source] {
		// Its data was read for the hash, so its type is known. Sources whose changes are ignored are not followed.
		if seen.rotating[use.Source], _, err = r.Store.Rotates(ctx, r.Options.Rotating, use.Source, meta, true); err != nil {
			return err
		}
	}
	if err := r.readUnkeyed(ctx, seen, use.Source, &source, seen.statedHashes(use.Source)...); err != nil {
		return err
	}
	seen.contents[use.Source] = contents{plan.Source{
		Present: source.Present, Digests: source.Digests, PlainDigests: source.PlainDigests, Scheme: source.Scheme,
		Rotates: seen.rotating[use.Source], Name: source.Key.Sum(use.Source, source.Digests.Sum(use.All, use.Keys)),
	}, source.PlainDigests.Sum(use.All, use.Keys)}
	return nil
}

// readSource reads one source. It returns false, and adds a warning, if retrying would not make the source readable.
func (r *Engine) readSource(ctx context.Context, seen *observed, use podspec.Use) (revision.Observation, bool, error) {
	meta, err := seen.metadata(ctx, use.Source)
	if err != nil {
		return revision.Observation{}, false, err
	}
	source, err := r.Store.Observe(ctx, revision.Ref{Kind: use.Kind, Namespace: seen.namespace, Name: use.Name}, meta, seen.pins.Pins[use.Source].Revision)
	if terminal, ok := errors.AsType[*notice.TerminalError](err); ok {
		seen.warnings = append(seen.warnings, terminal.About(use.Source))
		seen.retry = seen.retry || terminal.Reason == revision.KeyUnreadable
		return source, false, nil
	}
	if err != nil {
		return source, false, err
	}
	seen.sources[use.Source] = source
	return source, true, nil
}

// readUnkeyed adds to a source what is needed to compare it with hashes and notes from before there was a key (rule 22).
func (r *Engine) readUnkeyed(ctx context.Context, seen *observed, source pin.Source, found *revision.Observation, stated ...string) error {
	isUnkeyed := func(hash string) bool { return hash != "" && hash != absent && content.SchemeOf(hash) == "" }
	if found.Scheme == "" || !slices.ContainsFunc(stated, isUnkeyed) {
		return nil
	}
	var err error
	found.PlainDigests, err = r.Store.UnkeyedDigests(ctx, revision.Ref{Kind: source.Kind, Namespace: seen.namespace, Name: source.Name}, *found)
	return err
}

// statedHashes returns all hashes that were written for an object: on the template, the workload and its holders, and in the note of a hold.
func (seen *observed) statedHashes(object pin.Source) []string {
	note := seen.hashes.Held[object]
	all := []string{seen.hashes.Pins[object].Revision, seen.workloadHashes[object].Revision, note.From.Revision, note.On.Revision, note.Keys}
	for _, holder := range seen.hashes.Holders {
		all = append(all, holder.Pins[object].Revision)
	}
	return all
}

// credit lowers the numbers of revisions to what there is evidence of (rule 5): the pins that this workload knows of, and those
// of other workloads and holders. Anyone who may create ConfigMaps can create a copy of a revision with any number, and a high one
// would use up the numbers. Only a user who may change workloads can pin. Of numbers, only the highest counts, so lower ones stay. No pin need
// show that of the present content yet, unless it is far above all others.
func (r *Engine) credit(ctx context.Context, seen *observed, source pin.Source, revisions []plan.Revision) error {
	var highest int64
	now := seen.sources[source]
	plan.SortByNumber(revisions, now.Name)
	for i := range revisions {
		made, shown := &revisions[i], seen.pins.HighestNumber(source, revisions[i].Name)
		if made.Number <= highest || made.Name == now.Name && made.Number <= highest+plan.MaxLeap {
			continue
		}
		// Another copy of the present content is not newer than it.
		if made.Number > shown && (made.Name == now.Name || made.Hash != now.Hash) {
			pinned, err := index.HighestNumber(ctx, r.Client, r.Kinds, seen.namespace, source, made.Name, made.Number)
			if err != nil {
				return err
			}
			shown = max(shown, pinned)
		}
		if made.Number = min(made.Number, shown); made.Number < pin.MaxNumber {
			highest = max(highest, made.Number)
		}
	}
	return nil
}
