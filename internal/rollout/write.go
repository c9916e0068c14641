package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"gomodules.xyz/jsonpatch/v2"
	evanphx "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// Written is the result of a write.
type Written struct {
	// Sent is true if the workload was patched.
	Sent bool
	// Pruned is true if the API server does not keep what is written, so that writing it again is pointless.
	Pruned bool
	// Change is what was meant to be written, and Gave is what the template has now, or nil if it was not changed.
	Change Change
	Gave   *Given
	// Restarted is true when pods are replaced although the template stays.
	Restarted bool
}

// Write writes template and notes in one patch. Afterwards, the look's workload is the one that the API server returned.
func (r *Engine) Write(ctx context.Context, look *Assessment) (Written, error) {
	change := look.want.change(look.seen)
	sent, kept, err := r.write(ctx, look.Workload, look.seen, &look.want)
	w := Written{Sent: sent, Pruned: err == nil && !kept, Change: change, Restarted: sent && look.want.restart}
	if sent && change.Text != "" {
		w.Gave = &Given{pins: look.want.pins.Pins, hashes: look.want.templateHashes(look.seen)}
	}
	return w, err
}

// write sends the patch, unless it is pointless or empty. kept is false if the API server does not keep what it writes.
func (r *Engine) write(ctx context.Context, obj client.Object, seen *observed, want *intent, options ...client.PatchOption) (sent, kept bool, err error) {
	pointless, err := r.dropInjectionIfWebhookAnswers(ctx, obj, seen, want, options...)
	if err != nil || pointless {
		return false, false, err
	}
	ops := r.patch(obj, seen, *want)
	if len(ops) == 0 {
		return false, true, nil
	}
	if err := r.send(ctx, obj, ops, options...); err != nil {
		return false, false, err
	}
	return true, r.keeps(obj, seen, *want), nil
}

// dropInjectionIfWebhookAnswers drops the names from an intent if the workload webhook writes them within the same request, so that the owners of those
// fields keep them (injection template). It asks the API server, with a dry run of the pins alone, whether the webhook answers, because a wrong
// guess would be a rollout. pointless is true if the API server would not keep the pins: without them, the names of revisions would be
// mistaken for sources.
func (r *Engine) dropInjectionIfWebhookAnswers(ctx context.Context, obj client.Object, seen *observed, want *intent, options ...client.PatchOption) (pointless bool, err error) {
	if len(want.inject) == 0 || want.onlyInjects() {
		return false, nil
	}
	pinsOnly := *want
	pinsOnly.inject = nil
	would := obj.DeepCopyObject().(client.Object)
	options = append(slices.Clone(options), client.DryRunAll)
	if err := r.send(ctx, would, r.patch(obj, seen, pinsOnly), options...); err != nil {
		return false, err
	}
	if !r.keeps(would, seen, *want) {
		return true, nil
	}
	template, err := r.Kind.Template(would)
	if err != nil {
		return false, err
	}
	after := *seen
	after.template = template
	if len(after.resolved(want.pins.Pins)) == 0 {
		*want = pinsOnly
		return false, nil
	}
	return false, r.unmoved(ctx, would)
}

// unmoved returns an error that satisfies revision.IsChanged if a workload has changed during a dry run: the webhook does not answer for an
// object that is no longer the live one (rule 18), so its silence means nothing then.
func (r *Engine) unmoved(ctx context.Context, asked client.Object) error {
	live := metadata.New(r.Kind.GVK)
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(asked), live)
	if apierrors.IsNotFound(err) || err == nil && live.ResourceVersion != asked.GetResourceVersion() {
		return revision.NewChanged("%s %s", r.Kind.Resource(), client.ObjectKeyFromObject(asked))
	}
	return err
}

// keeps reports whether the template has pins and hashes, if it is to have any, after they were written into it: a
// CustomResourceDefinition whose schema does not specify them prunes them without an error.
func (r *Engine) keeps(obj client.Object, seen *observed, want intent) bool {
	if !want.changes() {
		return true
	}
	template, err := r.Kind.Template(obj)
	return err == nil && (len(want.pins.Pins) == 0 || template.Annotations[keys.Pins] != "") &&
		(len(want.templateHashes(seen)) == 0 || template.Annotations[keys.Hashes] != "")
}

// NotKept returns the notice that the API server does not keep what is written.
func (r *Engine) NotKept() notice.Notice {
	return notice.Notice{Reason: notice.PinsNotKept, Text: fmt.Sprintf(
		"the API server does not keep annotations at %s.metadata of this %s, so it is not pinned and does not roll out changes: its "+
			"CustomResourceDefinition prunes them, or an admission webhook removes them", r.Kind.Path, r.Kind.Resource())}
}

// patch returns the operations that bring template and notes to the intent, or none if nothing needs to change.
//
// The patch changes nothing else, so it never conflicts with clients that scale or annotate the workload. But it applies only to the
// generation and the settings that the plan was made for, so that it cannot move a simultaneous rollback forward again, or pin what was just frozen.
func (r *Engine) patch(obj client.Object, seen *observed, want intent) []jsonpatch.Operation {
	var ops []jsonpatch.Operation
	if want.changes() {
		ops = r.templateOperations(seen, want, want.pins.Pins.String(), want.templateHashes(seen).String())
	}
	if seen.follows() || want.release {
		ops = append(ops, annotate(obj, want.notes(r, obj, seen))...)
	}
	if want.resume {
		ops = append(ops, r.resumption(obj)...)
	}
	if want.restart {
		ops = append(ops, jsonpatch.Operation{Operation: "add", Path: workload.RestartAtPointer, Value: workload.RestartNow(r.Now())})
	}
	if len(ops) == 0 {
		return nil
	}
	return onlyIfUnchanged(obj, ops)
}

