package operator

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"

	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/reconcile"
)

// newRecorder returns what records events in a namespace, or in all, as soon as few workloads wait.
func newRecorder(ctx context.Context, manager ctrl.Manager, namespace string, backlog *reconcile.Backlog) (events.EventRecorder, error) {
	recorder, err := recorderOf(ctx, manager, namespace)
	if err != nil {
		return nil, err
	}
	later := sink.NewLater(recorder, manager.GetScheme(), backlog.Long)
	return later, manager.Add(later)
}

// recorderOf returns what records events in a namespace, or in all. Before Kubernetes 1.35, an administrator of a namespace has no rights on
// events.k8s.io to grant, and the chart grants those on the core API's events there.
func recorderOf(ctx context.Context, manager ctrl.Manager, namespace string) (events.EventRecorder, error) {
	recorder := manager.GetEventRecorder("confrev")
	if namespace == "" {
		return recorder, nil
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: eventsv1.GroupName, Resource: "events"},
	}}
	if err := manager.GetClient().Create(ctx, review); err != nil {
		return nil, fmt.Errorf("ask for rights on events: %w", err)
	}
	if review.Status.Allowed {
		return recorder, nil
	}
	client, err := corev1client.NewForConfigAndClient(manager.GetConfig(), manager.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	// It ends with the context.
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.Events(namespace)})
	return record.NewEventRecorderAdapter(broadcaster.NewRecorder(manager.GetScheme(), corev1.EventSource{Component: "confrev"})), nil
}
