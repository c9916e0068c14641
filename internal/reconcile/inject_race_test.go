package reconcile

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// Rule 18: the webhook answers a dry run, and is too late for the request itself. With injection template, the workload is then pinned to one
// revision and names another, and stayed so. The next look writes the name.
func TestWebhookSilenceAfterADryRun(t *testing.T) {
	for name, answers := range map[string]bool{"it is too late": false, "it answers": true} {
		t.Run(name, func(t *testing.T) {
			before, after := gen.NameOfRevision("a"), gen.NameOfRevision("b")
			obj := gen.Web("1", gen.Annotated(keys.Injection, string(optin.Template)), gen.Pinned(gen.PinOfApp("a", "1")))
			obj.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name = before
			w := newWorld(obj, gen.ReplicaSet("web-1", obj, 1), gen.App("b"), gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("b", "2"))
			wet := 0
			w.Client = interceptor.NewClient(w.client, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					d, ok := obj.(*appsv1.Deployment)
					if !ok {
						return c.Patch(ctx, obj, patch, opts...)
					}
					injected := func() {
						gen.Pinned(gen.PinOfApp("b", "2"))(d)
						d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name = after
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
			want := []string{before, after}
			if answers {
				want[0] = after
			}
			w.look(t, obj) // It makes the workload an owner of the revision, and looks again.
			for look, want := range want {
				w.look(t, obj)
				now := &appsv1.Deployment{}
				if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(obj), now); err != nil {
					t.Fatal(err)
				}
				pins := now.Spec.Template.Annotations[keys.Pins]
				if got := now.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name; got != want || pins != gen.PinOfApp("b", "2") {
					t.Errorf("after look %d, the template names %s, want %s, and is pinned to %s", look, got, want, pins)
				}
			}
			if want := map[bool]int{true: 1, false: 2}[answers]; wet != want {
				t.Errorf("wrote %d times, want %d", wet, want)
			}
		})
	}
}

func (w *world) look(t *testing.T, obj client.Object) {
	t.Helper()
	if _, err := w.Reconcile(t.Context(), requests([]client.Object{obj})[0]); err != nil {
		t.Fatal(err)
	}
}

// A template that names an earlier revision of a source that it is pinned to means that source, if the revision is proven to be one. So does one whose
// pins are malformed: nothing else tells of which source the revision is, and no pod can be created until the pins are written again.
func TestNamesOfEarlierRevisions(t *testing.T) {
	earlier, now := gen.NameOfRevision("a"), gen.NameOfRevision("b")
	mutable, foreign, others := gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("a", "1")
	const malformed = "configmap/app=kube-root-ca.crt@1"
	pinned := gen.PinOfApp("b", "2")
	mutable.Immutable = nil
	foreign.Data["k"] = "x"
	others.Annotations[keys.SourceName] = "other"
	for name, test := range map[string]struct {
		named     *corev1.ConfigMap
		injection optin.Injection
		pins      string
		taken     bool
	}{
		"it is a revision":             {gen.RevisionOfApp("a", "1"), optin.Template, pinned, true},
		"the template names sources":   {gen.RevisionOfApp("a", "1"), optin.Admission, pinned, false},
		"it may change":                {mutable, optin.Template, pinned, false},
		"it has other content":         {foreign, optin.Template, pinned, false},
		"it is said to be another's":   {others, optin.Template, pinned, false},
		"it has the name of none":      {gen.ConfigMap(earlier, map[string]string{"k": "a"}), optin.Template, pinned, false},
		"the pins are malformed":       {gen.RevisionOfApp("a", "1"), optin.Template, malformed, true},
		"malformed, and it may change": {mutable, optin.Template, malformed, false},
		"malformed, with other names":  {gen.RevisionOfApp("a", "1"), optin.Admission, malformed, false},
		"there are no pins":            {gen.RevisionOfApp("a", "1"), optin.Template, "", false},
		"it is the only one, and gone": {gen.RevisionOfApp("c", "1"), optin.Template, pinned, false},
	} {
		t.Run(name, func(t *testing.T) {
			obj := gen.Web("1", gen.Annotated(keys.Injection, string(test.injection)), gen.Pinned(test.pins))
			obj.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name = earlier
			// What does not exist tells nothing, and keeps nothing else from being told.
			gen.Volume("configmap/app-bbbbbbbbbb")(&obj.Spec.Template.Spec)
			w := newWorld(obj, gen.App("b"), test.named, gen.RevisionOfApp("b", "2"))
			w.look(t, obj) // It may make the workload an owner of the revision, and look again.
			w.look(t, obj)
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				t.Fatal(err)
			}
			if got := obj.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name; (got == now || got == "app") != test.taken {
				t.Errorf("the template names %s; of app are %s, and %s now", got, earlier, now)
			}
			if got := obj.Spec.Template.Annotations[keys.Pins]; test.taken && got != pinned {
				t.Errorf("it is pinned to %s, want %s", got, pinned)
			}
		})
	}
}
