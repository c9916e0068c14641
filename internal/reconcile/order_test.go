package reconcile

import (
	"context"
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/test/gen"
)

// order notes what happens, one after the other.
type order struct{ happened []string }

func (o *order) Send(_ context.Context, n notice.Notice) { o.happened = append(o.happened, n.Reason) }

// The event of a new revision goes after the pin, which it would delay, and is not lost if the pin fails.
func TestEventsGoAfterThePin(t *testing.T) {
	for name, fails := range map[string]error{"written": nil, "refused": errors.New("refused")} {
		t.Run(name, func(t *testing.T) {
			d := gen.Web("1")
			w := newWorld(gen.ConfigMap("app", map[string]string{"k": "v"}), d)
			o := &order{}
			w.Notices = o
			w.Client = interceptor.NewClient(w.client, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if _, is := obj.(*appsv1.Deployment); is {
						if o.happened = append(o.happened, "the pin"); fails != nil {
							return fails
						}
					}
					return c.Patch(ctx, obj, patch, opts...)
				},
			})
			if _, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(d)}); !errors.Is(err, fails) {
				t.Fatal(err)
			}
			if !slices.Equal(o.happened, []string{"the pin", notice.RevisionCreated}) {
				t.Errorf("%q", o.happened)
			}
		})
	}
}
