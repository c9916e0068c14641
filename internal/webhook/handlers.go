package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
)

// Workloads handles the workload webhook: it decides about a workload within the request that creates or updates the workload, so
// that the first holder has the right pins, and a deploy includes the changes to sources (rules 2 and 7). The reconcilers repair what
// the webhook misses (rule 18). Every replica serves it.
type Workloads struct {
	Gate    *gate.Gate
	Notices notice.Sink

	mu      sync.RWMutex
	engines map[schema.GroupKind]*rollout.Engine
}

// Add adds a kind of workload, that of an engine.
func (w *Workloads) Add(engine *rollout.Engine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.engines == nil {
		w.engines = map[schema.GroupKind]*rollout.Engine{}
	}
	w.engines[engine.Kind.GVK.GroupKind()] = engine
	// So that an alert sees the first error as an increase.
	admissionDuration.WithLabelValues(engine.Kind.Resource(), "error")
}

func (w *Workloads) engine(kind metav1.GroupVersionKind) *rollout.Engine {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.engines[schema.GroupKind{Group: kind.Group, Kind: kind.Kind}]
}

// Handle answers a request with a JSON patch. It allows every request, even if it fails: failurePolicy Ignore covers only a webhook
// that does not answer, not one that denies.
func (w *Workloads) Handle(ctx context.Context, request admission.Request) admission.Response {
	engine := w.engine(request.Kind)
	if engine == nil || engine.Options.Excluded(request.Namespace) {
		return admission.Allowed("")
	}
	started := engine.Now()
	patch, warnings, err := w.answer(ctx, engine, request)
	admissionDuration.WithLabelValues(engine.Kind.Resource(), result(patch, err)).Observe(engine.Now().Sub(started).Seconds())
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot pin a workload within its request; the request is allowed as it is",
			"kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
		return admission.Allowed("").WithWarnings("confrev could not pin this workload within the request; it does so right after")
	}
	return admission.Patched("", patch...).WithWarnings(warnings...)
}

func result(patch []jsonpatch.Operation, err error) string {
	switch {
	case err != nil:
		return "error"
	case len(patch) > 0:
		return "patched"
	}
	return "unchanged"
}

// answer returns the JSON patch for a request, which is empty if nothing needs to change, and the warnings for its sender.
func (w *Workloads) answer(ctx context.Context, engine *rollout.Engine, request admission.Request) ([]jsonpatch.Operation, []string, error) {
	obj, err := decode(engine.Kind, request.Object.Raw)
	if err != nil {
		return nil, nil, err
	}
	// The object has no namespace if only the request's path names it.
	obj.SetNamespace(request.Namespace)
	var old client.Object
	if request.Operation == admissionv1.Update {
		if old, err = decode(engine.Kind, request.OldObject.Raw); err != nil {
			return nil, nil, err
		}
	}
	answer, err := engine.Admit(ctx, rollout.Request{
		Object: obj, Old: old, DryRun: request.DryRun != nil && *request.DryRun, Unresolved: w.Gate.Problem() != nil,
		Planned: byConfrev(request.Options.Raw),
	})
	for _, made := range answer.Made {
		w.Notices.Send(ctx, made)
	}
	return answer.Patch, texts(answer.Warnings), err
}

// byConfrev reports whether confrev itself sends a request with these options. Anyone who may change the workload may claim that: a pin that the request
// removes is then replaced by that of the present content, and not by what it was.
func byConfrev(options []byte) bool {
	var o metav1.PatchOptions
	return json.Unmarshal(options, &o) == nil && o.FieldManager == keys.FieldManager
}

// maxWarning is the length of the longest warning, in bytes. The API server cuts longer ones if there are many.
const maxWarning = 256

func texts(all []notice.Notice) []string {
	var said []string
	for _, w := range notice.Few(all) {
		if !w.Normal {
			said = append(said, notice.Cut("confrev: "+w.Text, maxWarning))
		}
	}
	return said
}

func decode(kind workload.Kind, raw []byte) (client.Object, error) {
	obj := kind.New()
	if err := json.Unmarshal(raw, obj); err != nil {
		return nil, fmt.Errorf("read a %s: %w", kind.Resource(), err)
	}
	return obj, nil
}

// Pods handles the pod webhook: it resolves a pod's references through its pins, where the API server cannot do that itself. It
// needs nothing but the request, so every replica can respond at once, whatever its state. Calling it again for the same pod
// changes nothing (reinvocationPolicy IfNeeded).
type Pods struct{}

// longestPins is the length of the longest pins. The API server refuses pods with longer annotations, but only after the webhooks.
const longestPins = validation.TotalAnnotationSizeLimitB

// reviewedPod has what the webhook decodes of a pod. It takes no more memory than the pod's JSON.
type reviewedPod struct {
	Metadata struct {
		Annotations struct {
			// The key is keys.Pins.
			Pins string `json:"confrev.io/pins"`
		} `json:"annotations"`
	} `json:"metadata"`
	Spec podspec.Raw `json:"spec"`
}

// Handle responds to the creation of a pod with a JSON patch. Anyone may have sent the request.
func (Pods) Handle(_ context.Context, request admission.Request) admission.Response {
	pod := reviewedPod{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(request.Object.Raw, &pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read a pod: %w", err))
	}
	text := pod.Metadata.Annotations.Pins
	if len(text) > longestPins {
		return admission.Allowed("")
	}
	pins, err := pin.Parse(text)
	if err != nil {
		// The ValidatingAdmissionPolicy …-refuse-unresolved-pins then refuses the pod, with the same message on every cluster.
		return admission.Allowed("")
	}
	resolved, err := pod.Spec.Resolve(pins)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read a pod: %w", err))
	}
	var patch []jsonpatch.Operation
	for _, r := range resolved {
		patch = append(patch, jsonpatch.NewOperation("replace", "/spec"+r.Pointer, r.Value))
	}
	return admission.Patched("", patch...)
}
