package metadata

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestTestFailedDetectsFailedPatchTest(t *testing.T) {
	kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	// This is how k8s.io/apiserver/pkg/endpoints/handlers/patch.go answers; the library's own text is lost on the way.
	failed := apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "",
		"testing value /metadata/generation failed: test failed", 0, false)
	tests := map[string]struct {
		err  error
		want bool
	}{
		"a failed test":            {failed, true},
		"a failed test, wrapped":   {fmt.Errorf("patch: %w", failed), true},
		"a refusal by validation":  {apierrors.NewInvalid(kind, "web", field.ErrorList{field.Invalid(field.NewPath("spec"), "x", "no")}), false},
		"a conflict":               {apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("x")), false},
		"a refusal by a policy":    {apierrors.NewForbidden(schema.GroupResource{}, "web", errors.New("x")), false},
		"another error altogether": {errors.New("testing value failed"), false},
		"no error":                 {nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := TestFailed(test.err); got != test.want {
				t.Errorf("TestFailed = %v", got)
			}
		})
	}
}
