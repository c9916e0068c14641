package rollout

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
)

// named returns the sources that are tracked by their names though nothing may refer to them (Reloader, Wave).
func (r *Engine) named(ctx context.Context, seen *observed) ([]pin.Source, error) {
	var found []pin.Source
	for _, kind := range r.Options.SourceKinds() {
		names, exact := seen.asked.Track.ListedNames(kind)
		for _, name := range names {
			found = append(found, pin.Source{Kind: kind, Name: name})
		}
		if exact {
			continue
		}
		all := revision.NewMetadataList(kind)
		if err := r.Client.List(ctx, all, client.InNamespace(seen.namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		for i := range all.Items {
			source := pin.Source{Kind: kind, Name: all.Items[i].Name}
			if !revision.IsRevision(&all.Items[i]) && seen.asked.Track.MatchesName(source) {
				found = append(found, source)
			}
		}
	}
	return found, nil
}

// unreferenced returns what makes the workload restart in addition to what its template refers to.
func (r *Engine) unreferenced(ctx context.Context, seen *observed) ([]pin.Source, error) {
	all, err := r.named(ctx, seen)
	if err != nil {
		return nil, err
	}
	for _, trigger := range seen.asked.RestartOn {
		all = append(all, trigger.Source)
	}
	var wanted []pin.Source
	for _, source := range all {
		about, problems, err := r.describe(ctx, seen, source)
		if err != nil {
			return nil, err
		}
		seen.sayProblems(problems)
		switch {
		case about.Never != "" && seen.restartsOn(source):
			seen.sayOf(source, revision.NeverCopied, "%s is not followed: %s", source, about.Never)
		case about.Never == "" && !about.Policy.Ignored:
			wanted = append(wanted, source)
		}
	}
	return wanted, nil
}

// restartsOn reports whether the user names an object in confrev.io/restart-on.
func (seen *observed) restartsOn(object pin.Source) bool {
	return slices.ContainsFunc(seen.asked.RestartOn, func(t optin.Trigger) bool { return t.Source == object })
}

func (seen *observed) sayNotThere(object pin.Source) {
	seen.sayOf(object, notice.SourceMissing, "annotation %s names %s, which does not exist; the workload restarts when it appears", keys.RestartOn, object)
}

// absent stands for the hash of an object that does not exist.
const absent = "absent"

// setHash returns the plan of hashes what a source or other object holds now. One that the workload has only just begun to
// follow is noted with what it holds: opting in is no reason to restart, unless the pods read a frozen revision of it.
// The same goes for a template that lost its hash, say by a rollback to before it had one: its pods start again anyway.
// One that is not there is noted too, so that its appearance is a change (rule 6), unless pods could not start without it.
//
// plain is the hash of the present content without a key: what was stated before there was one is compared with it (rule 22).
func (seen *observed) setHash(use podspec.Use, source plan.Source, plain string) {
	if source.Scheme != "" {
		source.Revisions = []plan.Revision{{Name: plain}}
	}
	seen.hashes.Sources[use.Source] = source
	if source.Rotates {
		seen.readAhead(use.Source)
	}
	before, follows := seen.hashes.Pins[use.Source]
	if follows && source.Present && lost(before.Revision, source.Scheme) {
		if seen.requested {
			delete(seen.hashes.Sources, use.Source)
			return
		}
		before = seen.rebase(use.Source, before, source)
	}
	awaited := before.Revision == absent && source.Present && use.Required
	if awaited || !follows && !seen.frozen(use.Source) {
		before = seen.first(use, source)
		seen.baseline[use.Source], seen.hashes.Pins[use.Source] = before, before
	}
	if before.Revision == absent && !source.Present {
		// Nothing that was there is missing.
		delete(seen.hashes.Pins, use.Source)
	}
}

// first returns the hash from which on a source is followed.
func (seen *observed) first(use podspec.Use, source plan.Source) pin.Pin {
	switch {
	case !source.Present:
		return pin.Pin{Revision: absent, Number: 1}
	case source.Rotates:
		return seen.firstOfRotating(use, source)
	}
	return pin.Pin{Revision: source.Name, Number: 1}
}

// frozen reports whether pods of the template read a revision of a source.
func (seen *observed) frozen(source pin.Source) bool {
	_, pinned := seen.pins.Pins[source]
	return pinned && !seen.asked.Mode.Pins
}

// observeTriggers looks at the objects of any other kind that make the workload restart.
func (r *Engine) observeTriggers(ctx context.Context, seen *observed) error {
	var errs []error
	for _, trigger := range seen.asked.RestartOn {
		if trigger.IsSource() {
			continue
		}
		hash, key, err := r.observeTrigger(ctx, seen, trigger)
		if terminal, ok := errors.AsType[*revision.TerminalError](err); ok {
			seen.sayOf(trigger.Source, terminal.Reason, "%s", terminal.Message)
			seen.retry = true
			continue
		}
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
			continue
		}
		if err != nil {
			seen.sayNotThere(trigger.Source)
		}
		seen.setHash(podspec.Use{Source: trigger.Source, All: true}, plan.Source{
			Present: err == nil, Name: key.Sum(trigger.Source, hash), Scheme: key.Scheme(),
		}, hash)
	}
	return errors.Join(errs...)
}
