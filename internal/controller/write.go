package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// leaveToAdmission drops the names from an intent where the workload webhook puts them in within the same request: then
// nobody who owns those fields loses them (injection template). The API server is asked what it would make of the pins
// alone: whether the webhook answers is nothing to guess, since a wrong guess is a rollout. pointless is true when it would
// not keep the pins: the names of revisions without them would be taken for sources.
func (r *engine) leaveToAdmission(ctx context.Context, obj client.Object, seen observed, want *intent, options ...client.PatchOption) (pointless bool, err error) {
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
	template, err := r.kind.Template(would)
	if err != nil {
		return false, err
	}
	after := seen
	after.template = template
	if len(after.resolved(want.pins.Pins)) == 0 {
		*want = pinsOnly
		return false, nil
	}
	return false, r.unmoved(ctx, would)
}

// unmoved fails with revision.Changed if a workload changed while the API server was asked what it would make of it: the webhook does
// not answer for an object that is no longer the live one (rule 18), so its silence says nothing then.
func (r *engine) unmoved(ctx context.Context, asked client.Object) error {
	live := metadata.New(r.kind.GVK)
	err := r.live.Get(ctx, client.ObjectKeyFromObject(asked), live)
	if apierrors.IsNotFound(err) || err == nil && live.ResourceVersion != asked.GetResourceVersion() {
		return revision.NewChanged("%s %s", r.kind.Resource(), client.ObjectKeyFromObject(asked))
	}
	return err
}

// keeps reports whether the template has pins and hashes, if it is to have any, after they were written into it: a
// CustomResourceDefinition whose schema does not specify them prunes them without an error.
func (r *engine) keeps(obj client.Object, seen observed, want intent) bool {
	if !want.changes() {
		return true
	}
	written := r.template(obj).Annotations
	return (len(want.pins.Pins) == 0 || written[keys.Pins] != "") && (len(want.stamped(seen)) == 0 || written[keys.Hashes] != "")
}

func (r *engine) prunes() notice.Notice {
	return notice.Notice{Reason: notice.PinsNotKept, Text: fmt.Sprintf(
		"the API server does not keep annotations at %s.metadata of this %s, so it is not pinned and does not roll out changes: its "+
			"CustomResourceDefinition prunes them, or an admission webhook takes them away", r.kind.Path, r.kind.Resource())}
}

// stamped gives the hashes that the template should have: those of the plan but the ones that are only noted.
func (i intent) stamped(seen observed) pin.Set {
	stamped := pin.Set{}
	for source, p := range i.hashes.Pins {
		if seen.baseline[source] != p {
			stamped[source] = p
		}
	}
	return stamped
}

// noted gives the hashes that the workload itself should note: those of its opting in, until its template has others.
func (i intent) noted(seen observed) pin.Set {
	noted := pin.Set{}
	for source, p := range seen.baseline {
		if wanted, planned := i.hashes.Pins[source]; !planned || wanted == p {
			noted[source] = p
		}
	}
	for _, d := range i.hashes.Decisions {
		if d.Noted != (pin.Pin{}) {
			noted[d.Source] = d.Noted
		}
	}
	return noted
}

// ensure makes sure of every revision that the plan newly pins, live, right before the pins are written (rule 9). A
// source that cannot be copied keeps its pin. It returns what was made, and what was refused and why.
func (r *engine) ensure(ctx context.Context, obj client.Object, owner revision.Owner, seen observed, p *plan.Plan) (made, refused []notice.Notice, err error) {
	var errs []error
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if !seen.needsRevision(*d) {
			continue
		}
		source := revision.Ref{Kind: d.Source.Kind, Namespace: seen.namespace, Name: d.Source.Name}
		to, created, err := r.store.Ensure(ctx, source, seen.sources[d.Source], d.To.Number, owner)
		terminal, isTerminal := errors.AsType[*revision.TerminalError](err)
		switch {
		case isTerminal:
			refused = append(refused, notice.Notice{Reason: terminal.Reason, Source: d.Source, Text: terminal.Message})
			to = d.From
		case err != nil:
			errs = append(errs, err)
			continue
		case created:
			made = append(made, r.created(obj, seen, *d, to))
		}
		if d.To != d.From {
			p.Repin(d, to)
		}
	}
	return made, refused, errors.Join(errs...)
}

// created says that a revision was made.
func (r *engine) created(obj client.Object, seen observed, d plan.Decision, made pin.Pin) notice.Notice {
	n := notice.Notice{Reason: notice.RevisionCreated, Normal: true, Object: obj, Kind: r.kind.Resource(), Source: d.Source, To: made}
	source := seen.sources[d.Source].Object
	if source != nil {
		n.SourceObject = source
	}
	switch {
	case source == nil:
		n.Text = fmt.Sprintf("Created revision %s for the absence of %s, which is optional", made, d.Source)
	case d.Verdict == plan.InSync:
		n.Reason, n.Text = notice.RevisionRecreated, fmt.Sprintf("Recreated revision %s of %s, which was deleted while in use", made.Revision, d.Source)
	default:
		n.Text = fmt.Sprintf("Created revision %s of %s", made, d.Source)
	}
	return n
}

// owner is the workload, as an owner of the revisions that it pins.
func (r *engine) owner(obj client.Object) revision.Owner {
	apiVersion, kind := r.kind.GVK.ToAPIVersionAndKind()
	return revision.Owner{APIVersion: apiVersion, Kind: kind, Name: obj.GetName(), UID: obj.GetUID()}
}

