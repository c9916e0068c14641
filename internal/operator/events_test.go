package operator

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"confrev.io/confrev/internal/reconcile"
)

// refusing is a sink that creates no event.
type refusing struct {
	events.EventSink
	err error
}

func (r refusing) Create(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	return nil, r.err
}

// A namespace whose loops cannot be started is tried every ten seconds, for as long as that takes.
func TestARecorderThatIsNeverStartedLeavesNothing(t *testing.T) {
	manager, err := ctrl.NewManager(&rest.Config{Host: "https://127.0.0.1:1"}, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := newRecorder(ctx, manager, "", &reconcile.Backlog{}); err != nil {
		t.Fatal(err)
	}
	if broadcasters() == 0 {
		t.Fatal("no broadcaster of events runs")
	}
	cancel()
	for deadline := time.Now().Add(time.Minute); broadcasters() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a broadcaster of events still runs")
		}
	}
}

// broadcasters counts the goroutines of broadcasters of events in this process.
func broadcasters() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "tools/events.(*eventBroadcasterImpl)")
}

// In a namespace that goes, no event can be created, and none need be. Everything else is an error.
func TestEventsInANamespaceThatGoes(t *testing.T) {
	resource := schema.GroupResource{Group: eventsv1.GroupName, Resource: "events"}
	going := apierrors.NewForbidden(resource, "web.1", errors.New("it is being terminated"))
	going.ErrStatus.Details.Causes = append(going.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	for name, test := range map[string]struct {
		err   error
		fails bool
	}{
		"it is being deleted":         {going, false},
		"it is gone":                  {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "team"), false},
		"confrev may not make events": {apierrors.NewForbidden(resource, "web.1", errors.New("no right")), true},
		"there is no API server":      {errors.New("connection refused"), true},
	} {
		t.Run(name, func(t *testing.T) {
			made, err := whereNamespacesLive{refusing{err: test.err}}.Create(t.Context(), &eventsv1.Event{})
			if (err != nil) != test.fails || (made != nil) == test.fails {
				t.Errorf("%v, %v", made, err)
			}
		})
	}
}
