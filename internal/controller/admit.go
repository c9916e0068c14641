package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
)

// admitter answers the workload webhook: it plans for a workload within the request that creates or updates it, so that
// its first holder is right already, and a deploy takes along what else has changed (rules 2 and 7). What it misses, the
// reconcilers repair (rule 18). Every replica answers.
type admitter struct {
	mu sync.RWMutex
	of map[schema.GroupKind]*workloads
}

func (a *admitter) add(r *workloads) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[r.kind.GVK.GroupKind()] = r
}

func (a *admitter) get(kind metav1.GroupVersionKind) *workloads {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.of[schema.GroupKind{Group: kind.Group, Kind: kind.Kind}]
}

// Handle answers a request. It lets every one through, whatever happens: failurePolicy Ignore covers a webhook that does not
// answer, not one that says no.
func (a *admitter) Handle(ctx context.Context, request admission.Request) admission.Response {
	r := a.get(request.Kind)
	if r == nil || r.options.excluded(request.Namespace) {
		return admission.Allowed("")
	}
	started := r.now()
	patch, warnings, err := r.handle(ctx, request)
	metricAdmission.WithLabelValues(r.kind.Resource(), result(patch, err)).Observe(r.now().Sub(started).Seconds())
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot plan for a workload at its admission; it is let through as it is",
			"kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
		return admission.Allowed("").WithWarnings("confrev could not pin this workload within the request; it does so right after")
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true, Patch: patch, PatchType: patchType(patch)}}.
		WithWarnings(warnings...)
}

func patchType(patch []byte) *admissionv1.PatchType {
	if len(patch) == 0 {
		return nil
	}
	return new(admissionv1.PatchTypeJSONPatch)
}

// result is what came of a request, for the metric.
func result(patch []byte, err error) string {
	switch {
	case err != nil:
		return "error"
	case len(patch) > 0:
		return "patched"
	}
	return "unchanged"
}

// handle gives the JSON patch that a request needs, none if it needs none, and what the user should know.
func (r *workloads) handle(ctx context.Context, request admission.Request) (patch []byte, warnings []string, err error) {
	obj, err := r.decode(request.Object.Raw)
	if err != nil {
		return nil, nil, err
	}
	// Where the request's path alone names the namespace, the object does not.
	obj.SetNamespace(request.Namespace)
	var old client.Object
	if request.Operation == admissionv1.Update {
		if old, err = r.decode(request.OldObject.Raw); err != nil {
			return nil, nil, err
		}
	}
	dryRun := request.DryRun != nil && *request.DryRun
	if dryRun {
		ctx = revision.Provisional(ctx)
	}
	ops, said, err := r.admitAgain(revision.Uncounted(ctx), obj, old, dryRun)
	if err != nil || len(ops) == 0 {
		return nil, texts(said), err
	}
	patch, err = json.Marshal(ops)
	return patch, texts(said), err
}

// attempts is how often to plan for a request while its sources change under our hands.
const attempts = 3

func (r *workloads) admitAgain(ctx context.Context, obj, old client.Object, dryRun bool) (ops []operation, said []notice.Notice, err error) {
	for range attempts {
		ops, said, err = r.admit(ctx, obj, old, dryRun)
		if !revision.IsChanged(err) {
			break
		}
	}
	return ops, said, err
}

// maxWarning is how long a warning to the user may be; the API server cuts longer ones when there are many.
const maxWarning = 256

// texts gives what to say to who sent the request.
func texts(all []notice.Notice) []string {
	var said []string
	for _, w := range all {
		if !w.Normal {
			said = append(said, notice.Cut("confrev: "+w.Text, maxWarning))
		}
	}
	return said
}

func (r *workloads) decode(raw []byte) (client.Object, error) {
	obj := r.kind.New()
	if err := json.Unmarshal(raw, obj); err != nil {
		return nil, fmt.Errorf("read a %s: %w", r.kind.Resource(), err)
	}
	return obj, nil
}

// admit gives the patch that a workload needs which is being created, or updated from old, and what its user should know.
// Without a dry run, the revisions that the patch pins exist afterwards (rule 9).
func (r *workloads) admit(ctx context.Context, obj, old client.Object, dryRun bool) ([]operation, []notice.Notice, error) {
	deploying := old == nil || r.deploys(obj, old)
	if !r.concerns(obj, old, deploying) {
		return nil, nil, nil
	}
	if is, err := r.isLive(ctx, old); !is || err != nil {
		return nil, nil, err
	}
	request, sources := obj, newRecall(r.live)
	var undone pin.Set
	isUndo := false
	if old != nil {
		var err error
		if undone, isUndo, err = r.undoes(ctx, sources, obj, old); err != nil {
			return nil, nil, err
		}
	}
	if isUndo {
		obj = withSettings(obj, old)
	}
	seen, err := r.observe(ctx, obj, r.viewOf(sources, obj, old, deploying && !isUndo))
	if err != nil || !seen.follows() && !seen.mayDrop() {
		return nil, seen.warnings, err
	}
	if err := r.vouch(ctx, &seen); err != nil {
		return nil, nil, err
	}
	// Nothing would move the pins of a Job later.
	seen.pins.New = old == nil && !r.kind.Fixed
	seen.planFrom(undone, isUndo)
	want := r.intend(seen)
	var said []notice.Notice
	if old != nil && !isUndo {
		if want, err = r.endHolds(ctx, obj, old, &seen, want); err != nil {
			return nil, nil, err
		}
	}
	if !isUndo {
		said = r.sayHeld(obj, old, seen, want)
	}
	if r.drops(obj, old, seen, want) {
		want.release = true
		want.injectAgain(seen)
	}
	if !seen.follows() && !want.release {
		return nil, seen.warnings, nil
	}
	said = slices.Concat(seen.warnings, warnings(want.pins, true), said)
	if r.gate.Problem() != nil && seen.needsPolicies(want) {
		// The reconciler says so, and pins when they are in place.
		return nil, said, nil
	}
	if !dryRun {
		if err := r.keepOld(ctx, r.ownerOf(obj, old), seen, want.pins); err != nil {
			return nil, nil, err
		}
		said = append(said, r.limit(ctx, seen, &want)...)
		refused, err := r.ensure(ctx, obj, r.ownerOf(obj, old), seen, &want.pins)
		if err != nil {
			return nil, nil, err
		}
		said = append(said, refused...)
		want.injectAgain(seen)
	}
	return r.admissionPatch(request, old, seen, want, isUndo), said, nil
}

