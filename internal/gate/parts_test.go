package gate

import (
	"context"
	"errors"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	// The second comes from the API server itself, for clients that know the kind without asking.
	for _, unknown := range []error{&meta.NoKindMatchError{}, apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "", 0, true)} {
		if got, err := ResolvesPins(t.Context(), failing(unknown)); err != nil || got {
			t.Errorf("%v: got %t, %v", unknown, got, err)
		}
	}
	if _, err := ResolvesPins(t.Context(), failing(errors.New("down"))); err == nil {
		t.Error("an error is lost")
	}
}
