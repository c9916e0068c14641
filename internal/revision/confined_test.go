package revision

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
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

// What stays denied until someone changes something is told from what a retry may end, whatever reason the one who denies it chose.
func TestDenied(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	status := func(code int32, reason metav1.StatusReason, text string, causes ...metav1.StatusCause) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: text, Details: &metav1.StatusDetails{Causes: causes}}}
	}
	const webhook, policy = `admission webhook "x.y" denied the request`, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request"
	denied := map[string]error{
		"a webhook":                             status(400, "", webhook),
		"a webhook that says that it conflicts": status(409, metav1.StatusReasonConflict, webhook),
		"a webhook that says that it is gone":   status(404, metav1.StatusReasonNotFound, webhook),
		"a webhook that does not answer":        apierrors.NewInternalError(errors.New(`failed calling webhook "x.y": failed to call webhook`)),
		"a policy":                              apierrors.NewForbidden(deployments, "web", errors.New(policy)),
		"a policy with no reason of its own":    status(422, metav1.StatusReasonInvalid, policy, metav1.StatusCause{Message: policy}),
		"a policy, wrapped":                     fmt.Errorf("x: %w", apierrors.NewForbidden(deployments, "web", errors.New(policy))),
		"a missing right":                       apierrors.NewForbidden(deployments, "web", errors.New(`User "confrev" cannot patch resource "deployments"`)),
		"an object that is not valid":           apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web", field.ErrorList{field.Required(field.NewPath("spec"), "")}),
		"the policy that confines confrev":      apierrors.NewForbidden(deployments, "web", errors.New("ValidatingAdmissionPolicy 'a-confine-b' with binding 'c' denied request: d")),
	}
	other := map[string]error{
		"a conflict":                        apierrors.NewConflict(deployments, "web", errors.New("x")),
		"what is gone":                      apierrors.NewNotFound(deployments, "web"),
		"a failed test of a patch":          status(422, metav1.StatusReasonInvalid, "testing value /metadata/generation failed: test failed"),
		"an API server that has to do less": apierrors.NewTooManyRequests("x", 1),
		"a timeout":                         apierrors.NewTimeoutError("x", 1),
		"a namespace that is being deleted": status(403, metav1.StatusReasonForbidden, "x", metav1.StatusCause{Type: corev1.NamespaceTerminatingCause}),
		"what is no answer":                 errors.New(webhook),
		"nothing":                           nil,
	}
	for name, err := range denied {
		if !Denied(err) {
			t.Errorf("%s does not count as denied", name)
			continue
		}
		want := notice.WriteRefused
		if name == "the policy that confines confrev" {
			want = ConfinementRefused
		}
		terminal, ok := errors.AsType[*notice.TerminalError](ExplainDenial("deployments default/web", err))
		if !ok || terminal.Reason != want || want == notice.WriteRefused && !strings.HasPrefix(terminal.Text, "deployments default/web cannot be changed: ") {
			t.Errorf("%s: got %v", name, terminal)
		}
	}
	for name, err := range other {
		if Denied(err) {
			t.Errorf("%s counts as denied", name)
		}
	}
}

// What someone denies is no change by another client, whatever reason they give.
func TestADeniedChangeToARevisionIsSaid(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	const said = `admission webhook "x.y" denied the request: no`
	for name, test := range map[string]struct {
		err     error
		denied  bool
		changed bool
	}{
		"a webhook":                             {apierrors.NewForbidden(configMaps, "app-1", errors.New(said)), true, false},
		"a webhook that says that it conflicts": {apierrors.NewConflict(configMaps, "app-1", errors.New(said)), true, false},
		"a webhook that says that it is gone": {
			&apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Message: said}}, true, false},
		"a conflict":                     {apierrors.NewConflict(configMaps, "app-1", errors.New("the object has been modified")), false, true},
		"what is gone":                   {apierrors.NewNotFound(configMaps, "app-1"), false, true},
		"a webhook that does not answer": {apierrors.NewInternalError(errors.New(`failed calling webhook "x.y": timeout`)), false, false},
		"a timeout":                      {apierrors.NewTimeoutError("x", 1), false, false},
		"nothing":                        {nil, false, false},
	} {
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return test.err
			},
		}).Build()
		err := NewStore(c, c, c, time.Now, appsKinds{}, 10).SetFinalizers(t.Context(), Metadata(Ref{Kind: pin.ConfigMap, Namespace: "default", Name: "app-1"}), nil)
		terminal, _ := errors.AsType[*notice.TerminalError](err)
		denied := terminal != nil && terminal.Reason == notice.WriteRefused
		if denied != test.denied || IsChanged(err) != test.changed || (err == nil) != (test.err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
