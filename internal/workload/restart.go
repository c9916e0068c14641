package workload

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RestartAtPointer is the JSON pointer of the restart time, for kinds that restart: their controller replaces pods that were
// created before it.
const RestartAtPointer = "/spec/restartAt"

// RestartAt returns the restart time that an object has; empty if it has none.
func (k Kind) RestartAt(obj client.Object) string {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok || !k.Restarts {
		return ""
	}
	at, _, _ := unstructured.NestedString(o.Object, "spec", "restartAt")
	return at
}

// RestartNow returns the restart time that makes an object's pods be replaced now.
func RestartNow(now time.Time) string { return now.UTC().Format(time.RFC3339) }

// CanRestart reports whether an object's pods can be replaced one by one while others serve, which takes at least two.
func (k Kind) CanRestart(obj client.Object) bool {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok || !k.Restarts {
		return false
	}
	replicas, set, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return err == nil && set && replicas > 1
}
