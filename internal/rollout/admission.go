package rollout

import (
	"context"
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
)

// Request is an admission request that creates a workload or, if it has an old object, updates it.
type Request struct {
	Object, Old client.Object
	DryRun      bool
	// Unresolved is true while nothing resolves pins. Then the reconciler writes the pins that only admission resolves.
	Unresolved bool
	// Planned is true if confrev itself sends the request. Pins that it lacks have been dropped on purpose.
	Planned bool
}

// answer is the response to a request: the operations of a JSON patch, warnings for the user, and notices of what was created for it.
type answer struct {
	Patch    []jsonpatch.Operation
	Warnings []notice.Notice
	Made     []notice.Notice
}

// attempts is how often to plan for a request while its sources keep changing.
const attempts = 3

// Admit returns the patch for a workload within a request, and warnings for the user. Except in a dry run, the revisions that the patch
// pins exist afterwards (rule 9).
func (r *Engine) Admit(ctx context.Context, q Request) (all answer, err error) {
	// A request does not use up the limit of a source's changes, and a dry run creates nothing.
	ctx = revision.Uncounted(ctx)
	if q.DryRun {
		ctx = revision.Provisional(ctx)
	}
	for range attempts {
		var a answer
		a, err = r.admitOnce(ctx, q)
		all = answer{a.Patch, a.Warnings, append(all.Made, a.Made...)}
		if !revision.IsChanged(err) {
			break
		}
	}
	return all, err
}

func (r *Engine) admitOnce(ctx context.Context, q Request) (a answer, err error) {
	obj, old := q.Object, q.Old
	if old != nil && obj.GetUID() == "" {
		// A PUT may leave it out, as kubectl replace does. The API server fills it in once admission has ended.
		obj.SetUID(old.GetUID())
	}
	deploying := old == nil || r.deploys(obj, old)
	if !r.concerns(obj, old, deploying) {
		return a, nil
	}
	if is, err := r.isLive(ctx, old); !is || err != nil {
		return a, err
	}
	sources := metadata.Once(r.Live)
	var undone pin.Set
	var holders []client.Object
	if old != nil {
		if undone, holders, err = r.undoes(ctx, sources, obj, old); err != nil {
			return a, err
		}
	}
	isUndo := len(holders) > 0
	if isUndo {
		obj = r.withSettings(ctx, obj, old, holders)
	}
	seen, err := r.observe(ctx, obj, r.viewOf(sources, obj, old, deploying && !isUndo))
	if err != nil || !seen.follows() && !seen.mayDrop() {
		return answer{Warnings: seen.warnings}, err
	}
	if err := r.vouch(ctx, seen); err != nil {
		return a, err
	}
	// The template of a Job cannot change later.
	seen.pins.New = old == nil && !r.Kind.Fixed
	if q.Planned {
		seen.before = maps.Clone(seen.before)
		maps.DeleteFunc(seen.before, func(source pin.Source, _ pin.Pin) bool { return seen.request[source] == pin.Pin{} })
	}
	seen.planFrom(undone, isUndo)
	want, held, err := r.decideRequest(ctx, obj, old, seen, isUndo)
	if err != nil {
		return a, err
	}
	if !seen.follows() && !want.release {
		return answer{Warnings: seen.warnings}, nil
	}
	a.Warnings = slices.Concat(seen.warnings, heldBack(r.warnings(obj, want.pins, true), want.pins), held)
	if q.Unresolved && seen.needsPolicies(want) {
		// The reconciler warns about it, and writes the pins once the policies are in place.
		return a, nil
	}
	if !q.DryRun {
		made, refused, err := r.prepareRequest(ctx, q, obj, seen, &want)
		a.Made = made
		if err != nil {
			return answer{Made: made}, err
		}
		a.Warnings = append(a.Warnings, refused...)
	}
	a.Patch = r.admissionPatch(q.Object, obj, old, seen, want)
	return a, nil
}

// heldBack makes those of a plan's notices warnings that a user who changes the template should see: that a source which changed is not
// part of it, although no one asked for that on this occasion.
func heldBack(said []notice.Notice, p plan.Plan) []notice.Notice {
	for i := range said {
		of := slices.IndexFunc(p.Decisions, func(d plan.Decision) bool { return d.Source == said[i].Source })
		if of < 0 || said[i].Reason != notice.WaitingToAdvance {
			continue
		}
		if wait := p.Decisions[of].Wait; wait.Invalid || wait.Reason != waiting.Manual && wait.Reason != waiting.OnDeploy {
			said[i].Normal = false
		}
	}
	return said
}

func (r *Engine) decideRequest(ctx context.Context, obj, old client.Object, seen *observed, isUndo bool) (want intent, held []notice.Notice, err error) {
	want = seen.decide()
	if old != nil && !isUndo {
		if want, err = r.endHolds(ctx, obj, old, seen, want); err != nil {
			return want, nil, err
		}
	}
	if want, err = r.takeTurns(ctx, obj, seen, want); err != nil {
		return want, nil, err
	}
	if !isUndo {
		held = r.sayHeld(obj, old, seen, want)
	}
	if r.drops(obj, old, seen, want) {
		want.release = true
		want.injectAgain(seen)
	}
	return want, held, nil
}

