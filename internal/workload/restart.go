package workload

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RestartAtPointer is the JSON pointer of the time before which no pod may have been made, of kinds that restart.
const RestartAtPointer = "/spec/restartAt"

// RestartAt returns that time as an object has it; empty where it has none.
func (k Kind) RestartAt(obj client.Object) string {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok || !k.Restarts {
		return ""
	}
	at, _, _ := unstructured.NestedString(o.Object, "spec", "restartAt")
	return at
}

// RestartNow returns the value that makes an object's pods be replaced.
func RestartNow(now time.Time) string { return now.UTC().Format(time.RFC3339) }

// CanRestart reports whether pods of an object can be replaced one after the other while others serve: it takes two.
func (k Kind) CanRestart(obj client.Object) bool {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok || !k.Restarts {
		return false
	}
	replicas, set, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return err == nil && set && replicas > 1
}
