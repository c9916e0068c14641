package reconcile

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/account"
	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// world is an API server with some objects, and the reconciler of Deployments on it.
type world struct {
	*Workloads
	client client.WithWatch
}

func newWorld(objects ...client.Object) *world {
	b := fake.NewClientBuilder().WithObjects(inNamespace(objects)...).
		WithIndex(revision.NewMetadata(pin.ConfigMap), revision.BySource, revision.IndexBySource(pin.ConfigMap))
	for _, i := range index.Of(workload.Deployment, optin.Defaults{}) {
		b = b.WithIndex(i.Object, i.Field, i.Func)
	}
	c := b.Build()
	kinds := &workload.Kinds{}
	return &world{client: c, Workloads: &Workloads{
		Engine: &rollout.Engine{
			Kind: workload.Deployment, Kinds: kinds, Options: rollout.Options{Injection: optin.Admission}, Client: c, Live: c, Whole: c,
			Store: revision.NewStore(c, c, c, time.Now, kinds, 100), Accounts: account.New(c, time.Now), Now: time.Now,
		},
		RolloutsPerHour: 100, Gate: &gate.Gate{}, Notices: sink.Events(events.NewFakeRecorder(100)), States: NewStates(true), Backlog: &Backlog{},
	}}
}

// admitted returns the object that comes of a request to update one.
func (w *world) admitted(t *testing.T, obj, old client.Object) *appsv1.Deployment {
	t.Helper()
	answer, err := w.Admit(t.Context(), rollout.Request{Object: obj, Old: old})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Patch == nil {
		return obj.(*appsv1.Deployment)
	}
	patched, err := w.Apply(obj, answer.Patch)
	if err != nil {
		t.Fatal(err)
	}
	return patched.(*appsv1.Deployment)
}

// inNamespace returns objects together with their namespace, unless that is one of them.
func inNamespace(objects []client.Object) []client.Object {
	for _, obj := range objects {
		if _, is := obj.(*corev1.Namespace); is {
			return objects
		}
	}
	return append(slices.Clone(objects), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gen.Namespace}})
}
