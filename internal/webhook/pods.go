package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// Pods handles the pod webhook: it resolves a pod's references through its pins, if the API server cannot do that itself. The
// request contains all that it needs, so that every replica can respond at once, whatever its state. It changes nothing when it
// is called again (reinvocationPolicy IfNeeded).
type Pods struct{}

// Handle responds to a request.
func (Pods) Handle(_ context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read a pod: %w", err))
	}
	pins, err := pin.Parse(pod.Annotations[keys.Pins])
	if err != nil {
		// ValidatingAdmissionPolicy …-refuse-unresolved-pins refuses it in a moment, in the same words on every cluster.
		return admission.Allowed("")
	}
	var patch []jsonpatch.Operation
	for _, r := range podspec.Resolve(&pod.Spec, pins) {
		patch = append(patch, jsonpatch.NewOperation("replace", "/spec"+r.Pointer, r.Value))
	}
	return admission.Patched("", patch...)
}
