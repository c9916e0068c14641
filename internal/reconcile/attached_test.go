package reconcile

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rule 16: confrev's finalizer goes with the namespace; others' stay, and so does everything of a namespace that it keeps out of.
func TestDeletedNamespaceLosesFinalizer(t *testing.T) {
	now := metav1.Now()
	going := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gen.Namespace, DeletionTimestamp: &now, Finalizers: []string{"kubernetes"}}}
	for name, test := range map[string]struct {
		options rollout.Options
		want    []string
	}{
		"of a user":     {rollout.Options{}, []string{"example.com/keep"}},
		"confrev's own": {rollout.Options{Namespace: gen.Namespace}, []string{keys.ProtectFinalizer, "example.com/keep"}},
	} {
		t.Run(name, func(t *testing.T) {
			source := gen.ConfigMap("app", nil)
			source.Annotations = map[string]string{keys.Attach: "true", keys.Protect: "true"}
			source.Finalizers, source.DeletionTimestamp = []string{keys.ProtectFinalizer, "example.com/keep"}, &now
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(going.DeepCopy(), source).Build()
			known := &workload.Kinds{}
			r := &Revisions{Options: test.options, Kinds: known, Client: c, Live: c, Store: revision.NewStore(c, c, c, time.Now, known, 10)}
			if _, err := r.Reconcile(t.Context(), revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: "app"}); err != nil {
				t.Fatal(err)
			}
			got := &corev1.ConfigMap{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(source), got); err != nil || !slices.Equal(got.Finalizers, test.want) {
				t.Errorf("finalizers %q, %v", got.Finalizers, err)
			}
		})
	}
}

// Rule 16: whatever events are missed, a deleted source that some workload names is looked at again, or its finalizer would keep the
// namespace.
func TestDeletedSourceInUseIsLookedAtAgain(t *testing.T) {
	now := metav1.Now()
	source := gen.ConfigMap("app", nil)
	source.Annotations = map[string]string{keys.Attach: "true", keys.Protect: "true"}
	source.Finalizers, source.DeletionTimestamp = []string{keys.ProtectFinalizer}, &now
	r, _, _ := newRevisions(t, source, gen.Web("1", gen.Untracked))
	r.Grace = time.Minute
	result, err := r.Reconcile(t.Context(), revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: "app"})
	if err != nil || result.RequeueAfter != r.Grace {
		t.Errorf("looks again after %s, %v", result.RequeueAfter, err)
	}
}

// A deploy tool that found an attached source there may be about to name it again, so it is spared for as long as a revision is (rule 13).
func TestAnAttachedSourceIsSparedOnceNothingUsesIt(t *testing.T) {
	for name, test := range map[string]struct{ grace, spared time.Duration }{
		"the default": {grace: 10 * time.Minute, spared: 90 * time.Second},
		"less":        {grace: 20 * time.Second, spared: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			source := gen.ConfigMap("app", nil)
			source.UID = "source"
			source.Annotations = map[string]string{keys.Attach: "true", keys.Attached: "source"}
			source.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web"}}
			r, _, _ := newRevisions(t, source)
			now := time.Now()
			r.Now, r.Grace = func() time.Time { return now }, test.grace
			r.Store = revision.NewStore(r.Client, r.Live, r.Client, r.Now, r.Kinds, 100).Sparing(r.Grace)
			look := func(want time.Duration, there bool) {
				t.Helper()
				result, err := r.Reconcile(t.Context(), revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: "app"})
				if err != nil || result.RequeueAfter != want {
					t.Errorf("looks again after %s, want %s, %v", result.RequeueAfter, want, err)
				}
				if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(source), &corev1.ConfigMap{}); (err == nil) != there {
					t.Errorf("it is looked up with %v; want it there: %t", err, there)
				}
			}
			look(test.spared, true)
			now = now.Add(test.spared - time.Second)
			look(time.Second, true)
			// It is named again, and then no longer.
			user := gen.Web("1", gen.Untracked)
			if err := r.Client.Create(t.Context(), user); err != nil {
				t.Fatal(err)
			}
			look(0, true)
			if err := r.Client.Delete(t.Context(), user); err != nil {
				t.Fatal(err)
			}
			look(test.spared, true)
			now = now.Add(test.spared)
			look(0, false)
		})
	}
}
