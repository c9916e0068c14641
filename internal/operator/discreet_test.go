package operator

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/revision"
)

// Rule 19: what the API server says of a refusal is kept as far as it repeats no value.
func TestErrorsRepeatNoValue(t *testing.T) {
	maps := schema.GroupResource{Resource: "configmaps"}
	forbidden := func(why string) *apierrors.StatusError { return apierrors.NewForbidden(maps, "app-1", errors.New(why)) }
	terminating := forbidden("unable to create new content in namespace x because it is being terminated")
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	path := field.NewPath("spec", "template")
	tests := map[string]struct {
		err  error
		want string
	}{
		"a right": {forbidden(`User "confrev" cannot create resource "configmaps"`), `configmaps "app-1" is forbidden: User "confrev" cannot create resource "configmaps"`},
		"a quota": {forbidden("exceeded quota: few, requested: count/configmaps=1, used: count/configmaps=2"), `configmaps "app-1" is forbidden: exceeded quota: few, requested: count/configmaps=1, used: count/configmaps=2`},
		"a webhook, as the API server says it": {
			&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Message: `admission webhook "x.y.z" denied the request: canary`}},
			`admission webhook "x.y.z" denied the request`},
		"a policy": {forbidden("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: canary"), `configmaps "app-1" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request`},
		"a policy, by default": {
			&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: "canary"}}},
				Message: `configmaps "app-1" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: canary`}},
			`configmaps "app-1" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request`},
		"a policy that chooses another reason": {
			&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonRequestEntityTooLarge,
				Message: `configmaps "app-1" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: canary`}},
			`configmaps "app-1" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request`},
		"a webhook that chooses another reason": {
			&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonConflict, Message: `admission webhook "x.y" denied the request: canary`}},
			`admission webhook "x.y" denied the request`},
		"a value that looks like a refusal": {
			&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Message: `canary admission webhook "x" denied the request`}},
			"the API server refused it (Forbidden)"},
		"another": {forbidden("canary"), "the API server refused it (Forbidden)"},
		"invalid values": {apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", field.ErrorList{
			field.Invalid(path.Child("a"), "canary", "canary"), field.NotSupported(path.Child("b"), "canary", []string{"x"})}),
			`Deployment "web" is invalid: spec.template.a, spec.template.b`},
		"a webhook that does not answer": {apierrors.NewInternalError(errors.New(`failed calling webhook "x.y.z": failed to call webhook: Post "https://canary": canary`)), `Internal error occurred: failed calling webhook "x.y.z"`},
		"a bad request":                  {apierrors.NewBadRequest("canary"), "the API server refused it (BadRequest)"},
		"a conflict":                     {apierrors.NewConflict(maps, "app-1", errors.New("the object has been modified")), `Operation cannot be fulfilled on configmaps "app-1": the object has been modified`},
		"not found":                      {apierrors.NewNotFound(maps, "app-1"), `configmaps "app-1" not found`},
		"too big for etcd":               {&apierrors.StatusError{ErrStatus: metav1.Status{Message: "etcdserver: request is too large"}}, "etcdserver: request is too large"},
		"a terminating namespace":        {terminating, `configmaps "app-1" is forbidden: unable to create new content in namespace x because it is being terminated`},
		"no answer at all":               {errors.New("connection refused"), "connection refused"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := withoutValues(test.err)
			if got.Error() != test.want {
				t.Errorf("says %q, want %q", got, test.want)
			}
			if apierrors.ReasonForError(got) != apierrors.ReasonForError(test.err) ||
				apierrors.HasStatusCause(got, corev1.NamespaceTerminatingCause) != apierrors.HasStatusCause(test.err, corev1.NamespaceTerminatingCause) {
				t.Error("it is another error now")
			}
			var status apierrors.APIStatus
			if errors.As(got, &status) {
				text := status.Status()
				if strings.Contains(text.String(), "canary") {
					t.Errorf("%s", text.String())
				}
			}
		})
	}
	if withoutValues(nil) != nil {
		t.Error("no error became one")
	}
}

// refusedBySomeone is how the API server passes on what an admission webhook of others says.
var refusedBySomeone = &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Message: `admission webhook "x.y" denied the request: canary`}}

// An eviction may be refused by a webhook or policy of others, too.
func TestErrorsOfSubresourcesRepeatNoValue(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
	part := discreet{fake.NewClientBuilder().WithObjects(pod).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			return refusedBySomeone
		},
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return refusedBySomeone
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return refusedBySomeone
		},
	}).Build()}.SubResource("eviction")
	for verb, err := range map[string]error{
		"create": part.Create(t.Context(), pod, &policyv1.Eviction{}), "update": part.Update(t.Context(), pod), "patch": part.Patch(t.Context(), pod, client.MergeFrom(pod)),
	} {
		if err == nil || strings.Contains(err.Error(), "canary") || !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// What the policy that confines confrev's own account says reaches the user, and a policy that only looks like it does not.
func TestARefusalOfConfinementStaysAsItIs(t *testing.T) {
	forbidden := func(text string) error {
		return withoutValues(apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", errors.New(text)))
	}
	const policy = "ValidatingAdmissionPolicy 'confrev-confine-spec.template' with binding 'confrev-confine-spec.template' denied request: "
	terminal, ok := errors.AsType[*notice.TerminalError](revision.ExplainRefusal(
		forbidden(policy + "confrev may not change spec.minReadySeconds, metadata.annotations.example.com/a")))
	if !ok || terminal.Reason != revision.ConfinementRefused || !strings.Contains(terminal.Text, "spec.minReadySeconds") {
		t.Errorf("says %v", terminal)
	}
	for _, other := range []string{policy + `confrev may not change "canary"`, "ValidatingAdmissionPolicy 'x' with binding 'x' denied request: canary"} {
		if text := forbidden(other).Error(); strings.Contains(text, "canary") {
			t.Errorf("%s repeats a value", text)
		}
	}
}
