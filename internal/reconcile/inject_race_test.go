package reconcile

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/test/gen"
)

// Rule 18: the webhook says nothing of an object that is no longer the live one. With injection template, that is no reason to write the
// names in its place, which would take the fields from their owners.
func TestWebhookSilenceAboutChangingWorkload(t *testing.T) {
	for name, scaled := range map[string]bool{"something scales it": true, "nothing changes it": false} {
		t.Run(name, func(t *testing.T) {
			obj := gen.Web("1", gen.Annotated(keys.Injection, string(optin.Template)))
			w := newWorld(obj, gen.App("a"))
			wet := 0
			w.Client = interceptor.NewClient(w.client, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					d, ok := obj.(*appsv1.Deployment)
					if !ok {
						return c.Patch(ctx, obj, patch, opts...)
					}
					if len((&client.PatchOptions{}).ApplyOptions(opts).DryRun) == 0 {
						wet++
						return c.Patch(ctx, obj, patch, opts...)
					}
					// A fake API server shows nothing of a dry run.
					gen.Pinned(gen.PinOfApp("a", "1"))(d)
					live := &appsv1.Deployment{}
					if err := c.Get(ctx, client.ObjectKeyFromObject(d), live); err != nil {
						return err
					}
					d.ResourceVersion = live.ResourceVersion
					if !scaled {
						return nil
					}
					live.Spec.Replicas = new(int32(2))
					return c.Update(ctx, live)
				},
			})
			result, err := w.Reconcile(t.Context(), requests([]client.Object{obj})[0])
			if err != nil {
				t.Fatal(err)
			}
			if again := result.RequeueAfter == retrySoon; again != scaled || (wet > 0) == scaled {
				t.Errorf("looks again after %s, wrote %d times", result.RequeueAfter, wet)
			}
		})
	}
}