// needsRevision tells whether a decision pins current anew, or found it pinned already while its revision is lost: then
// the source has got back the content that was lost with it (rule 9).
func (seen observed) needsRevision(d plan.Decision) bool {
	if d.Verdict == plan.InSync && d.To.Revision == d.Current.Revision {
		return !seen.sources[d.Source].Exists(d.To.Revision)
	}
	return d.To != d.From && d.Verdict != plan.Held
}

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch gives the operations that bring template and notes to the intent, none if they are there already.
//
// The patch touches nothing else, so it never conflicts with those who scale or annotate the workload. But it applies
// only to the generation that the plan was made for: a rollback at the same moment must not be moved forward again.
func (r *engine) patch(obj client.Object, seen observed, want intent) []operation {
	var ops []operation
	if want.changes() {
		ops = r.templateOperations(seen, want, want.pins.Pins.String(), want.stamped(seen).String())
	}
	if seen.follows() || want.release {
		ops = append(ops, annotate(obj, want.notes(seen))...)
	}
	if want.resume {
		ops = append(ops, r.resumption(obj)...)
	}
	if want.restart {
		ops = append(ops, operation{Op: "add", Path: workload.RestartAtPointer, Value: workload.RestartNow(r.now())})
	}
	if len(ops) == 0 {
		return nil
	}
	return onlyIfUnchanged(obj, ops)
}

// onlyIfUnchanged returns the operations behind tests that the object is still the one that they were decided for.
func onlyIfUnchanged(obj client.Object, ops []operation) []operation {
	tests := []operation{{Op: "test", Path: "/metadata/uid", Value: obj.GetUID()}}
	if obj.GetGeneration() > 0 {
		return slices.Concat(tests, []operation{{Op: "test", Path: "/metadata/generation", Value: obj.GetGeneration()}}, ops)
	}
	// Some kind that does not count its generations.
	return slices.Concat(tests, []operation{{Op: "test", Path: "/metadata/resourceVersion", Value: obj.GetResourceVersion()}}, ops)
}

// notes gives what the workload itself is to note.
func (i intent) notes(seen observed) map[string]string {
	return map[string]string{
		keys.Held: i.pins.Held.String(), keys.HeldHashes: i.hashes.Held.String(), keys.Hashes: i.noted(seen).String(),
	}
}

// annotate returns the operations that put notes on a workload. Neither the UID nor the generation covers its annotations:
// where all of them are added as one map, the patch tests that there are none, or it would take away those that others
// wrote meanwhile.
func annotate(obj client.Object, notes map[string]string) []operation {
	// There always is metadata to add annotations to; one that is being created may have no name yet.
	existing := &metav1.ObjectMeta{Name: cmp.Or(obj.GetName(), "unnamed"), Annotations: obj.GetAnnotations()}
	ops := setAnnotations("/metadata", existing, notes)
	if len(ops) == 1 && ops[0].Path == annotationsPath {
		return []operation{{Op: "test", Path: annotationsPath, Value: json.RawMessage("null")}, ops[0]}
	}
	return ops
}

// annotationsPath is the JSON pointer of an object's annotations.
const annotationsPath = "/metadata/annotations"

// templateOperations gives the operations that put pins, hashes and names into the template.
func (r *engine) templateOperations(seen observed, want intent, pins, hashes string) []operation {
	ops := setAnnotations(r.kind.TemplatePointer()+"/metadata", &seen.template.ObjectMeta, map[string]string{
		keys.Pins: pins, keys.Hashes: hashes,
	})
	for _, i := range want.inject {
		ops = append(ops, operation{Op: "replace", Path: r.kind.TemplatePointer() + "/spec" + i.Pointer, Value: i.Name})
	}
	return ops
}

// setAnnotations gives the operations that put values, or where they are empty nothing, under keys of the annotations at
// a path, of which neither annotations nor metadata may be there yet.
func setAnnotations(path string, existing *metav1.ObjectMeta, values map[string]string) []operation {
	var ops []operation
	added := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		pointer := path + "/annotations/" + strings.ReplaceAll(key, "/", "~1")
		switch value {
		case existing.Annotations[key]:
		case "":
			ops = append(ops, operation{Op: "remove", Path: pointer})
		default:
			added[key] = value
			ops = append(ops, operation{Op: "add", Path: pointer, Value: value})
		}
	}
	switch {
	case len(added) == 0 || len(existing.Annotations) > 0:
		return ops
	case equality.Semantic.DeepEqual(*existing, metav1.ObjectMeta{}):
		return []operation{{Op: "add", Path: path, Value: map[string]any{"annotations": added}}}
	}
	return []operation{{Op: "add", Path: path + "/annotations", Value: added}}
}

// send sends the patch; obj then is what the API server made of it.
func (r *engine) send(ctx context.Context, obj client.Object, ops []operation, options ...client.PatchOption) error {
	data, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	options = append([]client.PatchOption{client.FieldOwner(keys.FieldManager)}, options...)
	err = r.client.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, data), options...)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), TestFailed(err):
		return revision.NewChanged("%s %s", r.kind.Resource(), client.ObjectKeyFromObject(obj))
	case err != nil:
		return fmt.Errorf("pin %s %s: %w", r.kind.Resource(), client.ObjectKeyFromObject(obj), revision.ExplainRefusal(err))
	}
	return nil
}

// TestFailed tells whether a JSON patch was refused because of one of its tests. The API server has no reason of its own
// for that; but unlike a validation's refusal, it names no field.
func TestFailed(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsInvalid(err) && (status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0)
}
