package rollout

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/trigger"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rules 2 and 6: an object on which a workload restarts and that cannot be read keeps nothing from getting its first pin, nor a deploy from getting its
// pins. An edit of a source waits, or there would be one rollout for it and another one for the object.
func TestAnObjectThatCannotBeReadStopsNoFirstPin(t *testing.T) {
	const noted = "persistentvolumeclaims.v1/data=abc@1"
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), meta.RESTScopeNamespace)
	web := func(image, pins string) *appsv1.Deployment {
		d := gen.Web(image, gen.Annotated(keys.RestartOn, "persistentvolumeclaims.v1/data"), gen.Pinned(pins))
		d.Spec.Template.Annotations[keys.Hashes] = noted
		return d
	}
	for name, test := range map[string]struct {
		pins, want string
		fails      bool
		deployed   string
	}{
		"a first pin": {pins: "", want: gen.PinOfApp("b", "1"), deployed: gen.PinOfApp("b", "1")},
		"an edit":     {pins: gen.PinOfApp("a", "1"), fails: true, deployed: gen.PinOfApp("b", "2")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAdmissionWorld(t, workload.Deployment, gen.App("b"), gen.RevisionOfApp("a", "1"))
			live := fake.NewClientBuilder().WithRESTMapper(mapper).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
					obj.(*authorizationv1.SelfSubjectAccessReview).Status.Allowed = true
					return nil
				},
				Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return apierrors.NewInternalError(errors.New("conversion webhook"))
				},
			}).Build()
			w.Triggers = trigger.New(trigger.Limits{Any: true}, live, live)
			old := w.serve(t, web("1", test.pins))
			look, err := w.Assess(t.Context(), old, nil)
			if (err != nil) != test.fails {
				t.Errorf("the controller fails: %v", err)
			}
			if pins, hashes := look.want.pins.Pins.String(), look.want.templateHashes(look.seen).String(); err == nil && (pins != test.want || hashes != noted) {
				t.Errorf("it pins %q with hashes %q, want %q", pins, hashes, test.want)
			}
			template := w.patched(t, web("2", test.pins), old, false).(*appsv1.Deployment).Spec.Template
			if pins, hashes := template.Annotations[keys.Pins], template.Annotations[keys.Hashes]; pins != test.deployed || hashes != noted {
				t.Errorf("a deploy has pins %q and hashes %q, want %q", pins, hashes, test.deployed)
			}
		})
	}
}
