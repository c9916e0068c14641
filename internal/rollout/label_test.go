package rollout

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// A source that may not be labelled, since a policy keeps everyone from what a GitOps tool manages, delays no rollout.
func TestASourceThatCannotBeLabelledIsNoError(t *testing.T) {
	tries := 0
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(gen.ConfigMap("app", nil)).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			tries++
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "app", nil)
		},
	}).Build()
	known := &workload.Kinds{}
	r := &Engine{Kinds: known, Client: c, Live: c, Store: revision.NewStore(c, c, c, time.Now, known, 10)}
	seen := newObserved(gen.Namespace, view{reader: c})
	err := r.Refresh(t.Context(), Assessment{seen: seen, want: intent{pins: plan.Plan{Decisions: []plan.Decision{{
		Source: gen.Source("configmap/app"), Current: pin.Pin{Revision: "app-bbbbbbbbbb", Number: 1},
	}}}}})
	if err != nil || tries != 1 {
		t.Errorf("%v after %d tries", err, tries)
	}
}
