package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
)

// code returns the code of a workload's template, with names restored that its own pins or those before put in.
func (r *Engine) code(obj client.Object, before pin.Set) podspec.Code {
	return podspec.CodeOf(&r.Template(obj).Spec, r.pinsOf(obj), before)
}

// brings returns what rule 21 compares of a workload's template.
func (r *Engine) brings(obj client.Object, before pin.Set) plan.Template {
	return plan.Template{Code: r.code(obj, before).Digest(), Pins: r.pinsOf(obj)}
}

// undoes reports whether a request goes back to a holder, and with which pins (rule 21.2). reader reads the metadata of sources.
func (r *Engine) undoes(ctx context.Context, reader client.Reader, obj, old client.Object) (pins pin.Set, is bool, err error) {
	if r.Kind.Fixed {
		return nil, false, nil
	}
	referring, err := index.Referring(ctx, r.Client, r.Kinds, r.Kind, obj)
	if err != nil {
		return nil, false, err
	}
	found, err := r.holders(ctx, obj, referring)
	if err != nil {
		return nil, false, err
	}
	var templates []plan.Template
	for _, holder := range found {
		facts := r.Kind.Holder.Facts(holder)
		if pins, err := pin.Parse(facts.Pins); err == nil {
			templates = append(templates, plan.Template{Code: facts.Code, Pins: pins})
		}
	}
	before, request := r.brings(old, nil), r.brings(obj, r.pinsOf(old))
	dropped, err := r.dropped(ctx, reader, obj, before, request, templates)
	if err != nil {
		return nil, false, err
	}
	pins, is = plan.Undo(before, request, templates, dropped)
	return pins, is, nil
}

// withSettings returns a request's object with the settings and notes of the old one: kubectl rollout undo brings back those of
// an old ReplicaSet in their place (rule 21.5).
func withSettings(obj, old client.Object) client.Object {
	obj = obj.DeepCopyObject().(client.Object)
	obj.SetAnnotations(settings(obj, old))
	return obj
}

func settings(obj, old client.Object) map[string]string {
	isSetting := func(key, _ string) bool { return strings.HasPrefix(key, keys.Prefix) }
	annotations := map[string]string{}
	maps.Copy(annotations, obj.GetAnnotations())
	maps.DeleteFunc(annotations, isSetting)
	for key, value := range old.GetAnnotations() {
		if isSetting(key, value) {
			annotations[key] = value
		}
	}
	return annotations
}

// keptSettings returns the settings that a request would change, as they were; empty for those that it would add.
func keptSettings(obj, old client.Object) map[string]string {
	kept := map[string]string{}
	for _, annotations := range []map[string]string{obj.GetAnnotations(), old.GetAnnotations()} {
		for key := range annotations {
			if strings.HasPrefix(key, keys.Prefix) {
				kept[key] = old.GetAnnotations()[key]
			}
		}
	}
	return kept
}

// vouch corrects what is known of the revisions that a request pins: the request may come right after the cache saw one appear or
// go, and metadata alone proves nothing (rules 9 and 20).
func (r *Engine) vouch(ctx context.Context, seen *observed) error {
	for source, p := range seen.request {
		known, observed := seen.pins.Sources[source]
		if !observed || p == seen.before[source] || p.Revision == known.Name {
			continue
		}
		_, held, err := r.Store.Verify(ctx, source, revision.Ref{Kind: source.Kind, Namespace: seen.namespace, Name: p.Revision})
		if err != nil && !revision.IsChanged(err) {
			return err
		}
		named := func(made plan.Revision) bool { return made.Name == p.Revision }
		vouched := plan.Revision{Name: p.Revision, Number: p.Number}
		if i := slices.IndexFunc(known.Revisions, named); i >= 0 {
			vouched.Number = known.Revisions[i].Number
		}
		known.Revisions = slices.DeleteFunc(slices.Clone(known.Revisions), named)
		if err == nil {
			vouched.Hash, vouched.Digests = held.Hash, held.Digests
			known.Revisions = append(known.Revisions, vouched)
		}
		seen.pins.Sources[source] = known
	}
	return nil
}

// planFrom says from which pins to plan for a request, once its sources were looked at (rules 21.1 and 21.2).
func (seen *observed) planFrom(undone pin.Set, isUndo bool) {
	if isUndo {
		seen.pins.Undo = true
		seen.pins.Pins, seen.notes.pins = undone, undone.String()
		return
	}
	in := seen.pins
	in.Pins = seen.before
	pins, chosen, refused := plan.ChosenPins(in, seen.request)
	seen.pins.Pins, seen.pins.Chosen, seen.notes.pins = pins, chosen, pins.String()
	for _, source := range refused {
		counts := "so the pin stays as it was"
		if in.Pins[source] == (pin.Pin{}) {
			counts = "so the pin does not count"
		}
		seen.sayOf(source, notice.MalformedPins, "annotation %s of the pod template pins %s to something that is not a revision of it in this namespace, %s",
			keys.Pins, source, counts)
	}
}

