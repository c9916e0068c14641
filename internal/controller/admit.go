package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
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

// admissionTimeout is less than the second that the API server waits, so that what took too long ends here too.
const admissionTimeout = 900 * time.Millisecond

// Handle answers a request. An error lets the API server go on without us (failurePolicy Ignore).
func (a *admitter) Handle(ctx context.Context, request admission.Request) admission.Response {
	r := a.get(request.Kind)
	if r == nil || r.options.excluded(request.Namespace) {
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, admissionTimeout)
	defer cancel()
	started := r.now()
	patch, err := r.handle(ctx, request)
	metricAdmission.WithLabelValues(r.kind.Resource(), result(patch, err)).Observe(r.now().Sub(started).Seconds())
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot plan for a workload at its admission; it is let through as it is",
			"kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if len(patch) == 0 {
		return admission.Allowed("")
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	kind := admissionv1.PatchTypeJSONPatch
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: true, Patch: data, PatchType: &kind}}
}

// result is what came of a request, for the metric.
func result(patch []operation, err error) string {
	switch {
	case err != nil:
		return "error"
	case len(patch) > 0:
		return "patched"
	}
	return "unchanged"
}

func (r *workloads) handle(ctx context.Context, request admission.Request) ([]operation, error) {
	obj, err := r.decode(request.Object.Raw)
	if err != nil {
		return nil, err
	}
	// Where the request's path alone names the namespace, the object does not.
	obj.SetNamespace(request.Namespace)
	var old client.Object
	if request.Operation == admissionv1.Update {
		if old, err = r.decode(request.OldObject.Raw); err != nil {
			return nil, err
		}
	}
	return r.admit(ctx, obj, old, request.DryRun != nil && *request.DryRun)
}

func (r *workloads) decode(raw []byte) (client.Object, error) {
	obj := r.kind.New()
	if err := json.Unmarshal(raw, obj); err != nil {
		return nil, fmt.Errorf("read a %s: %w", r.kind.Resource(), err)
	}
	return obj, nil
}

// admit gives the patch that a workload needs which is being created, or updated from old. Without a dry run, the
// revisions that the patch pins exist afterwards (rule 9).
func (r *workloads) admit(ctx context.Context, obj, old client.Object, dryRun bool) ([]operation, error) {
	deploying := old == nil || r.deploys(obj, old)
	if !r.concerns(obj, old, deploying) {
		return nil, nil
	}
	seen, err := r.observe(ctx, obj, r.viewOf(old, deploying))
	if err != nil || !seen.follows() {
		return nil, err
	}
	want := r.intend(seen)
	if r.gate.Problem() != nil && seen.needsPolicies(want) {
		// The reconciler says so, and pins when they are in place.
		return nil, nil
	}
	if !dryRun {
		r.limit(seen, &want)
		if _, err := r.ensure(ctx, obj, seen, &want.pins); err != nil {
			return nil, err
		}
		want.injectAgain(seen)
	}
	return r.admissionPatch(obj, old, seen, want), nil
}

// concerns tells whether a request may matter to confrev at all. Most do not: a controller that scales, a person who adds
// a label. They must cost nothing.
func (r *workloads) concerns(obj, old client.Object, deploying bool) bool {
	if _, _, refers := r.kind.Referred(obj); refers || obj.GetDeletionTimestamp() != nil {
		return false
	}
	if r.kind.Fixed {
		// Those of a CronJob, or of any other controller, have the pins that it gave them.
		return old == nil && metav1.GetControllerOf(obj) == nil
	}
	return deploying || !equality.Semantic.DeepEqual(r.template(obj), r.template(old)) ||
		!equality.Semantic.DeepEqual(optin.Relevant(obj.GetAnnotations()), optin.Relevant(old.GetAnnotations()))
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
	return !equality.Semantic.DeepEqual(asWritten(r.template(obj)), asWritten(r.template(old)))
}

// asWritten gives a template without what confrev writes into it.
func asWritten(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	pins, _ := pin.Parse(template.Annotations[keys.Pins])
	written := &corev1.PodTemplateSpec{ObjectMeta: template.ObjectMeta, Spec: *podspec.Original(&template.Spec, pins)}
	written.Annotations = map[string]string{}
	for key, value := range template.Annotations {
		if key != keys.Pins && key != keys.Hashes {
			written.Annotations[key] = value
		}
	}
	return written
}

// viewOf looks at sources live: a deploy that applies them right before the workload is not to wait for a cache (rule 2).
// What the old object has was rolled out, whether or not a holder shows it yet (rule 4). Without a change of the template
// beside the pins, pins stay: sources settle first, and who writes pins by hand is taken at his word.
func (r *workloads) viewOf(old client.Object, deploying bool) view {
	v := view{
		known: &memory{}, old: old, reader: r.live,
		stays: func(a optin.Advance) bool { return !deploying || a.Stays(true) },
	}
	if old == nil {
		return v
	}
	template := r.template(old).Annotations
	pins, pinsErr := pin.Parse(template[keys.Pins])
	hashes, hashesErr := pin.ParseHashes(template[keys.Hashes])
	if pinsErr == nil && hashesErr == nil {
		v.known.wrote = &written{pins: pins, hashes: hashes}
	}
	return v
}

// admissionPatch gives the operations that bring a request's object to the intent.
func (r *workloads) admissionPatch(obj, old client.Object, seen observed, want intent) []operation {
	pins, hashes := seen.notes.pins, seen.notes.stamped
	if want.changes() {
		pins, hashes = want.pins.Pins.String(), want.stamped(seen).String()
	}
	ops := r.templateOperations(seen, want, pins, hashes)
	notes := want.notes(seen)
	if waiting := missing(want.pins); old == nil && r.kind.Pauses && len(waiting) > 0 && !r.kind.Paused(obj) {
		// Kubernetes makes no ReplicaSet of a new Deployment that is paused (rule 7).
		notes[keys.Paused] = strings.Join(waiting, ",")
		ops = append(ops, operation{Op: "add", Path: "/spec/paused", Value: true})
	}
	return append(ops, annotate(obj, notes)...)
}

// missing lists the sources without which a template cannot be pinned, nor its pods start.
func missing(p plan.Plan) []string {
	var waiting []string
	for _, d := range p.Decisions {
		if d.From == (pin.Pin{}) && slices.Contains([]plan.Verdict{plan.SourceMissing, plan.KeyMissing}, d.Verdict) {
			waiting = append(waiting, d.Source.String())
		}
	}
	return waiting
}
