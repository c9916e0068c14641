package reconcile

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/revision"
)

// What the policy that confines confrev's own account says reaches the user; the first refusal is tried again, the
// second is said.
func TestARefusalOfConfinementNamesTheField(t *testing.T) {
	forbidden := func(text string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", errors.New(text))
	}
	const policy = "ValidatingAdmissionPolicy 'confrev-confine-spec.template' with binding 'confrev-confine-spec.template' denied request: "
	err := revision.ExplainRefusal(forbidden(policy + "confrev may not change spec.minReadySeconds, metadata.annotations.example.com/a"))
	known := &memory{}
	if wait := known.refusedOnce(err); wait != retryConfined {
		t.Errorf("the first refusal waits %s", wait)
	}
	if wait := known.refusedOnce(err); wait != 0 {
		t.Errorf("the second refusal waits %s", wait)
	}
	said, err := sayConfined(nil, err)
	if err != nil || len(said) != 1 || said[0].Reason != revision.ConfinementRefused || !strings.Contains(said[0].Text, "spec.minReadySeconds") {
		t.Errorf("said %v, %v", said, err)
	}
}
