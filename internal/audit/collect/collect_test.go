package collect

import (
	"context"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/audit"
	"confrev.io/confrev/internal/workload"
)

// recorder notes what is asked for. What is not a Get or a List panics: no such client is there.
type recorder struct {
	client.Client
	mu    sync.Mutex
	lists []client.ObjectList
	pods  int
}

func (r *recorder) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, key.Name, nil)
}

func (r *recorder) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists = append(r.lists, list)
	asked := (&client.ListOptions{}).ApplyOptions(options)
	if asked.Limit != 500 {
		return apierrors.NewBadRequest("not in pages")
	}
	if pods, is := list.(*corev1.PodList); is {
		for range min(asked.Limit, int64(r.pods)) {
			pods.Items = append(pods.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}})
			r.pods--
		}
		if r.pods > 0 {
			pods.Continue = "more"
		}
	}
	return nil
}

// Rule 24: of ConfigMaps and Secrets only metadata is read, everything is read in pages, and nothing is read twice.
func TestOnlyMetadataOfSourcesIsRead(t *testing.T) {
	asked := &recorder{pods: 1201}
	found, err := Run(t.Context(), asked, Options{Namespace: "ns", Kinds: workload.Standard(), Margin: audit.DefaultMargin})
	if err != nil {
		t.Fatal(err)
	}
	if found.Summary.Pods != 1201 {
		t.Errorf("%d pods", found.Summary.Pods)
	}
	if !slices.Equal(found.Notes, []string{"you may not list namespaces: their labels and annotations are not considered"}) {
		t.Errorf("%q", found.Notes)
	}
	sources, pages := 0, map[schema.GroupVersionKind]int{}
	for _, list := range asked.lists {
		gvk := list.GetObjectKind().GroupVersionKind()
		switch list.(type) {
		case *corev1.ConfigMapList, *corev1.SecretList:
			t.Errorf("it reads content: %T", list)
		case *metav1.PartialObjectMetadataList:
			sources++
			pages[gvk]++
		}
	}
	if sources != 2 || len(pages) != 2 {
		t.Errorf("it lists metadata of %v", pages)
	}
	// Pods in 3 pages, ConfigMaps, Secrets, 5 kinds of workloads with 3 kinds of holders, ServiceAccounts, Ingresses.
	if want := 3 + 2 + 5 + 3 + 2; len(asked.lists) != want {
		t.Errorf("%d requests, want %d", len(asked.lists), want)
	}
}
