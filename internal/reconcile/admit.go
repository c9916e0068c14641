package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/rollout"
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
	a.of[r.Kind.GVK.GroupKind()] = r
}

func (a *admitter) get(kind metav1.GroupVersionKind) *workloads {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.of[schema.GroupKind{Group: kind.Group, Kind: kind.Kind}]
}

// Handle answers a req. It lets every one through, whatever happens: failurePolicy Ignore covers a webhook that does not
// answer, not one that says no.
func (a *admitter) Handle(ctx context.Context, req admission.Request) admission.Response {
	r := a.get(req.Kind)
	if r == nil || r.Options.Excluded(req.Namespace) {
		return admission.Allowed("")
	}
	started := r.Now()
	patch, warnings, err := r.handle(ctx, req)
	metricAdmission.WithLabelValues(r.Kind.Resource(), result(patch, err)).Observe(r.Now().Sub(started).Seconds())
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot plan for a workload at its admission; it is let through as it is",
			"kind", req.Kind.Kind, "namespace", req.Namespace, "name", req.Name)
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
func (r *workloads) handle(ctx context.Context, req admission.Request) (patch []byte, warnings []string, err error) {
	obj, err := r.decode(req.Object.Raw)
	if err != nil {
		return nil, nil, err
	}
	// Where the request's path alone names the namespace, the object does not.
	obj.SetNamespace(req.Namespace)
	var old client.Object
	if req.Operation == admissionv1.Update {
		if old, err = r.decode(req.OldObject.Raw); err != nil {
			return nil, nil, err
		}
	}
	dryRun := req.DryRun != nil && *req.DryRun
	answer, err := r.Admit(ctx, rollout.Request{
		Object: obj, Old: old, DryRun: dryRun, Unresolved: r.gate.Problem() != nil, OwnAtOnce: !r.leads(),
	})
	r.tell(ctx, answer.Made)
	if err != nil || len(answer.Patch) == 0 {
		return nil, texts(answer.Warnings), err
	}
	patch, err = json.Marshal(answer.Patch)
	return patch, texts(answer.Warnings), err
}

// maxWarning is how long a warning to the user may be; the API server cuts longer ones when there are many.
const maxWarning = 256

// texts gives what to say to who sent the req.
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
	obj := r.Kind.New()
	if err := json.Unmarshal(raw, obj); err != nil {
		return nil, fmt.Errorf("read a %s: %w", r.Kind.Resource(), err)
	}
	return obj, nil
}