// endHolds plans once more if a deploy ends a hold: the one of a request that replaces old, or, outside of admission, one that
// the webhook missed (rule 21.3).
func (r *Engine) endHolds(ctx context.Context, obj, old client.Object, seen *observed, want intent) (intent, error) {
	if len(want.pins.Held)+len(want.hashes.Held) == 0 {
		return want, nil
	}
	d := deploy{Engine: r, holders: seen.holders, after: r.code(obj, seen.before)}
	if old != nil {
		d.before = r.code(old, nil)
		if len(d.after.Differences(d.before)) == 0 {
			return want, nil
		}
	}
	var err error
	if seen.pins.Ended, err = d.ends(ctx, seen.pins.Holders, want.pins); err != nil {
		return want, err
	}
	if seen.hashes.Ended, err = d.ends(ctx, seen.hashes.Holders, want.hashes); err != nil {
		return want, err
	}
	if len(seen.pins.Ended)+len(seen.hashes.Ended) == 0 {
		return want, nil
	}
	return r.intend(*seen), nil
}

// deploy is a change to code while something is held.
type deploy struct {
	*Engine
	// holders are those that the plans were made of; nil for what no holder shows yet.
	holders []client.Object
	// before and after are the code of the template; before is nil where only the template as it is now is known.
	before, after podspec.Code
}

// ends returns the sources of a plan of which the deploy ends the hold. Those that are held from one holder end together.
func (d deploy) ends(ctx context.Context, holders []plan.Holder, p plan.Plan) (map[pin.Source]bool, error) {
	from, over := map[pin.Source]int{}, map[int]bool{}
	for _, decision := range p.Decisions {
		if decision.Verdict != plan.Held || decision.From == (pin.Pin{}) {
			continue
		}
		back := plan.FindRollback(holders, decision.Source, p.Held[decision.Source].From, decision.From)
		if back.From < 0 || d.holders[back.From] == nil {
			continue
		}
		from[decision.Source] = back.From
		ends, err := d.undoesTheUndo(ctx, back)
		if err != nil {
			return nil, err
		}
		over[back.From] = over[back.From] || ends
	}
	ended := map[pin.Source]bool{}
	for source, holder := range from {
		if over[holder] {
			ended[source] = true
		}
	}
	return ended, nil
}

func (d deploy) undoesTheUndo(ctx context.Context, back plan.Rollback) (bool, error) {
	shown := back.To >= 0 && d.holders[back.To] != nil
	if d.before == nil && (!shown || d.Kind.Holder.Facts(d.holders[back.To]).Code == d.after.Digest()) {
		// It runs what it was rolled back to.
		return false, nil
	}
	from, err := d.read(ctx, d.holders[back.From])
	if from == nil || err != nil {
		return false, err
	}
	// What was rolled back to is the template itself, until its holder shows it.
	to := d.before
	if shown {
		if to, err = d.read(ctx, d.holders[back.To]); to == nil || err != nil {
			return false, err
		}
	}
	before := d.before
	if before == nil {
		before = to
	}
	return plan.EndsHold(from, to, before, d.after), nil
}

// read reads the code of a holder. A holder that is gone has none.
func (d deploy) read(ctx context.Context, holder client.Object) (podspec.Code, error) {
	live := d.Kind.Holder.New()
	err := d.Whole.Get(ctx, client.ObjectKeyFromObject(holder), live)
	if apierrors.IsNotFound(err) || err == nil && live.GetUID() != holder.GetUID() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", d.Kind.Holder.GVK.Kind, client.ObjectKeyFromObject(holder), err)
	}
	template, err := d.Kind.Holder.Template(live)
	if err != nil {
		return nil, nil //nolint:nilerr // What has no template shows nothing.
	}
	pins, _ := pin.Parse(template.Annotations[keys.Pins])
	return podspec.CodeOf(&template.Spec, pins), nil
}

// sayHeld reports anyone who changes the code of a workload, or creates one with old pins, that its configuration stays where it is, and
// how to go on (rule 21.4).
func (r *Engine) sayHeld(obj, old client.Object, seen observed, want intent) []notice.Notice {
	why := "to which the workload was rolled back"
	if old == nil {
		why = "which its manifest pins"
	} else if len(r.code(obj, seen.before).Differences(r.code(old, nil))) == 0 {
		return nil
	}
	var said []notice.Notice
	for _, d := range want.pins.Decisions {
		if d.Verdict == plan.Held {
			said = append(said, notice.Notice{Reason: notice.Held, Text: fmt.Sprintf(
				"%s stays on revision %s, %s; to go on with its present content: kubectl confrev resume %s/%s %s -n %s",
				d.Source, d.To, why, r.Kind.Resource(), obj.GetName(), d.Source, obj.GetNamespace())})
		}
	}
	return said
}