func (r *Engine) prepareRequest(ctx context.Context, q Request, obj client.Object, seen *observed, want *intent) (made, said []notice.Notice, err error) {
	owner := r.ownerOf(obj, q)
	// For a new workload, these are all its pins; for an existing one, those that the request chose, that others have, or that it lost.
	chosen := func(d plan.Decision) bool {
		return d.To.Revision != d.Current.Revision && (owner.UID == "" || seen.pins.Chosen[d.Source]) || isEarlier(d)
	}
	if err := r.keep(ctx, owner, seen, want.pins, chosen, func(plan.Decision) bool { return false }); err != nil {
		return nil, nil, err
	}
	said = r.limit(ctx, seen, want)
	made, refused, err := r.ensure(ctx, obj, owner, seen, &want.pins, isAny)
	want.injectAgain(seen)
	r.giveBack(ctx, obj, seen, want.pins.Pins)
	return made, append(said, refused...), err
}

// ownerOf returns the workload of a request, as an owner of the revisions that it pins. A workload that is being created has no UID yet, whatever
// a forged request says.
func (r *Engine) ownerOf(obj client.Object, q Request) revision.Owner {
	owner := r.owner(obj)
	if q.Old == nil {
		owner.UID = ""
	}
	return owner
}

// isLive reports whether the object that a request replaces is the one that the API server has. If it is not, the request is forged,
// or another one came first, and then the API server asks again. Neither gets any information, and nothing is created for it (rule 18).
func (r *Engine) isLive(ctx context.Context, old client.Object) (bool, error) {
	if old == nil {
		return true, nil
	}
	live := metadata.New(r.Kind.GVK)
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(old), live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return live.UID == old.GetUID() && live.ResourceVersion == old.GetResourceVersion(), nil
}

// concerns reports whether a request may matter to confrev. Most requests do not, such as those that scale a workload or add a label.
// They must cost nothing.
func (r *Engine) concerns(obj, old client.Object, deploying bool) bool {
	if _, _, refers := r.Kind.WorkloadRef(obj); refers || obj.GetDeletionTimestamp() != nil {
		return false
	}
	if r.Kind.Fixed {
		// Jobs of a CronJob, or of any other controller, have the pins of its template.
		return old == nil && metav1.GetControllerOf(obj) == nil
	}
	return deploying || !equality.Semantic.DeepEqual(r.Template(obj), r.Template(old)) ||
		!equality.Semantic.DeepEqual(optin.Relevant(obj.GetAnnotations()), optin.Relevant(old.GetAnnotations())) ||
		!equality.Semantic.DeepEqual(optin.Relevant(obj.GetLabels()), optin.Relevant(old.GetLabels()))
}

// deploys reports whether an update changes anything of the template except for what confrev writes there itself.
func (r *Engine) deploys(obj, old client.Object) bool {
	return workload.TemplateChanges(r.Template(obj), r.Template(old))
}

// viewOf returns a view that reads sources from the API server: a deploy applies them right before the workload, and must not depend on
// how far the cache is (rule 2).
// The pins of the old object were rolled out, whether or not a holder shows them yet (rule 4). If the request changes nothing in the
// template except pins, pins stay: sources settle first, and manually written pins are respected.
func (r *Engine) viewOf(sources client.Reader, obj, old client.Object, deploying bool) view {
	v := view{old: old, reader: sources, readTypes: true, occasion: plan.Request}
	if deploying {
		v.occasion = plan.Change
	}
	if old == nil {
		v.deploys = true
		return v
	}
	v.deploys = deploying && !workload.Restarts(r.Template(obj), r.Template(old))
	v.replaced = !equality.Semantic.DeepEqual(r.Template(obj), r.Template(old))
	template := r.Template(old).Annotations
	pins, pinsErr := pin.Parse(template[keys.Pins])
	hashes, hashesErr := pin.ParseHashes(template[keys.Hashes])
	if pinsErr == nil && hashesErr == nil {
		v.wrote = &Given{pins: pins, hashes: hashes}
	}
	return v
}

// admissionPatch returns the operations that make of a request's object what it becomes; counts has the settings that count.
func (r *Engine) admissionPatch(obj, counts, old client.Object, seen *observed, want intent) []jsonpatch.Operation {
	pins, hashes := seen.notes.pins, seen.notes.templateHashes
	if want.changes() {
		pins, hashes = want.pins.Pins.String(), want.templateHashes(seen).String()
	}
	ops := r.templateOperations(seen, want, pins, hashes)
	noted := optin.KeptSettings(obj, counts)
	maps.Copy(noted, want.notes(r, obj, seen))
	if waiting := seen.awaited(want.pins); old == nil && r.Kind.Pauses && len(waiting) > 0 && !r.Kind.Paused(obj) {
		// Kubernetes creates no ReplicaSet for a new Deployment that is paused (rule 7).
		noted[keys.Paused] = strings.Join(waiting, ",")
		ops = append(ops, jsonpatch.Operation{Operation: "add", Path: "/spec/paused", Value: true})
	}
	return append(ops, annotate(obj, noted)...)
}
