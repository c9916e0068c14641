package reconcile

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Workloads that are worked on count as much as those that wait: with many workers, none may be left to wait.
func TestABacklogIsLong(t *testing.T) {
	for name, test := range map[string]struct {
		working, waiting int
		want             bool
	}{
		"nothing to do":     {0, 0, false},
		"few are worked on": {few, 0, false},
		"many of them":      {few + 1, 0, true},
		"few wait":          {0, few, false},
		"many of them wait": {0, few + 1, true},
		"many in all":       {few / 2, few/2 + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &Backlog{}
			q := b.queue("test", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			for i := range test.waiting {
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: string(rune('a' + i))}})
			}
			for range test.working {
				// One that is done counts no more.
				b.work()()
				b.work()
			}
			if got := b.Long(); got != test.want {
				t.Errorf("long: %t, want %t", got, test.want)
			}
		})
	}
}
