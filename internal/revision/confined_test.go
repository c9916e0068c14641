package revision

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/notice"
)

// A refusal by the policy that confines confrev's own account names fields; everything else that is forbidden stays an error.
func TestRefused(t *testing.T) {
	forbidden := func(text string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", errors.New(text))
	}
	tests := map[string]struct {
		err  error
		want string
	}{
		"the chart's policy": {
			forbidden("ValidatingAdmissionPolicy 'acme-confrev-confine-spec.template' with binding 'x' denied request: confrev may not change spec.replicas"),
			"writes: confrev may not change spec.replicas. If another",
		},
		"a guard":          {forbidden("ValidatingAdmissionPolicy 'confrev-guard-revisions' with binding 'x' denied request: this is a revision"), ""},
		"another's policy": {forbidden("ValidatingAdmissionPolicy 'theirs' with binding 'confrev-confine-x' denied request: no"), ""},
		"a missing right":  {forbidden("User \"confrev\" cannot patch resource \"deployments\""), ""},
		"another error":    {errors.New("ValidatingAdmissionPolicy 'confrev-confine-x' denied request: no"), ""},
		"no error":         {nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := ExplainRefusal(tt.err)
			terminal, ok := errors.AsType[*notice.TerminalError](got)
			if ok != (tt.want != "") || !ok && got != tt.err { //nolint:errorlint // The very error is to come back.
				t.Fatalf("got %v", got)
			}
			if ok && (terminal.Reason != ConfinementRefused || !strings.Contains(terminal.Text, tt.want)) {
				t.Errorf("got %s: %s", terminal.Reason, terminal.Text)
			}
		})
	}
}
