package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
)

type runtimeObject = runtime.Object

// write makes the revisions that the plan needs, then writes pins and note in one patch, then says so. It returns what
// it refused to do and why.
func (r *workloads) write(ctx context.Context, obj client.Object, seen observed, p plan.Plan, known *memory) ([]warning, error) {
	refused, err := r.ensure(ctx, obj, seen, &p)
	if err != nil {
		return nil, err
	}
	patch := r.patch(obj, p)
	if len(patch) == 0 {
		return refused, nil
	}
	if err := r.send(ctx, obj, patch); err != nil {
		return refused, err
	}
	if p.Changed() {
		known.generation, known.pins = obj.GetGeneration(), p.Pins
		metricLatency.Observe(r.now().Sub(known.settling.Since()).Seconds())
		known.settling = plan.Settling{}
	}
	r.tell(ctx, obj, seen, p)
	return refused, nil
}

// ensure makes sure of every revision that the plan newly pins, live, right before the pins are written (rule 9). A
// source that cannot be copied keeps its pin.
func (r *workloads) ensure(ctx context.Context, obj client.Object, seen observed, p *plan.Plan) ([]warning, error) {
	owner, err := r.owner(obj)
	if err != nil {
		return nil, err
	}
	var refused []warning
	var errs []error
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if !seen.needsRevision(*d) {
			continue
		}
		source := revision.Ref{Kind: d.Source.Kind, Namespace: seen.namespace, Name: d.Source.Name}
		made, created, err := r.store.Ensure(ctx, source, seen.sources[d.Source], d.To.Number, owner)
		terminal, isTerminal := errors.AsType[*revision.TerminalError](err)
		switch {
		case isTerminal:
			refused = append(refused, warning{reason: terminal.Reason, note: terminal.Message})
			made = d.From
		case err != nil:
			errs = append(errs, err)
			continue
		case created:
			r.tellCreated(obj, seen, *d, made)
		}
		if d.To != d.From {
			p.Repin(d, made)
		}
	}
	return refused, errors.Join(errs...)
}

func (r *workloads) tellCreated(obj client.Object, seen observed, d plan.Decision, made pin.Pin) {
	source := seen.sources[d.Source].Object
	if d.Verdict == plan.InSync {
		metricRecreated.Inc()
		note := fmt.Sprintf("Recreated revision %s of %s, which was deleted while in use", made.Revision, d.Source)
		r.events.normal(source, obj, reasonRecreated, "RecreateRevision", note)
		r.events.normal(obj, source, reasonRecreated, "RecreateRevision", note)
		return
	}
	metricCreated.Inc()
	r.events.normal(source, obj, reasonCreated, "CreateRevision", fmt.Sprintf("Created revision %s of %s", made, d.Source))
}

// owner is the workload, as an owner of the revisions that it pins.
func (r *workloads) owner(obj client.Object) (revision.Owner, error) {
	gvk, err := apiutil.GVKForObject(obj, r.client.Scheme())
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return revision.Owner{APIVersion: apiVersion, Kind: kind, Name: obj.GetName(), UID: obj.GetUID()}, err
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

// patch gives the operations that bring pins and note to the plan, none if they are there already.
//
// The patch touches nothing else, so it never conflicts with those who scale or annotate the workload. But it applies
// only to the generation that the plan was made for: a rollback at the same moment must not be moved forward again.
func (r *workloads) patch(obj client.Object, p plan.Plan) []operation {
	var ops []operation
	if p.Changed() {
		path := r.kind.TemplatePath() + "/metadata/annotations"
		ops = append(ops, set(path, r.kind.Template(obj).Annotations, keys.Pins, p.Pins.String())...)
	}
	if note := p.Held.String(); note != obj.GetAnnotations()[keys.Held] {
		ops = append(ops, set("/metadata/annotations", obj.GetAnnotations(), keys.Held, note)...)
	}
	if len(ops) == 0 {
		return nil
	}
	return append([]operation{
		{Op: "test", Path: "/metadata/uid", Value: obj.GetUID()},
		{Op: "test", Path: "/metadata/generation", Value: obj.GetGeneration()},
	}, ops...)
}

// set gives the operations that put a value, or with an empty one nothing, under a key of a map that may not exist.
func set(path string, existing map[string]string, key, value string) []operation {
	pointer := path + "/" + strings.ReplaceAll(key, "/", "~1")
	_, has := existing[key]
	switch {
	case value == "" && !has:
		return nil
	case value == "":
		return []operation{{Op: "remove", Path: pointer}}
	case len(existing) == 0:
		return []operation{{Op: "add", Path: path, Value: map[string]string{key: value}}}
	}
	return []operation{{Op: "add", Path: pointer, Value: value}}
}

// send sends the patch; obj then is what the API server made of it.
func (r *workloads) send(ctx context.Context, obj client.Object, ops []operation) error {
	data, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	err = r.client.Patch(ctx, obj, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(keys.FieldManager))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), testFailed(err):
		return revision.Changed("%s %s", r.kind.Resource(), key(obj))
	case err != nil:
		return fmt.Errorf("pin %s %s: %w", r.kind.Resource(), key(obj), err)
	}
	return nil
}

// testFailed tells whether a JSON patch was refused because of one of its tests. The API server has no reason of its own
// for that; but unlike a validation's refusal, it names no field.
func testFailed(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsInvalid(err) && (status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0)
}

// tell says in events, metrics and the log what was written.
func (r *workloads) tell(ctx context.Context, obj client.Object, seen observed, p plan.Plan) {
	logger := log.FromContext(ctx)
	for _, d := range p.Decisions {
		source := seen.sources[d.Source].Object
		switch {
		case d.Verdict == plan.Pinned && d.To != d.From:
			metricPinned.WithLabelValues(r.kind.Resource()).Inc()
			logger.Info("pinned", "source", d.Source.String(), "to", d.To.String())
			r.events.normal(obj, source, reasonPinned, "Pin", fmt.Sprintf("Pinned %s to its revision %s", d.Source, d.To))
		case d.Verdict == plan.Advanced && d.To != d.From:
			metricAdvances.WithLabelValues(r.kind.Resource()).Inc()
			logger.Info("rolled forward", "source", d.Source.String(), "from", d.From.String(), "to", d.To.String())
			r.events.normal(obj, source, reasonRolledForward, "Advance",
				fmt.Sprintf("Rolled %s forward from revision %s to %s", d.Source, d.From, d.To))
		case d.Verdict == plan.Held && (seen.input.Held[d.Source] == pin.Pin{} || d.To != d.From):
			metricHolds.WithLabelValues(r.kind.Resource()).Inc()
			logger.Info("held", "source", d.Source.String(), "on", d.To.String(), "from", d.Current.String())
			note := fmt.Sprintf("Rolled back: staying on revision %s of %s, not on %s, until %s changes", d.To, d.Source, d.Current, d.Source)
			r.events.normal(obj, source, reasonHeld, "Hold", note)
			r.events.normal(source, obj, reasonHeld, "Hold", fmt.Sprintf("%s %s: %s", r.kind.Resource(), obj.GetName(), note))
		}
	}
}
