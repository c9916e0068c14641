package reconcile

import (
	"context"
	"errors"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// indexer notes what is indexed, and fails once at a field.
type indexer struct {
	ctrl.Manager
	made  map[string]int
	fails string
}

func (i *indexer) GetFieldIndexer() client.FieldIndexer { return i }

func (i *indexer) IndexField(_ context.Context, obj client.Object, field string, _ client.IndexerFunc) error {
	if field == i.fails {
		i.fails = ""
		return errors.New("not now")
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		gvks, _, err := fake.NewClientBuilder().Build().Scheme().ObjectKinds(obj)
		if err != nil {
			return err
		}
		gvk = gvks[0]
	}
	i.made[gvk.Kind+" "+field]++
	return nil
}

// An index can be made once only: a second try, or a second kind that shares a holder, makes those that are missing.
func TestIndexesAreMadeOnce(t *testing.T) {
	made := &indexer{made: map[string]int{}, fails: index.ByReference}
	a := &assembly{manager: made, indexed: map[string]bool{}}
	if err := a.index(t.Context(), workload.Deployment); err == nil {
		t.Error("a failure was not told")
	}
	for _, kind := range []workload.Kind{workload.Deployment, workload.Rollout, workload.StatefulSet, workload.DaemonSet} {
		if err := a.index(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int{}
	for _, kind := range []string{"Deployment", "Rollout", "StatefulSet", "DaemonSet"} {
		maps.Copy(want, map[string]int{kind + " " + index.BySource: 1, kind + " " + index.ByPin: 1, kind + " " + index.ByReferred: 1})
	}
	for _, kind := range []string{"ReplicaSet", "ControllerRevision"} {
		maps.Copy(want, map[string]int{kind + " " + index.ByPin: 1, kind + " " + index.ByReference: 1, kind + " " + index.ByController: 1})
	}
	if !maps.Equal(want, made.made) {
		t.Errorf("made %v, want %v", made.made, want)
	}
}

// A kind whose definition was deleted has no objects that use anything.
func TestAKindThatIsServedNoMoreUsesNothing(t *testing.T) {
	gvk := workload.Rollout.GVK
	for name, test := range map[string]struct {
		err    error
		failed bool
	}{
		"no such kind":     {&meta.NoKindMatchError{GroupKind: gvk.GroupKind()}, false},
		"no such resource": {&meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Resource: "rollouts"}}, false},
		"not found":        {apierrors.NewNotFound(schema.GroupResource{Resource: "rollouts"}, ""), false},
		"forbidden":        {apierrors.NewForbidden(schema.GroupResource{Resource: "rollouts"}, "", nil), true},
		"another error":    {errors.New("no connection"), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &revisions{live: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return test.err
				},
			}).Build()}
			used, err := r.usedAmong(t.Context(), workload.Rollout.NewList(), gen.Namespace, labels.Everything(), workload.Rollout.Facts,
				func(workload.Facts) bool { return true })
			if used || (err != nil) != test.failed {
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
