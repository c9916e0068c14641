package snapshot

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// A limit counts what is in the namespace, as it does for the cache of the controller.
func TestListUpToALimit(t *testing.T) {
	named := func(namespace, name string) client.Object {
		return gen.Web("1", func(d *appsv1.Deployment) { d.Namespace, d.Name = namespace, name })
	}
	live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(named("a", "other"), named("b", "one"), named("b", "two"), named("b", "three")).Build()
	s, err := Take(t.Context(), live, []workload.Kind{workload.Deployment}, nil, optin.Defaults{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]int{0: 3, 2: 2, 3: 3, 4: 3} {
		list := &appsv1.DeploymentList{}
		if err := s.List(t.Context(), list, client.InNamespace("b"), client.Limit(limit)); err != nil {
			t.Fatal(err)
		}
		for _, d := range list.Items {
			if d.Namespace != "b" {
				t.Errorf("limit %d: %s/%s is listed, too", limit, d.Namespace, d.Name)
			}
		}
		if len(list.Items) != want {
			t.Errorf("limit %d: %d of 3 are listed, want %d", limit, len(list.Items), want)
		}
	}
}
