package reconcile

import (
	"testing"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/test/gen"
)

// The cache may show a workload after its namespace is gone. The API server would refuse each event and revision there.
func TestNothingIsDoneInANamespaceThatIsGone(t *testing.T) {
	for name, gone := range map[string]bool{"gone": true, "not in the cache yet": false} {
		t.Run(name, func(t *testing.T) {
			obj := gen.Web("1")
			w := newWorld(obj)
			if err := w.client.Delete(t.Context(), inNamespace(nil)[0]); err != nil {
				t.Fatal(err)
			}
			told := events.NewFakeRecorder(10)
			w.Notices = sink.Events(told)
			if !gone {
				w.Live = fake.NewClientBuilder().WithObjects(inNamespace(nil)...).Build()
			}
			if _, err := w.Reconcile(t.Context(), requests([]client.Object{obj})[0]); err != nil {
				t.Fatal(err)
			}
			// Its source is missing.
			if said := len(told.Events) > 0; said == gone {
				t.Errorf("says something: %t", said)
			}
		})
	}
}
