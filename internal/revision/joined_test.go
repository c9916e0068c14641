package revision

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// Rules 12 and 13: a workload that is about to pin a revision while another's write of it is under way still owns and renews it.
func TestWhoJoinsAWriteOwnsTheRevision(t *testing.T) {
	mine := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "mine", UID: "1"}
	first := map[string]func(ctx context.Context, s *Store, ref Ref, seen Observation, p pin.Pin) error{
		"a refresh": func(ctx context.Context, s *Store, ref Ref, seen Observation, p pin.Pin) error {
			return s.Refresh(ctx, ref, seen, p)
		},
		"another workload's pin": func(ctx context.Context, s *Store, ref Ref, seen Observation, p pin.Pin) error {
			other := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: "2"}
			_, _, err := s.Ensure(ctx, ref, seen, p.Number, other)
			return err
		},
	}
	for name, begin := range first {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				made := claiming(nameOfValue("a", 0), "a", "a")
				made.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
				made.OwnerReferences = []metav1.OwnerReference{Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "earlier", UID: "3"}.reference()}
				ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
				pinned := pin.Pin{Revision: made.Name, Number: 8}
				var store *Store
				var seen Observation
				writes := 0
				joined := make(chan error, 1)
				c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(gen.ConfigMap("app", map[string]string{"k": "a"}), made).
					WithIndex(&corev1.ConfigMap{}, BySource, IndexBySource(pin.ConfigMap)).
					WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
						if writes++; writes == 1 {
							go func() {
								_, _, err := store.Ensure(t.Context(), ref, seen, pinned.Number, mine)
								joined <- err
							}()
							// Until it waits for this write, or is done with its own.
							synctest.Wait()
						}
						return c.Patch(ctx, obj, patch, opts...)
					}}).Build()
				store = NewStore(c, c, c, time.Now, appsKinds{}, 10)
				seen = observe(t, store, c, made.Name)
				if err := begin(t.Context(), store, ref, seen, pinned); err != nil && !IsChanged(err) {
					t.Fatal(err)
				}
				if err := <-joined; err != nil {
					t.Fatal(err)
				}
				meta := Metadata(Ref{pin.ConfigMap, gen.Namespace, made.Name})
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), meta); err != nil {
					t.Fatal(err)
				}
				owns := slices.ContainsFunc(meta.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == mine.UID })
				if !owns || meta.Annotations[keys.Renewed] == "" || number(meta) != pinned.Number {
					t.Errorf("owners %v, annotations %v", meta.OwnerReferences, meta.Annotations)
				}
			})
		})
	}
}
