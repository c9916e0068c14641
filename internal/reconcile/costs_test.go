package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// counting counts the requests for each type of object.
type counting struct{ gets, lists map[string]int }

func (c *counting) over(inner client.WithWatch) client.Client {
	return interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
			c.gets[kindOf(obj)]++
			return inner.Get(ctx, key, obj, options...)
		},
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			c.lists[fmt.Sprintf("%T", list)]++
			return inner.List(ctx, list, options...)
		},
	})
}

func kindOf(obj client.Object) string {
	if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
		return meta.Kind
	}
	return fmt.Sprintf("%T", obj)
}

// keeper makes the reconciler of revisions over some objects, with a cache that shows the same, and counts what it asks live.
func newRevisions(t *testing.T, objects ...client.Object) (*Revisions, *counting, *events.FakeRecorder) {
	t.Helper()
	known := &workload.Kinds{}
	for _, kind := range []workload.Kind{workload.Deployment, workload.CronJob} {
		known.Add(kind)
	}
	b := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(inNamespace(objects)...)
	for _, kind := range known.All() {
		for _, i := range index.Of(kind, optin.Defaults{}) {
			b = b.WithIndex(i.Object, i.Field, i.Func)
		}
	}
	b = b.WithIndex(revision.NewMetadata(pin.ConfigMap), revision.BySource, revision.IndexBySource(pin.ConfigMap))
	c := b.Build()
	counted := &counting{map[string]int{}, map[string]int{}}
	live := counted.over(c)
	told := events.NewFakeRecorder(1000)
	return &Revisions{
		Kinds: known, Client: c, Live: live, Store: revision.NewStore(c, live, c, time.Now, known, 100),
		Notices: sink.Events(told), unused: lru.New(10), crowded: lru.New(10), Now: time.Now,
	}, counted, told
}

// D12: one user that lives is reason enough to restore a revision, however many there are.
func TestRestoringCostsTheSameForAnyNumberOfUsers(t *testing.T) {
	for _, users := range []int{1, 40} {
		source := gen.ConfigMap("app", map[string]string{"k": "v"})
		name := content.RevisionName("app", content.FromConfigMap(source).Hash(), 0)
		objects := []client.Object{source}
		for i := range users {
			d := gen.Deployment(fmt.Sprint("web", i), gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/app")), gen.Pinned("configmap/app="+name+"@1"))
			d.UID = types.UID(fmt.Sprint("uid-", i))
			objects = append(objects, d)
		}
		r, counted, recorder := newRevisions(t, objects...)
		if _, err := r.Reconcile(t.Context(), revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: name}); err != nil {
			t.Fatal(err)
		}
		made := &corev1.ConfigMap{}
		if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: gen.Namespace, Name: name}, made); err != nil {
			t.Fatal(err)
		}
		if got := counted.gets["Deployment"]; got != 1 {
			t.Errorf("%d users: %d were read live, want 1", users, got)
		}
		if got := len(recorder.Events); got != users+1 {
			t.Errorf("%d users: %d events, want one for each and one for the source", users, got)
		}
	}
}

// D12: users that are gone are no reason. They are passed over until one lives.
func TestNothingIsRestoredForUsersThatAreGone(t *testing.T) {
	for name, living := range map[string]bool{"all are gone": false, "the last one lives": true} {
		t.Run(name, func(t *testing.T) {
			source := gen.ConfigMap("app", map[string]string{"k": "v"})
			lost := content.RevisionName("app", content.FromConfigMap(source).Hash(), 0)
			r, counted, _ := newRevisions(t, source)
			var all users
			for i := range 3 {
				d := gen.Deployment(fmt.Sprint("web", i), gen.Tracking("all"))
				d.UID = types.UID(fmt.Sprint("uid-", i))
				all.templates = append(all.templates, user{obj: d, kind: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, pins: "configmap/app=" + lost + "@1"})
				if living && i == 2 {
					if err := r.Client.Create(t.Context(), d.DeepCopy()); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := r.restore(t.Context(), revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: lost}, all); err != nil {
				t.Fatal(err)
			}
			err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: gen.Namespace, Name: lost}, &corev1.ConfigMap{})
			if restored := err == nil; restored != living {
				t.Errorf("restored: %v, %v", restored, err)
			}
			if got := counted.gets["Deployment"]; got != 3 {
				t.Errorf("%d were read live, want 3", got)
			}
		})
	}
}

// D12: a sweep looks once at the holders of each kind, however many workloads owned what it is about to delete.
func TestASweepListsHoldersOncePerKind(t *testing.T) {
	for _, owners := range []int{1, 20} {
		source := gen.ConfigMap("app", map[string]string{"k": "v"})
		hash := content.FromConfigMap(source).Hash()
		made := gen.ConfigMap(content.RevisionName("app", hash, 0), map[string]string{"k": "v"})
		made.Labels = map[string]string{keys.Content: string(hash), keys.Source: "app"}
		made.Annotations = map[string]string{keys.SourceName: "app", keys.Number: "1"}
		made.Immutable, made.UID = new(true), "uid-of-revision"
		objects := []client.Object{made}
		for i := range owners {
			name := fmt.Sprint("job", i)
			cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: name, UID: types.UID("cron-" + name)}}
			d := gen.Deployment(name)
			d.UID = types.UID("deployment-" + name)
			objects = append(objects, cron, d)
			made.OwnerReferences = append(made.OwnerReferences,
				metav1.OwnerReference{APIVersion: "batch/v1", Kind: "CronJob", Name: name, UID: cron.UID},
				metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name, UID: d.UID})
		}
		r, counted, _ := newRevisions(t, objects...)
		r.Store.Sparing(0)
		ref := revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: made.Name}
		if _, err := r.Reconcile(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(made), &corev1.ConfigMap{}); client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("the revision stays: %v", err)
		}
		for list, n := range counted.lists {
			if n != 1 {
				t.Errorf("%d owners of each kind: %d times %s", owners, n, list)
			}
		}
		if len(counted.lists) != 2 {
			t.Errorf("looked at %v, want Jobs and ReplicaSets", counted.lists)
		}
	}
}

// D12: a holder of any of them still keeps it.
func TestASweepSeesHoldersOfEveryOwner(t *testing.T) {
	r, _, _ := newRevisions(t)
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: "app-bbbbbbbbbb"}}
	for i := range 3 {
		d := gen.Deployment(fmt.Sprint("web", i))
		d.UID, d.Spec.Selector = types.UID(fmt.Sprint("uid-", i)), &metav1.LabelSelector{MatchLabels: map[string]string{"app": d.Name}}
		obj.OwnerReferences = append(obj.OwnerReferences, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name, UID: d.UID})
		if err := r.Client.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	ref := revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: obj.Name}
	if used, err := r.inUse(t.Context(), obj, needs(ref)); used || err != nil {
		t.Fatalf("in use: %v, %v", used, err)
	}
	holder := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: "web2-1", Labels: map[string]string{"app": "web2"}}}
	holder.Spec.Template.Annotations = map[string]string{keys.Pins: "configmap/app=app-bbbbbbbbbb@1"}
	if err := r.Client.Create(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	if used, err := r.inUse(t.Context(), obj, needs(ref)); !used || err != nil {
		t.Errorf("in use: %v, %v", used, err)
	}
}