// ownerOf is the workload of a request, as an owner of the revisions that it pins. Where this process does not lead, perhaps no controller
// runs to add it later. What is being created has no UID yet, whatever a forged request says.
func (r *workloads) ownerOf(obj, old client.Object) revision.Owner {
	owner := r.owner(obj)
	owner.AtOnce = !r.leads()
	if old == nil {
		owner.UID = ""
	}
	return owner
}

// isLive reports whether the object that a request replaces is the one that the API server has. If it is not, the request is forged,
// or another one was faster; then the API server asks again. Neither is told anything, and nothing is made for it (rule 18).
func (r *workloads) isLive(ctx context.Context, old client.Object) (bool, error) {
	if old == nil {
		return true, nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(r.kind.GVK)
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(old), live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return live.UID == old.GetUID() && live.ResourceVersion == old.GetResourceVersion(), nil
}

// concerns reports whether a request may matter to confrev at all. Most do not: a controller that scales, a person who adds
// a label. They must cost nothing.
func (r *workloads) concerns(obj, old client.Object, deploying bool) bool {
	if _, _, refers := r.kind.WorkloadRef(obj); refers || obj.GetDeletionTimestamp() != nil {
		return false
	}
	if r.kind.Fixed {
		// Those of a CronJob, or of any other controller, have the pins that it gave them.
		return old == nil && metav1.GetControllerOf(obj) == nil
	}
	return deploying || !equality.Semantic.DeepEqual(r.template(obj), r.template(old)) ||
		!equality.Semantic.DeepEqual(optin.Relevant(obj.GetAnnotations()), optin.Relevant(old.GetAnnotations())) ||
		!equality.Semantic.DeepEqual(optin.Relevant(obj.GetLabels()), optin.Relevant(old.GetLabels()))
}

// template gives a workload's pod template; an empty one where there is none.
func (r *workloads) template(obj client.Object) *corev1.PodTemplateSpec {
	template, err := r.kind.Template(obj)
	if err != nil {
		return &corev1.PodTemplateSpec{}
	}
	return template
}

// deploys tells whether an update changes anything of the template but what confrev writes there itself.
func (r *workloads) deploys(obj, old client.Object) bool {
	pins, before := r.pinsOf(obj), r.pinsOf(old)
	return !equality.Semantic.DeepEqual(asWritten(r.template(obj), pins, before), asWritten(r.template(old), before))
}

// asWritten gives a template without what confrev writes into it: pins, hashes, and names of what is pinned.
func asWritten(template *corev1.PodTemplateSpec, pins ...pin.Set) *corev1.PodTemplateSpec {
	written := &corev1.PodTemplateSpec{ObjectMeta: template.ObjectMeta, Spec: *podspec.Original(&template.Spec, pins...)}
	written.Annotations = map[string]string{}
	for key, value := range template.Annotations {
		if key != keys.Pins && key != keys.Hashes {
			written.Annotations[key] = value
		}
	}
	return written
}

// viewOf looks at sources with a reader that is live: a deploy that applies them right before the workload is not to wait for a cache (rule 2).
// What the old object has was rolled out, whether or not a holder shows it yet (rule 4). Without a change of the template
// beside the pins, pins stay: sources settle first, and who writes pins by hand is taken at his word.
func (r *workloads) viewOf(sources client.Reader, obj, old client.Object, deploying bool) view {
	v := view{
		known: &memory{}, old: old, reader: sources, eager: true, deploys: deploying, request: true,
		stays: func(a optin.Advance) bool { return !deploying || a.Blocks(true) },
	}
	if old == nil {
		return v
	}
	v.replaced = !equality.Semantic.DeepEqual(r.template(obj), r.template(old))
	template := r.template(old).Annotations
	pins, pinsErr := pin.Parse(template[keys.Pins])
	hashes, hashesErr := pin.ParseHashes(template[keys.Hashes])
	if pinsErr == nil && hashesErr == nil {
		v.known.wrote = &written{pins: pins, hashes: hashes}
	}
	return v
}

// admissionPatch gives the operations that bring a request's object to the intent.
func (r *workloads) admissionPatch(obj, old client.Object, seen observed, want intent, isUndo bool) []operation {
	pins, hashes := seen.notes.pins, seen.notes.stamped
	if want.changes() {
		pins, hashes = want.pins.Pins.String(), want.stamped(seen).String()
	}
	ops := r.templateOperations(seen, want, pins, hashes)
	noted := map[string]string{}
	if isUndo {
		noted = keptSettings(obj, old)
	}
	maps.Copy(noted, want.notes(seen))
	if waiting := seen.awaited(want.pins); old == nil && r.kind.Pauses && len(waiting) > 0 && !r.kind.Paused(obj) {
		// Kubernetes makes no ReplicaSet of a new Deployment that is paused (rule 7).
		noted[keys.Paused] = strings.Join(waiting, ",")
		ops = append(ops, operation{Op: "add", Path: "/spec/paused", Value: true})
	}
	return append(ops, annotate(obj, noted)...)
}
