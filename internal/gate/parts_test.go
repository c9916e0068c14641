package gate

import (
	"context"
	"errors"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Some release of the chart is enough; a policy without a binding is not.
func TestResolvesPins(t *testing.T) {
	named := func(obj client.Object, name string) client.Object {
		obj.SetName(name)
		return obj
	}
	policy := named(&admissionregistrationv1.MutatingAdmissionPolicy{}, "rev-resolve-pins")
	for name, test := range map[string]struct {
		objects []client.Object
		want    bool
	}{
		"nothing":                   {nil, false},
		"others":                    {[]client.Object{named(&admissionregistrationv1.MutatingWebhookConfiguration{}, "confrev-pin-workloads")}, false},
		"a policy alone":            {[]client.Object{policy}, false},
		"a policy, and its binding": {[]client.Object{policy, named(&admissionregistrationv1.MutatingAdmissionPolicyBinding{}, "rev-resolve-pins")}, true},
		"the webhook":               {[]client.Object{named(&admissionregistrationv1.MutatingWebhookConfiguration{}, "confrev-resolve-pins")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ResolvesPins(t.Context(), fake.NewClientBuilder().WithObjects(test.objects...).Build())
			if err != nil || got != test.want {
				t.Errorf("got %t, %v", got, err)
			}
		})
	}
}

// A server of before MutatingAdmissionPolicy has none; what else goes wrong is an error.
func TestResolvesPinsWhereTheKindIsNotServed(t *testing.T) {
	failing := func(failure error) client.Client {
		return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if list.GetObjectKind().GroupVersionKind().Kind == "MutatingAdmissionPolicyList" {
					return failure
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
	}
	got, err := ResolvesPins(t.Context(), failing(&meta.NoKindMatchError{}))
	if err != nil || got {
		t.Errorf("got %t, %v", got, err)
	}
	if _, err = ResolvesPins(t.Context(), failing(errors.New("down"))); err == nil {
		t.Error("an error is lost")
	}
}
