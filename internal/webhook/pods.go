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

// Pods handles the pod webhook: it resolves a pod's references through its pins, where the API server cannot do that itself. It
// needs nothing but the request, so every replica can respond at once, whatever its state. Calling it again for the same pod
// changes nothing (reinvocationPolicy IfNeeded).
type Pods struct{}

// Handle responds to the creation of a pod with a JSON patch.
func (Pods) Handle(_ context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read a pod: %w", err))
	}
	pins, err := pin.Parse(pod.Annotations[keys.Pins])
	if err != nil {
		// The ValidatingAdmissionPolicy …-refuse-unresolved-pins then refuses the pod, with the same message on every cluster.
		return admission.Allowed("")
	}
	var patch []jsonpatch.Operation
	for _, r := range podspec.Resolve(&pod.Spec, pins) {
		patch = append(patch, jsonpatch.NewOperation("replace", "/spec"+r.Pointer, r.Value))
	}
	return admission.Patched("", patch...)
}
