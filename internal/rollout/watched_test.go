package rollout

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/trigger"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Which fields of an object are watched is part of its hash, so other fields restart the workload once, and other objects do not. A deploy in the same request
// includes it.
func TestWatchingOtherFieldsRestartsOnce(t *testing.T) {
	const claim = "persistentvolumeclaims.v1/data"
	const name, mode, app = claim + "{.spec.volumeName}", claim + "{.spec.volumeMode}", "configmap/app"
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), meta.RESTScopeNamespace)
	live := fake.NewClientBuilder().WithRESTMapper(mapper).WithObjects(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv-1"},
	}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			obj.(*authorizationv1.SelfSubjectAccessReview).Status.Allowed = true
			return nil
		},
	}).Build()
	for name, test := range map[string]struct {
		before, after string
		restarts      bool
	}{
		"the same":                          {name, name, false},
		"in another order":                  {name + "," + app + "," + mode, mode + "," + name + "," + app, false},
		"another object in addition":        {name, name + "," + app, false},
		"an object less":                    {name + "," + app, name, false},
		"another field in addition":         {name, name + "," + mode, true},
		"a field less":                      {name + "," + mode, name, true},
		"all of the object":                 {name, claim, true},
		"only a field":                      {claim, name, true},
		"the same field, spelled otherwise": {name, claim + "{.spec['volumeName']}", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAdmissionWorld(t, workload.Deployment, gen.App("a"))
			w.Triggers = trigger.New(trigger.Limits{Any: true}, live, live)
			hashes := func(d *appsv1.Deployment) (now string, changes bool) {
				look, err := w.Assess(t.Context(), w.serve(t, d), nil)
				if err != nil {
					t.Fatal(err)
				}
				return look.want.hashes.Pins.String(), look.want.hashes.Changed()
			}
			web := func(image, on, hashes string) *appsv1.Deployment {
				d := gen.Web(image, gen.Untracked, gen.Annotated(keys.RestartOn, on))
				d.Spec.Template.Annotations = map[string]string{keys.Hashes: hashes}
				return d
			}
			noted, _ := hashes(web("1", test.before, ""))
			before, edited := web("1", test.before, noted), web("1", test.after, noted)
			if template := w.admitted(t, edited, before, false).(*appsv1.Deployment).Spec.Template; template.Annotations[keys.Hashes] != noted {
				t.Errorf("the request itself changes the template: %v", template.Annotations)
			}
			now, restarts := hashes(edited)
			if restarts != test.restarts {
				t.Errorf("it restarts: %v, from %s to %s", restarts, noted, now)
			}
			if again, twice := hashes(web("1", test.after, now)); twice {
				t.Errorf("it restarts twice: from %s to %s", now, again)
			}
			deployed := w.admitted(t, web("2", test.after, noted), before, false).(*appsv1.Deployment)
			if again, twice := hashes(deployed); twice {
				t.Errorf("it restarts after a deploy, to %s: %v", again, deployed.Spec.Template.Annotations)
			}
		})
	}
}
