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

// Rule 18: the webhook answers a dry run, and is too late for the request itself. With injection template, the names are written then, since a
// template that is pinned to one revision and names another would stay as it is.
func TestWebhookSilenceAfterADryRun(t *testing.T) {
	for name, answers := range map[string]bool{"it is too late": false, "it answers": true} {
		t.Run(name, func(t *testing.T) {
			obj := gen.Web("1", gen.Annotated(keys.Injection, string(optin.Template)))
			w := newWorld(obj, gen.App("a"))
			wet := 0
			pinned, revision := gen.PinOfApp("a", "1"), gen.NameOfRevision("a")
			w.Client = interceptor.NewClient(w.client, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					d, ok := obj.(*appsv1.Deployment)
					if !ok {
						return c.Patch(ctx, obj, patch, opts...)
					}
					injected := func() {
						gen.Pinned(pinned)(d)
						d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name = revision
					}
					if len((&client.PatchOptions{}).ApplyOptions(opts).DryRun) > 0 {
						injected()
						return nil
					}
					wet++
					if err := c.Patch(ctx, obj, patch, opts...); err != nil || !answers {
						return err
					}
					injected()
					return c.Update(ctx, d)
				},
			})
			if _, err := w.Reconcile(t.Context(), requests([]client.Object{obj})[0]); err != nil {
				t.Fatal(err)
			}
			now := &appsv1.Deployment{}
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(obj), now); err != nil {
				t.Fatal(err)
			}
			if got := now.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name; got != revision {
				t.Errorf("the template names %s and is pinned to %s", got, pinned)
			}
			if want := map[bool]int{true: 1, false: 2}[answers]; wet != want {
				t.Errorf("wrote %d times, want %d", wet, want)
			}
		})
	}
}
