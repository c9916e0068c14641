package reconcile

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/trigger"
)

// listing is a cache that may have caught up.
type listing struct {
	cache.Cache
	synced bool
}

// watching is a controller that counts what it watches.
type watching struct {
	controller.Controller
	watches int
}

type informer struct {
	cache.Informer
	synced bool
}

func (i informer) HasSynced() bool { return i.synced }

func (l *listing) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return informer{synced: l.synced}, nil
}

func (w *watching) Watch(source.TypedSource[reconcile.Request]) error {
	w.watches++
	return nil
}

// While the API server fails to list objects on which a workload restarts, none of their changes arrives: the loop looks at the workload again, and says so.
func TestWhatCannotBeListedIsLookedAtAgainAndAgain(t *testing.T) {
	claims := trigger.Kind{GVK: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), Kind: "persistentvolumeclaims.v1"}
	began := time.Unix(1_800_000_000, 0)
	now, l, w := began, &listing{}, &watching{}
	r := &Workloads{
		Engine: &rollout.Engine{Now: func() time.Time { return now }}, Triggers: l, controller: w, followed: map[schema.GroupVersionKind]time.Time{},
	}
	for _, step := range []struct {
		after       time.Duration
		synced      bool
		again, says bool
	}{
		{0, false, true, false},
		{retryRefused / 2, false, true, false},
		{retryRefused, false, true, true},
		{time.Hour, false, true, true},
		{2 * time.Hour, true, false, false},
	} {
		now, l.synced = began.Add(step.after), step.synced
		look := rollout.Assessment{Triggers: []trigger.Kind{claims}}
		if err := r.followTriggers(t.Context(), &look); err != nil {
			t.Fatal(err)
		}
		says := len(look.Warnings) == 1 && look.Warnings[0].Reason == notice.RestartOnDelayed
		if look.Retry != step.again || says != step.says || !says && len(look.Warnings) > 0 {
			t.Errorf("after %s: it looks again: %v, and says %+v", step.after, look.Retry, look.Warnings)
		}
	}
	if w.watches != 1 {
		t.Errorf("there are %d watches", w.watches)
	}
}
