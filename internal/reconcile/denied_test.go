package reconcile

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/revision"
)

// What is denied is tried again, and said the second time: what the policy that confines confrev's own account says, and that someone else denies it.
func TestWhatIsDeniedIsSaidTheSecondTime(t *testing.T) {
	forbidden := func(text string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", errors.New(text))
	}
	const policy = "ValidatingAdmissionPolicy 'confrev-confine-spec.template' with binding 'confrev-confine-spec.template' denied request: "
	tests := map[string]struct {
		err          error
		reason, text string
	}{
		"confinement": {forbidden(policy + "confrev may not change spec.minReadySeconds, metadata.annotations.example.com/a"), revision.ConfinementRefused, "spec.minReadySeconds"},
		"someone":     {forbidden(`admission webhook "x.y" denied the request`), notice.WriteRefused, `cannot be changed: deployments.apps "web" is forbidden: admission webhook "x.y" denied`},
	}
	for name, test := range tests {
		err := revision.ExplainDenial("deployments default/web", test.err)
		known := &memory{}
		if wait := known.deniedOnce(err); wait != retryDenied {
			t.Errorf("%s: the first refusal waits %s", name, wait)
		}
		if wait := known.deniedOnce(err); wait != 0 {
			t.Errorf("%s: the second refusal waits %s", name, wait)
		}
		said, err := sayTerminal(nil, err)
		if err != nil || len(said) != 1 || said[0].Reason != test.reason || !strings.Contains(said[0].Text, test.text) {
			t.Errorf("%s: said %v, %v", name, said, err)
		}
	}
}
