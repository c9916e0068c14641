package operator

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	eventsv1client "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/reconcile"
)

// newRecorder returns what records events in a namespace, or in all, as soon as few workloads wait. Nothing of it is left once ctx has ended.
func newRecorder(ctx context.Context, manager ctrl.Manager, namespace string, backlog *reconcile.Backlog) (events.EventRecorder, error) {
	// What is left is sent when ctx has ended.
	sending, end := context.WithCancel(log.IntoContext(context.WithoutCancel(ctx), manager.GetLogger().WithName("events")))
	recorder, shutdown, err := recorderOf(sending, manager, namespace)
	if err != nil {
		end()
		return nil, err
	}
	later := sink.NewLater(recorder, func() { shutdown(); end() }, manager.GetScheme(), backlog.Long)
	// A manager may fail before it starts it, and in a single namespace, it is tried again and again.
	context.AfterFunc(ctx, later.Abandon)
	return later, manager.Add(later)
}

// recorderOf returns what records events in a namespace, or in all, until ctx ends, and what shuts it down before. Before Kubernetes 1.35, an
// administrator of a namespace has no rights on events.k8s.io to grant, and the chart grants those on the core API's events there.
func recorderOf(ctx context.Context, manager ctrl.Manager, namespace string) (events.EventRecorder, func(), error) {
	allowed := true
	if namespace != "" {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: eventsv1.GroupName, Resource: "events"},
		}}
		if err := manager.GetClient().Create(ctx, review); err != nil {
			return nil, nil, fmt.Errorf("ask for rights on events: %w", err)
		}
		allowed = review.Status.Allowed
	}
	if !allowed {
		client, err := corev1client.NewForConfigAndClient(manager.GetConfig(), manager.GetHTTPClient())
		if err != nil {
			return nil, nil, err
		}
		broadcaster := record.NewBroadcaster(record.WithContext(ctx))
		broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.Events(namespace)})
		recorder := broadcaster.NewRecorder(manager.GetScheme(), corev1.EventSource{Component: "confrev"})
		return record.NewEventRecorderAdapter(recorder), broadcaster.Shutdown, nil
	}
	client, err := eventsv1client.NewForConfigAndClient(manager.GetConfig(), manager.GetHTTPClient())
	if err != nil {
		return nil, nil, err
	}
	broadcaster := events.NewBroadcaster(whereNamespacesLive{&events.EventSinkImpl{Interface: client}})
	_, logErr := broadcaster.StartLogging(log.FromContext(ctx).V(1))
	if err := errors.Join(logErr, broadcaster.StartRecordingToSinkWithContext(ctx)); err != nil {
		return nil, nil, fmt.Errorf("record events: %w", err)
	}
	return broadcaster.NewRecorder(manager.GetScheme(), "confrev"), broadcaster.Shutdown, nil
}

// whereNamespacesLive drops events about what goes with its namespace, in which none can be created. client-go would log each as an error; its broadcaster
// for the core API does not. Its errors repeat no value (discreet).
type whereNamespacesLive struct{ events.EventSink }

func (s whereNamespacesLive) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	made, err := s.EventSink.Create(ctx, event)
	// An event refers to no other object that must exist.
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || apierrors.IsNotFound(err) {
		return event, nil
	}
	return made, withoutValues(err)
}

func (s whereNamespacesLive) Update(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	made, err := s.EventSink.Update(ctx, event)
	return made, withoutValues(err)
}

func (s whereNamespacesLive) Patch(ctx context.Context, event *eventsv1.Event, data []byte) (*eventsv1.Event, error) {
	made, err := s.EventSink.Patch(ctx, event, data)
	return made, withoutValues(err)
}
