package operator

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
)

// refusing is a sink that creates no event.
type refusing struct {
	events.EventSink
	err error
}

func (r refusing) Create(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	return nil, r.err
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
