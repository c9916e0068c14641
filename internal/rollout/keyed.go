package rollout

import (
	"context"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
)

// What comes from a Secret, or from an object that confrev.io/restart-on names, is hashed with the key of the namespace (rule 22). What
// templates, holders and notes state may have been hashed before there was one, or with one that is lost.

// hashOf returns what the plan of hashes needs of a source.
func hashOf(use podspec.Use, source revision.Observation, rotates bool) plan.Source {
	return plan.Source{
		Present: source.Present, Digests: source.Digests, PlainDigests: source.PlainDigests, Scheme: source.Scheme, Rotates: rotates,
		Name: source.Key.Sum(use.Source, source.Digests.Sum(use.All, use.Keys)),
	}
}

// observeTrigger returns the hash of what matters of an object, and the key of what may be published of it. An object that is not there
// needs none.
func (r *Engine) observeTrigger(ctx context.Context, seen *observed, trigger optin.Trigger) (string, *content.Key, error) {
	hash, followed, err := r.Triggers.observe(ctx, seen.namespace, trigger)
	if followed != (FollowedKind{}) {
		seen.triggers = append(seen.triggers, followed)
	}
	if err != nil {
		return "", nil, err
	}
	key, err := r.Store.Key(ctx, seen.namespace)
	return hash, key, err
}

// lost reports whether a hash was made with another key than the present one.
func lost(hash, scheme string) bool {
	stated := content.SchemeOf(hash)
	return scheme != "" && stated != "" && stated != scheme
}

// recallHold is recall for the note of a hold, which counts for what was rolled back when its revision is deleted (rule 4).
func (r *Engine) recallHold(ctx context.Context, seen *observed, source pin.Source, found *revision.Observation) error {
	note := seen.pins.Held[source]
	if note.On == seen.pins.Pins[source] && lost(note.Keys, found.Scheme) && !found.Exists(note.From.Revision) {
		seen.sayKeyLost(source)
	}
	return r.recall(ctx, seen, source, found, note.Keys)
}

// recall adds to a source what is needed to compare it with what was stated of it without a key.
func (r *Engine) recall(ctx context.Context, seen *observed, source pin.Source, found *revision.Observation, stated ...string) error {
	for _, hash := range stated {
		if found.Scheme == "" || hash == "" || hash == absent || content.SchemeOf(hash) != "" {
			continue
		}
		plain, err := r.Store.UnkeyedDigests(ctx, revision.Ref{Kind: source.Kind, Namespace: seen.namespace, Name: source.Name}, *found)
		if err != nil {
			return err
		}
		found.PlainDigests = plain
	}
	return nil
}

// statedHashes returns all that is stated of the hash of an object: by the template, the workload, its holders, and the note of a hold.
func (seen *observed) statedHashes(object pin.Source) []string {
	note := seen.hashes.Held[object]
	all := []string{seen.hashes.Pins[object].Revision, seen.noted[object].Revision, note.From.Revision, note.On.Revision, note.Keys}
	for _, holder := range seen.hashes.Holders {
		all = append(all, holder.Pins[object].Revision)
	}
	return all
}

// rebase returns the hash that counts in place of one whose key is lost: what the workload notes itself, and if that is lost too, what
// the object has now. A change that came together with the loss cannot be told from it, so nothing rolls.
func (seen *observed) rebase(object pin.Source, before pin.Pin, source plan.Source) pin.Pin {
	now, ok := seen.noted[object]
	if !ok || lost(now.Revision, source.Scheme) {
		now = pin.Pin{Revision: source.Name, Number: before.Number}
		seen.sayKeyLost(object)
	}
	seen.baseline[object], seen.hashes.Pins[object] = now, now
	return now
}

func (seen *observed) sayKeyLost(object pin.Source) {
	seen.say(notice.KeyLost, "the key with which %s was hashed is lost (secret/%s was deleted or replaced), so whether it has changed since cannot "+
		"be told: nothing rolls out, and it counts as unchanged from now on", object, keys.KeySecret)
}