// onlyIfUnchanged returns the operations, preceded by tests that the object is still the one that they were decided for. If it had no annotations, there
// still must be none: notes that are added as one map would replace those that others wrote meanwhile.
func onlyIfUnchanged(obj client.Object, ops []jsonpatch.Operation) []jsonpatch.Operation {
	tests := []jsonpatch.Operation{jsonpatch.NewOperation("test", "/metadata/uid", obj.GetUID())}
	if obj.GetGeneration() == 0 {
		// The kind does not count generations.
		return append(append(tests, jsonpatch.NewOperation("test", "/metadata/resourceVersion", obj.GetResourceVersion())), ops...)
	}
	settings := optin.Workload()
	tests = append(tests, jsonpatch.NewOperation("test", "/metadata/generation", obj.GetGeneration()))
	return slices.Concat(tests, metadata.SameAnnotations(obj, settings.Annotations), metadata.SameLabels(obj, settings.Labels), ops)
}

// templateHashes returns the hashes that the template should have: those of the plan except for the ones that only the workload notes.
func (i intent) templateHashes(seen *observed) pin.Set {
	hashes := maps.Clone(i.hashes.Pins)
	maps.DeleteFunc(hashes, func(source pin.Source, p pin.Pin) bool { return seen.optInHashes[source] == p })
	return hashes
}

// workloadHashes returns the hashes that the workload itself should note: those of its opting in, until its template has others.
func (i intent) workloadHashes(seen *observed) pin.Set {
	hashes := pin.Set{}
	for source, p := range seen.optInHashes {
		if wanted, planned := i.hashes.Pins[source]; !planned || wanted == p {
			hashes[source] = p
		}
	}
	for _, d := range i.hashes.Decisions {
		if d.Noted != (pin.Pin{}) {
			hashes[d.Source] = d.Noted
		}
	}
	return hashes
}

func (i intent) notes(r *Engine, obj client.Object, seen *observed) map[string]string {
	return map[string]string{
		keys.Held: i.pins.Held.String(), keys.HeldHashes: i.hashes.Held.String(), keys.Hashes: i.workloadHashes(seen).String(),
		keys.Advanced: i.advanced(r, obj, seen),
	}
}

// annotate returns the operations that write notes on a workload.
func annotate(obj client.Object, notes map[string]string) []jsonpatch.Operation {
	// Metadata always exists; a workload that is being created may have no name yet.
	return metadata.SetAnnotations("/metadata", &metav1.ObjectMeta{Name: cmp.Or(obj.GetName(), "unnamed"), Annotations: obj.GetAnnotations()}, notes)
}

// templateOperations returns the operations that write pins, hashes and names into the template.
func (r *Engine) templateOperations(seen *observed, want intent, pins, hashes string) []jsonpatch.Operation {
	ops := metadata.SetAnnotations(r.Kind.TemplatePointer()+"/metadata", &seen.template.ObjectMeta, map[string]string{keys.Pins: pins, keys.Hashes: hashes})
	for _, i := range want.inject {
		ops = append(ops, jsonpatch.Operation{Operation: "replace", Path: r.Kind.TemplatePointer() + "/spec" + i.Pointer, Value: i.Name})
	}
	return ops
}

// send sends the patch. Afterwards, obj is the object that the API server returned.
func (r *Engine) send(ctx context.Context, obj client.Object, ops []jsonpatch.Operation, options ...client.PatchOption) error {
	data, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	options = append([]client.PatchOption{client.FieldOwner(keys.FieldManager)}, options...)
	err = r.Client.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, data), options...)
	name := fmt.Sprintf("%s %s", r.Kind.Resource(), client.ObjectKeyFromObject(obj))
	switch {
	case err == nil:
		return nil
	case revision.Denied(err):
		// Those who deny it choose the reason, too.
		return revision.ExplainDenial(name, err)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), metadata.TestFailed(err):
		return revision.NewChanged("%s", name)
	}
	return fmt.Errorf("pin %s: %w", name, err)
}

// Apply returns a workload as it would be after some operations, without asking the API server.
func (r *Engine) Apply(obj client.Object, ops []jsonpatch.Operation) (client.Object, error) {
	text, err := json.Marshal(ops)
	if err != nil {
		return nil, err
	}
	patch, err := evanphx.DecodePatch(text)
	if err != nil {
		return nil, err
	}
	document, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	if document, err = patch.Apply(document); err != nil {
		return nil, err
	}
	would := r.Kind.New()
	return would, json.Unmarshal(document, would)
}

// resumption returns the operations that revert confrev's own pause (rule 7).
func (r *Engine) resumption(obj client.Object) []jsonpatch.Operation {
	ops := metadata.SetAnnotations("/metadata", &metav1.ObjectMeta{Annotations: obj.GetAnnotations()}, map[string]string{keys.Paused: ""})
	if r.Kind.Paused(obj) {
		ops = append(ops, jsonpatch.Operation{Operation: "remove", Path: "/spec/paused"})
	}
	return ops
}

// Resume ends confrev's own pause of a workload, although something is still missing.
func (r *Engine) Resume(ctx context.Context, obj client.Object) error {
	return r.send(ctx, obj, onlyIfUnchanged(obj, r.resumption(obj)))
}
