package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/account"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
)

// selectUses reads the sources' own annotations, selects the sources that are pinned and those that are followed by their hash, and warns
// about those that cannot be either.
func (r *Engine) selectUses(ctx context.Context, obj client.Object, seen *observed) error {
	uses, err := r.uses(ctx, obj, seen)
	if err != nil {
		return err
	}
	traits, err := r.traits(ctx, uses, seen)
	if err != nil {
		return err
	}
	enabled := slices.DeleteFunc(slices.Clone(uses), func(use podspec.Use) bool { return !r.Options.Enabled(use.Kind) })
	config := seen.config
	selection := config.Track.Select(enabled, config.Mode.Pins, func(source pin.Source) optin.Traits { return traits[source] })
	r.warnUntracked(seen, uses, selection)
	if config.RestartAt && !r.Kind.Restarts {
		seen.warn(optin.InvalidMode, pin.Source{}, "annotation %s: only an Argo Rollout with its own template has a restartAt; using rollout", keys.RotateBy)
	}
	switch {
	case config.Mode.Pins:
		if err := r.selectPinned(ctx, seen, uses, selection, traits); err != nil {
			return err
		}
	case config.Mode.Restarts:
		seen.hashes.Uses = selection.Uses
	}
	further, err := r.further(ctx, seen, uses)
	if err != nil {
		return err
	}
	for _, source := range further {
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

// uses returns the sources that the template refers to. With injection template, it has kept names of earlier revisions if the webhook failed
// within the request that pinned it, or if its pins have become malformed. Then these revisions tell of which sources they are.
func (r *Engine) uses(ctx context.Context, obj client.Object, seen *observed) ([]podspec.Use, error) {
	uses, err := r.Kind.Uses(obj, seen.earlier...)
	if err != nil || seen.config.Injection != optin.Template {
		return uses, err
	}
	_, malformed := pin.Parse(seen.notes.pins)
	for _, use := range uses {
		if !r.Options.Enabled(use.Kind) || malformed == nil && !seen.pins.Pins.MayDerive(use.Source) {
			continue
		}
		meta, err := seen.metadata(ctx, use.Source)
		if err != nil {
			return nil, err
		}
		source, err := r.Store.MadeOf(ctx, meta)
		if err != nil {
			return nil, err
		}
		if malformed != nil && source != (pin.Source{}) || seen.pins.Pins[source] != (pin.Pin{}) {
			seen.earlier = append(seen.earlier, pin.Set{source: {Revision: use.Name}})
		}
	}
	return r.Kind.Uses(obj, seen.earlier...)
}

func (r *Engine) traits(ctx context.Context, uses []podspec.Use, seen *observed) (map[pin.Source]optin.Traits, error) {
	traits := map[pin.Source]optin.Traits{}
	for _, use := range uses {
		about, wrong, err := r.describe(ctx, seen, use.Source)
		if err != nil {
			return nil, err
		}
		traits[use.Source] = about
		if seen.config.Track.Enabled() || seen.config.Track.Owners() && about.Owned {
			seen.warnings = append(seen.warnings, wrong...)
		}
	}
	return traits, nil
}

// describe returns the traits of a source. A source that does not exist has no metadata, but its name still counts.
func (r *Engine) describe(ctx context.Context, seen *observed, source pin.Source) (optin.Traits, []notice.Notice, error) {
	if !r.Options.Enabled(source.Kind) {
		return optin.Traits{}, nil, nil
	}
	meta, err := seen.metadata(ctx, source)
	if err != nil {
		return optin.Traits{}, nil, err
	}
	if meta == nil {
		meta = revision.Metadata(revision.Ref{Kind: source.Kind, Namespace: seen.namespace, Name: source.Name})
	}
	about, wrong := r.Options.Compat.Describe(source, meta, seen.uids...)
	seen.gates[source], seen.spreads[source] = about.Gates, about.Spreading
	return about, wrong, nil
}

// warn adds a warning, about a source unless that is zero.
func (seen *observed) warn(reason string, source pin.Source, format string, args ...any) {
	seen.warnings = append(seen.warnings, notice.Warning(reason, source, format, args...))
}

// metadata returns the metadata of a source; nil when it does not exist.
func (seen *observed) metadata(ctx context.Context, source pin.Source) (*metav1.PartialObjectMetadata, error) {
	if meta, known := seen.metas[source]; known {
		return meta, nil
	}
	meta := revision.Metadata(revision.Ref{Kind: source.Kind, Namespace: seen.namespace, Name: source.Name})
	err := seen.reader.Get(ctx, client.ObjectKeyFromObject(meta), meta)
	if apierrors.IsNotFound(err) {
		meta, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", source, err)
	}
	seen.metas[source] = meta
	return meta, nil
}

// warnUntracked warns about listed sources that have no effect, and says why.
func (r *Engine) warnUntracked(seen *observed, uses []podspec.Use, selection optin.Selection) {
	if seen.config.Track.ListsKind(pin.Secret) && !r.Options.Enabled(pin.Secret) {
		seen.warn(notice.KindNotEnabled, pin.Source{}, "annotation %s lists a Secret; this confrev runs without --secrets, so it tracks ConfigMaps only", keys.Track)
	}
	if names, about := selection.Unreferenced(uses); len(names) > 0 {
		seen.warn(notice.NotReferenced, about, "annotation %s lists %s, which the pod template does not refer to", keys.Track, notice.Names(names))
	}
	for _, source := range selection.OwnersIgnored {
		n := notice.Warning(notice.OwnerIgnored, source, "the ownerReference of %s to the workload opts nothing in without consent: list it in "+
			"the annotation %s, or set %s to true", source, keys.Track, keys.Owners)
		n.Normal = true
		seen.warnings = append(seen.warnings, n)
	}
	for _, source := range slices.SortedFunc(maps.Keys(selection.Refused), pin.Source.Compare) {
		seen.warn(revision.NeverCopied, source, "%s is not followed: %s", source, selection.Refused[source])
	}
}

// selectPinned selects the sources that are pinned: all tracked sources that do not rotate and that admission can resolve.
func (r *Engine) selectPinned(ctx context.Context, seen *observed, uses []podspec.Use, selection optin.Selection, traits map[pin.Source]optin.Traits) error {
	seen.unbounded = seen.config.Track.TooLong()
	var pinned []podspec.Use
	for _, use := range selection.Uses {
		about := traits[use.Source]
		var err error
		if about.Policy, err = r.policy(ctx, seen, use.Source, about.Policy, seen.readTypes); err != nil {
			return err
		}
		if traits[use.Source] = about; about.Policy.Rotates || seen.rotated(use.Source) {
			selection.Rotating = append(selection.Rotating, use)
			continue
		}
		pinned = append(pinned, use)
	}
	for _, use := range selection.Rotating {
		seen.rotating[use.Source] = true
	}
	if !r.Kind.Fixed {
		seen.hashes.Uses = selection.Rotating
	}
	if n := podspec.References(&seen.template.Spec); n > podspec.MaxReferences || len(pinned) > pin.MaxPins {
		seen.warn(notice.TooManyReferences, pin.Source{}, "the pod template has %d references to %d tracked sources; its pods could not be "+
			"admitted with pins of more than %d references or %d sources, so pins stay as they are", n, len(pinned), podspec.MaxReferences, pin.MaxPins)
		seen.unbounded, pinned = true, nil
	}
	var err error
	if seen.pins.Uses, err = r.mountable(ctx, seen, pinned); err != nil {
		return err
	}
	seen.pins.Unfollowed, err = r.unfollowed(ctx, seen, uses, traits)
	return err
}

// policy returns the policy of a source. If its annotation sets none, the policy depends on what the source is: certificates and leased
// credentials rotate. If the type of a Secret is not known, policy reads it if the view asks for that, and otherwise notes it as untyped.
func (r *Engine) policy(ctx context.Context, seen *observed, source pin.Source, stated optin.Policy, readType bool) (optin.Policy, error) {
	meta := seen.metas[source]
	if meta == nil || stated.ReadsLive {
		return stated, nil
	}
	rotates, known, err := r.Store.Rotates(ctx, r.Options.Rotating, source, meta, readType)
	if !known && err == nil {
		seen.untyped = append(seen.untyped, source)
	}
	if rotates {
		return optin.PolicyRotate, err
	}
	return stated, err
}

// rotated reports whether a source that does not exist was followed as one that rotates: only those have a hash and no pin. When it exists
// again it will rotate again, so its hash must be kept until then.
func (seen *observed) rotated(source pin.Source) bool {
	if meta, asked := seen.metas[source]; !asked || meta != nil || seen.restartsOn(source) {
		return false
	}
	hasHash := seen.hashes.Pins[source] != pin.Pin{} || seen.workloadHashes[source] != pin.Pin{}
	return hasHash && seen.pins.Pins[source] == pin.Pin{}
}

// mountable returns the uses of which pods may have revisions, as far as their service account allows it.
func (r *Engine) mountable(ctx context.Context, seen *observed, uses []podspec.Use) ([]podspec.Use, error) {
	isSecret := func(use podspec.Use) bool { return use.Kind == pin.Secret }
	if !slices.ContainsFunc(uses, isSecret) {
		return uses, nil
	}
	spec := &seen.template.Spec
	name := cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount, "default")
	enforces, err := r.Accounts.Enforces(ctx, types.NamespacedName{Namespace: seen.namespace, Name: name})
	if err != nil || !enforces {
		return uses, err
	}
	seen.warn(notice.SecretsLimited, pin.Source{}, "service account %s has annotation %s: its pods may use only the Secrets that it lists, "+
		"so no revisions; Secrets are not pinned", name, account.EnforceMountableSecrets)
	return slices.DeleteFunc(slices.Clone(uses), isSecret), nil
}

// unfollowed returns how the sources stand that a template refers to and that are not chosen to be pinned (rule 21.6).
func (r *Engine) unfollowed(ctx context.Context, seen *observed, uses []podspec.Use, traits map[pin.Source]optin.Traits) (map[pin.Source]plan.Standing, error) {
	standings := map[pin.Source]plan.Standing{}
	for _, use := range uses {
		if slices.ContainsFunc(seen.pins.Uses, func(followed podspec.Use) bool { return followed.Source == use.Source }) {
			continue
		}
		standings[use.Source] = r.standing(seen, use.Source, traits[use.Source])
		p, pinned := seen.request[use.Source]
		if !pinned || standings[use.Source] != plan.ReadLive {
			continue
		}
		appeared, err := r.Store.OfAbsence(ctx, revision.Ref{Kind: use.Kind, Namespace: seen.namespace, Name: p.Revision})
		if err != nil {
			return nil, err
		}
		if appeared {
			standings[use.Source] = plan.Appeared
		}
	}
	return standings, nil
}

// standing returns how a source stands whose metadata was looked up.
func (r *Engine) standing(seen *observed, source pin.Source, about optin.Traits) plan.Standing {
	switch {
	case !r.Options.Enabled(source.Kind) || seen.metas[source] == nil:
		return plan.Unasked
	case about.Policy.ReadsLive || about.Never != "":
		return plan.ReadLive
	}
	return plan.Untracked
}

// further returns what makes the workload restart by its name, whatever the template uses of it. What another tool's annotation names and the template
// refers to is tracked already; only in mode restart, all of it counts.
func (r *Engine) further(ctx context.Context, seen *observed, uses []podspec.Use) ([]pin.Source, error) {
	all, err := r.trackedByName(ctx, seen)
	if err != nil {
		return nil, err
	}
	if seen.config.Mode.Pins {
		all = slices.DeleteFunc(all, func(source pin.Source) bool {
			return slices.ContainsFunc(uses, func(use podspec.Use) bool { return use.Source == source })
		})
	}
	for _, trigger := range seen.config.RestartOn {
		all = append(all, trigger.Source)
	}
	var wanted []pin.Source
	for _, source := range all {
		about, wrong, err := r.describe(ctx, seen, source)
		if err != nil {
			return nil, err
		}
		seen.warnings = append(seen.warnings, wrong...)
		switch {
		case about.Never != "" && seen.restartsOn(source):
			seen.warn(revision.NeverCopied, source, "%s is not followed: %s", source, about.Never)
		case about.Never == "" && !about.Policy.Ignored:
			wanted = append(wanted, source)
		}
	}
	return wanted, nil
}

// trackedByName returns the sources that are tracked by their names, even if nothing refers to them (Reloader, Wave).
func (r *Engine) trackedByName(ctx context.Context, seen *observed) ([]pin.Source, error) {
	var found []pin.Source
	for _, kind := range r.Options.SourceKinds() {
		names, exact := seen.config.Track.ListedNames(kind)
		for _, name := range names {
			found = append(found, pin.Source{Kind: kind, Name: name})
		}
		if exact {
			continue
		}
		matched, err := r.matched(ctx, seen, kind)
		if err != nil {
			return nil, err
		}
		found = append(found, matched...)
	}
	return found, nil
}

// maxMatched is how many sources of a kind regular expressions may match: as many as a list may name.
const maxMatched = pin.MaxPins

// matched returns the sources of a kind that regular expressions match, the first ones by name if there are too many.
func (r *Engine) matched(ctx context.Context, seen *observed, kind pin.Kind) ([]pin.Source, error) {
	matched, err := revision.ListSources(ctx, r.Client, seen.namespace, kind, seen.config.Track.MatchesName)
	if err != nil {
		return nil, err
	}
	if len(matched) <= maxMatched {
		return matched, nil
	}
	seen.warn(optin.InvalidCompat, pin.Source{}, "annotation %s.reloader.stakater.com/reload matches more than %d objects; the rest are ignored", kind, maxMatched)
	return matched[:maxMatched], nil
}
