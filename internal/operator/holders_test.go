package operator

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// What is both a workload and a holder is cached as a workload, once.
func TestWhichHoldersAreCachedAsMetadata(t *testing.T) {
	of := handled
	of.Holder = workload.HolderKind{GVK: workload.Deployment.GVK}
	for name, test := range map[string]struct {
		kinds      []workload.Kind
		obj        client.Object
		asMetadata bool
	}{
		"a ReplicaSet":                       {workload.Standard(), &appsv1.ReplicaSet{}, true},
		"a ControllerRevision":               {workload.Standard(), &appsv1.ControllerRevision{}, true},
		"a Job":                              {workload.Standard(), workload.Job.New(), true},
		"a configured holder":                {[]workload.Kind{handled}, handled.Holder.New(), true},
		"a workload":                         {workload.Standard(), &appsv1.Deployment{}, false},
		"a configured workload":              {[]workload.Kind{handled}, handled.New(), false},
		"a workload that is also a holder":   {append(workload.Standard(), of), &appsv1.Deployment{}, false},
		"a holder of a kind that is not set": {workload.Standard(), handled.Holder.New(), false},
	} {
		t.Run(name, func(t *testing.T) {
			cached := holdersOf(test.kinds).cached(test.obj)
			if _, is := cached.(*metav1.PartialObjectMetadata); is != test.asMetadata {
				t.Errorf("cached as %T", cached)
			}
			if want, got := workload.GVKOf(test.obj), workload.GVKOf(cached); want != got {
				t.Errorf("cached as %s, want %s", got, want)
			}
		})
	}
}

// whole is a client that notes the options of a request.
type whole struct {
	client.WithWatch
	asked client.ListOptions
}

func (w *whole) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	w.asked.ApplyOptions(options)
	if err := w.WithWatch.List(ctx, list, client.InNamespace(w.asked.Namespace)); err != nil {
		return err
	}
	left := int64(7)
	list.SetRemainingItemCount(&left)
	list.SetResourceVersion("43")
	list.SetContinue("next")
	return nil
}

// Whole holders are fetched, page by page, and what reaches the cache are their facts.
func TestHoldersAreReducedOnTheirWayToTheCache(t *testing.T) {
	web := gen.Deployment("web", gen.Pinned("configmap/app=app-bbbbbbbbbb@1"), gen.Template(gen.EnvFrom("configmap/app")))
	rs := gen.ReplicaSet("web-1", web, 4)
	elsewhere := rs.DeepCopy()
	elsewhere.Namespace = "elsewhere"
	api := &whole{WithWatch: fake.NewClientBuilder().WithObjects(rs, elsewhere).Build()}
	r := reducing{kind: workload.ReplicaSet, namespace: rs.Namespace, client: func() (client.WithWatch, error) { return api, nil }}
	facts := workload.ReplicaSet.Facts(rs)

	got, err := r.list(t.Context(), metav1.ListOptions{Limit: 500, Continue: "this", ResourceVersion: "0", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil {
		t.Fatal(err)
	}
	list, ok := got.(*metav1.PartialObjectMetadataList)
	if !ok || len(list.Items) != 1 || list.Continue != "next" || *list.RemainingItemCount != 7 || list.ResourceVersion != "43" {
		t.Fatalf("%T %+v", got, got)
	}
	if diff := cmp.Diff(facts, workload.ReplicaSet.Facts(&list.Items[0])); diff != "" {
		t.Errorf("facts in the list (-want +got):\n%s", diff)
	}
	asked := metav1.ListOptions{Limit: 500, Continue: "this", ResourceVersion: "0", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
	if diff := cmp.Diff(&asked, api.asked.AsListOptions()); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}

	watching, err := r.watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	again := rs.DeepCopy()
	again.Name, again.ResourceVersion = "web-2", ""
	if err := api.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	event := <-watching.ResultChan()
	reduced, ok := event.Object.(*metav1.PartialObjectMetadata)
	if !ok || event.Type != watch.Added || reduced.Name != "web-2" {
		t.Fatalf("%s %T %+v", event.Type, event.Object, event.Object)
	}
	if diff := cmp.Diff(facts, workload.ReplicaSet.Facts(reduced)); diff != "" {
		t.Errorf("facts in the event (-want +got):\n%s", diff)
	}
}

// client-go learns from bookmarks how far a watch is, and when a list that is streamed is complete; from an error, what is wrong.
func TestBookmarksAndErrorsPass(t *testing.T) {
	r := reducing{kind: workload.ReplicaSet}
	complete := map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	event, passes := r.reduce(watch.Event{Type: watch.Bookmark, Object: &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "42", Annotations: complete}}})
	bookmark, ok := event.Object.(*metav1.PartialObjectMetadata)
	if !passes || !ok || event.Type != watch.Bookmark || bookmark.ResourceVersion != "42" {
		t.Fatalf("%+v", event)
	}
	if diff := cmp.Diff(complete, bookmark.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	status := &metav1.Status{Reason: metav1.StatusReasonExpired}
	if event, passes := r.reduce(watch.Event{Type: watch.Error, Object: status}); !passes || event.Type != watch.Error || event.Object != status {
		t.Errorf("%+v", event)
	}
}

// Lists of holders are read from their metadata, and other lists as before.
func TestHoldersAreReadFromMetadata(t *testing.T) {
	web := gen.Deployment("web", gen.Pinned("configmap/app=app-bbbbbbbbbb@1"))
	rs := gen.ReplicaSet("web-1", web, 4)
	fleetSet := &unstructured.Unstructured{Object: map[string]any{}}
	fleetSet.SetGroupVersionKind(handled.Holder.GVK)
	fleetSet.SetNamespace(rs.Namespace)
	fleetSet.SetName("set-1")
	holders := holdersOf(append(workload.Standard(), handled))
	cache := fake.NewClientBuilder().WithObjects(web, workload.ReplicaSet.Reduce(rs), handled.Holder.Reduce(fleetSet)).Build()
	reader := holderReader{cache, holders}
	for name, test := range map[string]struct {
		list client.ObjectList
		want []string
		pins string
	}{
		"holders":           {workload.ReplicaSet.NewList(), []string{"web-1"}, "configmap/app=app-bbbbbbbbbb@1"},
		"metadata":          {metadata.NewList(workload.ReplicaSet.GVK), []string{"web-1"}, "configmap/app=app-bbbbbbbbbb@1"},
		"of another kind":   {workload.ControllerRevision.NewList(), nil, ""},
		"configured":        {handled.Holder.NewList(), []string{"set-1"}, ""},
		"workloads":         {workload.Deployment.NewList(), []string{"web"}, ""},
		"of no one's kinds": {&corev1.ConfigMapList{}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := reader.List(t.Context(), test.list, client.InNamespace(rs.Namespace)); err != nil {
				t.Fatal(err)
			}
			var names []string
			objects, err := index.Items(test.list)
			if err != nil {
				t.Fatal(err)
			}
			for _, obj := range objects {
				names = append(names, obj.GetName())
				if got := workload.ReplicaSet.Facts(obj).Pins; got != test.pins && name != "workloads" {
					t.Errorf("pins %q, want %q", got, test.pins)
				}
			}
			if !slices.Equal(names, test.want) {
				t.Errorf("%v, want %v", names, test.want)
			}
		})
	}
}
