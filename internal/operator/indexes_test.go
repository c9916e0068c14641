package operator

import (
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
)

// controller-runtime makes the values of indexes, and only their beginning tells which are for all namespaces. An object in no namespace is found by ByTrigger's.
func TestIndexesAnswerForOneNamespace(t *testing.T) {
	for name, test := range map[string]struct {
		wrap  func(toolscache.SharedIndexInformer) toolscache.SharedIndexInformer
		obj   client.Object
		field string
		want  []string
	}{
		"in a namespace": {
			func(i toolscache.SharedIndexInformer) toolscache.SharedIndexInformer { return byNamespace{i} },
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "app"}}, "some", []string{"team/some", "team/value"},
		},
		"in a namespace, by what may be in none": {
			func(i toolscache.SharedIndexInformer) toolscache.SharedIndexInformer { return byNamespace{i} },
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "app"}}, index.ByTrigger,
			[]string{"__all_namespaces/some", "__all_namespaces/value", "team/some", "team/value"},
		},
		"in no namespace": {
			func(i toolscache.SharedIndexInformer) toolscache.SharedIndexInformer { return byNamespace{i} },
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, "some", []string{"__all_namespaces/some", "__all_namespaces/value"},
		},
		"as controller-runtime has it": {
			func(i toolscache.SharedIndexInformer) toolscache.SharedIndexInformer { return i },
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "app"}}, "some",
			[]string{"__all_namespaces/some", "__all_namespaces/value", "team/some", "team/value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var informer toolscache.SharedIndexInformer
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
			mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
			c, err := cache.New(&rest.Config{Host: "https://127.0.0.1:1"}, cache.Options{
				HTTPClient: http.DefaultClient, Mapper: mapper,
				NewInformer: func(l toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, i toolscache.Indexers) toolscache.SharedIndexInformer {
					informer = test.wrap(toolscache.NewSharedIndexInformer(l, obj, resync, i))
					return informer
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			empty := test.obj.DeepCopyObject().(client.Object)
			if err := c.IndexField(t.Context(), empty, test.field, func(client.Object) []string { return []string{"some", "value"} }); err != nil {
				t.Fatal(err)
			}
			if err := informer.GetIndexer().Add(test.obj); err != nil {
				t.Fatal(err)
			}
			got := slices.Sorted(slices.Values(informer.GetIndexer().ListIndexFuncValues("field:" + test.field)))
			if !slices.Equal(got, test.want) {
				t.Errorf("have %v, want %v", got, test.want)
			}
		})
	}
}
