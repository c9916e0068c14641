package reconcile

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/test/gen"
)

// What the API server does not keep is said, and written again only when it would be something else, or after an hour.
func TestWhatIsPrunedIsSaidAndNotWrittenAgain(t *testing.T) {
	for _, injection := range []optin.Injection{optin.Admission, optin.Template} {
		t.Run(string(injection), func(t *testing.T) {
			obj := gen.Web("1", gen.Annotated(keys.Injection, string(injection)))
			w := newWorld(obj, gen.App("a"))
			told := events.NewFakeRecorder(100)
			now := gen.Created.Time
			w.Notices, w.Now = sink.Events(told), func() time.Time { return now }
			patches, wet := 0, 0
			w.Client = interceptor.NewClient(w.client, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					d, ok := obj.(*appsv1.Deployment)
					if !ok {
						return c.Patch(ctx, obj, patch, opts...)
					}
					patches++
					if len((&client.PatchOptions{}).ApplyOptions(opts).DryRun) == 0 {
						wet++
					}
					d.Spec.Template.Annotations = nil
					return nil
				},
			})
			reconcile := func(after, again time.Duration) {
				t.Helper()
				now = gen.Created.Add(after)
				result, err := w.Reconcile(t.Context(), requests([]client.Object{obj})[0])
				if err != nil || result.RequeueAfter != again {
					t.Fatalf("looks again after %s, want %s, %v", result.RequeueAfter, again, err)
				}
			}
			reconcile(0, retryRefused)
			reconcile(time.Minute, plan.RetryReverted-time.Minute)
			reconcile(30*time.Minute, 30*time.Minute)
			if said := drained(told); len(said) != 2 || !strings.HasPrefix(said[1], "Warning "+notice.PinsNotKept+" ") {
				t.Errorf("said %q", said)
			}
			if patches != 1 || (wet == 0) != (injection == optin.Template) {
				t.Errorf("wrote %d times, %d of them to stay", patches, wet)
			}
			reconcile(time.Hour, retryRefused)
			if patches != 2 {
				t.Errorf("wrote %d times", patches)
			}
		})
	}
}
