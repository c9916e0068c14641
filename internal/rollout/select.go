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
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
)

// selectUses chooses what is tracked, and says what of it cannot be.
func (r *Engine) selectUses(ctx context.Context, obj client.Object, seen *observed) error {
	uses, err := r.Kind.Uses(obj, seen.before)
	if err != nil {
		return err
	}
	traits, err := r.traits(ctx, uses, seen)
	if err != nil {
		return err
	}
	enabled := slices.DeleteFunc(slices.Clone(uses), func(use podspec.Use) bool { return !r.Options.Enabled(use.Kind) })
	asked := seen.asked
	selection := asked.Track.Select(enabled, asked.Mode.Pins, func(source pin.Source) optin.Traits { return traits[source] })
	r.sayUntracked(seen, uses, selection)
	if asked.RestartAt && !r.Kind.Restarts {
		seen.say(optin.InvalidMode, "annotation %s: only an Argo Rollout with a template of its own has a restartAt; using rollout", keys.RotateBy)
	}
	switch {
	case asked.Mode.Pins:
		if err := r.chooseRotating(ctx, seen, &selection, traits); err != nil {
			return err
		}
		if !r.Kind.Fixed {
			seen.hashes.Uses = selection.Rotating
		}
		if seen.pins.Uses, err = r.mountable(ctx, seen, r.bounded(seen, selection.Uses)); err != nil {
			return err
		}
		if seen.pins.Unfollowed, err = r.unfollowed(ctx, seen, uses, traits); err != nil {
			return err
		}
	case asked.Mode.Restarts:
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

// traits returns what the sources of a template say of themselves.
func (r *Engine) traits(ctx context.Context, uses []podspec.Use, seen *observed) (map[pin.Source]optin.Traits, error) {
	traits := map[pin.Source]optin.Traits{}
	for _, use := range uses {
		about, problems, err := r.describe(ctx, seen, use.Source)
		if err != nil {
			return nil, err
		}
		traits[use.Source] = about
		if seen.asked.Track.Enabled() || seen.asked.Track.Owners() && about.Owned {
			seen.sayProblems(problems)
		}
	}
	return traits, nil
}

// describe returns what a source says of itself. One that does not exist has no metadata, and its name still counts.
func (r *Engine) describe(ctx context.Context, seen *observed, source pin.Source) (optin.Traits, []optin.Problem, error) {
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
	about, problems := r.Options.Compat.Describe(source, meta, seen.uids...)
	return about, problems, nil
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

// sayUntracked says which of the listed sources have no effect, and why.
func (r *Engine) sayUntracked(seen *observed, uses []podspec.Use, selection optin.Selection) {
	if seen.asked.Track.ListsKind(pin.Secret) && !r.Options.Enabled(pin.Secret) {
		seen.say(notice.KindNotEnabled, "annotation %s lists a Secret; this confrev runs without --secrets, so it tracks ConfigMaps only", keys.Track)
	}
	for _, source := range selection.Unused {
		if slices.ContainsFunc(uses, func(use podspec.Use) bool { return use.Source == source }) {
			continue
		}
		seen.sayOf(source, notice.NotReferenced, "annotation %s lists %s, which the pod template does not refer to", keys.Track, source)
	}
	for _, source := range selection.OwnersIgnored {
		seen.warnings = append(seen.warnings, notice.Notice{Reason: notice.OwnerIgnored, Source: source, Normal: true, Text: fmt.Sprintf(
			"the ownerReference of %s to the workload opts nothing in without consent: list it in the annotation %s, or set %s to true", source, keys.Track, keys.Owners)})
	}
	for _, source := range slices.SortedFunc(maps.Keys(selection.Refused), pin.Source.Compare) {
		seen.sayOf(source, revision.NeverCopied, "%s is not followed: %s", source, selection.Refused[source])
	}
}

// bounded refuses a template that admission could not resolve.
func (r *Engine) bounded(seen *observed, uses []podspec.Use) []podspec.Use {
	n := podspec.References(&seen.template.Spec)
	if n <= podspec.MaxReferences && len(uses) <= pin.MaxPins {
		return uses
	}
	seen.say(notice.TooManyReferences, "the pod template has %d references to %d tracked sources; its pods could not be admitted with pins of "+
		"more than %d references or %d sources, so pins stay as they are", n, len(uses), podspec.MaxReferences, pin.MaxPins)
	seen.unbounded = true
	return nil
}

// mountable returns the uses that the pods' service account lets them have revisions of.
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
	seen.say(notice.SecretsLimited, "service account %s has annotation %s: its pods may use none but the Secrets that it lists, so not the "+
		"revisions of any; Secrets are not pinned", name, account.EnforceMountableSecrets)
	return slices.DeleteFunc(slices.Clone(uses), isSecret), nil
}
