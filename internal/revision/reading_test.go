package revision

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// Rule 9: the data that was read to observe a source is copied, unless it is older than a moment, or not what the caller observed.
func TestDataThatWasJustReadIsCopied(t *testing.T) {
	ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
	for name, test := range map[string]struct {
		later   time.Duration
		version string
		reads   int
	}{
		"at once":                           {0, "", 0},
		"within the time":                   {fresh - time.Millisecond, "", 0},
		"later":                             {fresh, "", 1},
		"observed in another version of it": {0, "uid/other", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c, reads := observing(t, gen.ConfigMap("app", map[string]string{"k": "v"}))
				seen := observe(t, s, c, "")
				clear(reads)
				time.Sleep(test.later)
				if test.version != "" {
					seen.Snapshot.Version = test.version
				}
				made, created, err := s.Ensure(t.Context(), ref, seen, 1, Owner{})
				if err != nil || !created || reads["app"] != test.reads {
					t.Errorf("created: %t, %v; read %d times", created, err, reads["app"])
				}
				copied := &corev1.ConfigMap{}
				if err := c.Get(t.Context(), client.ObjectKey{Namespace: gen.Namespace, Name: made.Revision}, copied); err != nil || copied.Data["k"] != "v" {
					t.Errorf("%v, %v", copied.Data, err)
				}
				time.Sleep(fresh)
				synctest.Wait()
				if s.readings.Len() > 0 {
					t.Error("data is kept for longer than a moment")
				}
			})
		})
	}
}

// The API server's answer to a creation is read into the object that was sent. It must not be the data that is kept.
func TestAnAnswerDoesNotChangeDataThatIsKept(t *testing.T) {
	ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
	var sent []string
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(gen.ConfigMap("app", map[string]string{"k": "v"})).
		WithIndex(&corev1.ConfigMap{}, BySource, IndexBySource(pin.ConfigMap)).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			data := obj.(*corev1.ConfigMap).Data
			sent = append(sent, data["k"])
			data["k"] = "changed"
			return nil
		}}).Build()
	s := NewStore(c, c, c, func() time.Time { return time.Unix(1_800_000_000, 0) }, appsKinds{}, 10)
	seen := observe(t, s, c, "")
	for number := range int64(2) {
		// Another number is another preparation.
		if _, _, err := s.Ensure(t.Context(), ref, seen, number+1, Owner{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(sent) != 2 || sent[0] != "v" || sent[1] != "v" {
		t.Errorf("sent %q", sent)
	}
}
