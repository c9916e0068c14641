package reconcile

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// A kind whose definition was deleted has no objects that use anything. One that confrev may not list may have some.
func TestAKindThatIsServedNoMoreUsesNothing(t *testing.T) {
	gvk := workload.Rollout.GVK
	for name, test := range map[string]struct {
		err          error
		used, failed bool
	}{
		"no such kind":     {&meta.NoKindMatchError{GroupKind: gvk.GroupKind()}, false, false},
		"no such resource": {&meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Resource: "rollouts"}}, false, false},
		"not found":        {apierrors.NewNotFound(schema.GroupResource{Resource: "rollouts"}, ""), false, false},
		"forbidden":        {apierrors.NewForbidden(schema.GroupResource{Resource: "rollouts"}, "", nil), true, false},
		"another error":    {errors.New("no connection"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Revisions{Live: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return test.err
				},
			}).Build()}
			used, err := r.usedAmong(t.Context(), workload.Rollout.NewList(), gen.Namespace, labels.Everything(), workload.Rollout.Facts,
				func(workload.Facts) bool { return true })
			if used != test.used || (err != nil) != test.failed {
				t.Errorf("used: %v, %v", used, err)
			}
		})
	}
}

func TestKept(t *testing.T) {
	for name, test := range map[string]struct {
		meta metav1.ObjectMeta
		want bool
	}{
		"a source":                      {metav1.ObjectMeta{}, false},
		"a source that may be attached": {metav1.ObjectMeta{Annotations: map[string]string{keys.Attach: "true"}}, true},
		"one that was attached":         {metav1.ObjectMeta{UID: "u", Annotations: map[string]string{keys.Attached: "u"}}, true},
		"another one was attached":      {metav1.ObjectMeta{UID: "u", Annotations: map[string]string{keys.Attached: "v"}}, false},
		"one that is protected":         {metav1.ObjectMeta{Finalizers: []string{keys.ProtectFinalizer}}, true},
		"someone else's finalizer":      {metav1.ObjectMeta{Finalizers: []string{"example.com/keep"}}, false},
	} {
		if got := kept(&corev1.ConfigMap{ObjectMeta: test.meta}); got != test.want {
			t.Errorf("%s is kept: %v", name, got)
		}
	}
}
