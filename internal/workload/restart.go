package workload

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RestartAtPointer is the JSON pointer of the restart time, for kinds with Restarts. Their controller replaces pods that were created
// before that time.
const RestartAtPointer = "/spec/restartAt"

// RestartAt returns an object's restart time in RFC 3339. It is empty if the object has none.
func (k Kind) RestartAt(obj client.Object) string {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok || !k.Restarts {
		return ""
	}
	at, _, _ := unstructured.NestedString(o.Object, "spec", "restartAt")
	return at
}

// RestartNow returns, in RFC 3339, the restart time that makes a controller replace all present pods.
func RestartNow(now time.Time) string { return now.UTC().Format(time.RFC3339) }

// CanRestart reports whether an object's pods can be replaced one by one while others serve. That takes at least two replicas.
func (k Kind) CanRestart(obj client.Object) bool {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok || !k.Restarts {
		return false
	}
	replicas, set, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return err == nil && set && replicas > 1
}
