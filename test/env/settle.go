package env

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

// AtOnce makes changes that are to be one rollout. On a busy machine, two of them are further apart than changes settle. So the namespace is frozen
// until the last one is made, and all of them settle after that (rule 34).
func (w *World) AtOnce(changes func()) {
	w.t.Helper()
	w.freeze(`"2100-01-01"`)
	changes()
	w.freeze("null")
}

func (w *World) freeze(until string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, keys.FreezeUntil, until)
	w.Must(w.Cluster.Client.Patch(w.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.NS}}, client.RawPatch(types.MergePatchType, []byte(patch))))
}
