package collect

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
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
	// refused are the kinds of lists that the user may not read.
	refused []string
}

func (r *recorder) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, key.Name, nil)
}

func (r *recorder) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists = append(r.lists, list)
	if kind := kindOf(list); slices.Contains(r.refused, kind) {
		return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", nil)
	}
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

// kindOf returns the kind of a list's objects: "Pod".
func kindOf(list client.ObjectList) string {
	kind := list.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		// A typed list says it by its type alone.
		kind = reflect.TypeOf(list).Elem().Name()
	}
	return strings.TrimSuffix(kind, "List")
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

// Rule 24: what a user may not see is said, and nothing is guessed about it. Without anything to judge, the error says what to do next.
func TestWhatAUserMayNotSee(t *testing.T) {
	const namespaces = "you may not list namespaces: their labels and annotations are not considered"
	every := []string{"Deployment", "StatefulSet", "DaemonSet", "Rollout", "CronJob"}
	tests := map[string]struct {
		namespace string
		refused   []string
		notes     []string
		err       string
	}{
		"ConfigMaps":                 {"ns", []string{"ConfigMap"}, []string{"you may not list configmaps: whether pods have their present content is not known", namespaces}, ""},
		"Secrets":                    {"ns", []string{"Secret"}, []string{namespaces, "you may not list secrets: whether pods have their present content is not known"}, ""},
		"pods of one namespace":      {"ns", []string{"Pod"}, []string{namespaces, "you may not list pods: they are neither judged nor counted"}, ""},
		"pods of all namespaces":     {"", []string{"Pod"}, nil, "audit one namespace instead, with -n NAMESPACE"},
		"CronJobs of all namespaces": {"", []string{"CronJob"}, []string{"you may not list cronjobs: they are left out"}, ""},
		"all but one kind of workloads": {"ns", every[1:], []string{
			"you may not list cronjobs: they are left out", "you may not list daemonsets: they are left out", namespaces, "you may not list rollouts: they are left out",
			"you may not list statefulsets: they are left out"}, ""},
		"ReplicaSets": {"ns", []string{"ReplicaSet"}, []string{namespaces,
			"you may not list replicasets: pods are reported without their workloads, and an object that nothing seems to use may be used by one of them"}, ""},
		"Jobs": {"ns", []string{"Job"}, []string{
			"you may not list jobs: pods are reported without their workloads, and an object that nothing seems to use may be used by one of them", namespaces}, ""},
		"Ingresses":    {"ns", []string{"Ingress"}, []string{"you may not list ingresses: an object that nothing seems to use may be used by one of them", namespaces}, ""},
		"any workload": {"ns", every, nil, "Deployment is forbidden"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			asked := &recorder{refused: test.refused}
			found, err := Run(t.Context(), asked, Options{Namespace: test.namespace, Kinds: workload.Standard(), Margin: audit.DefaultMargin})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("%v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(found.Notes, test.notes) {
				t.Errorf("%q, want %q", found.Notes, test.notes)
			}
		})
	}
}

// Progress counts the objects of each kind as they come.
func TestProgress(t *testing.T) {
	counted := map[string][]int{}
	var mu sync.Mutex
	progress := func(kind string, n int) {
		mu.Lock()
		defer mu.Unlock()
		counted[kind] = append(counted[kind], n)
	}
	if _, err := Run(t.Context(), &recorder{pods: 3}, Options{Namespace: "ns", Kinds: workload.Standard(), Progress: progress}); err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(counted, map[string][]int{"pods": {1, 2, 3}}, slices.Equal[[]int]) {
		t.Errorf("%v", counted)
	}
}
