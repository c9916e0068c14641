package operator

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// discreet is a client whose errors repeat no value of any object (rule 19). Those of the API server may: it quotes values that it
// finds invalid, and admission webhooks and policies of others say whatever they like about what they refuse. Errors end up in
// events and in the log.
type discreet struct{ client.Client }

func newDiscreet(config *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.New(config, options)
	return discreet{c}, err
}

func (d discreet) Create(ctx context.Context, obj client.Object, options ...client.CreateOption) error {
	return withoutValues(d.Client.Create(ctx, obj, options...))
}

func (d discreet) Update(ctx context.Context, obj client.Object, options ...client.UpdateOption) error {
	return withoutValues(d.Client.Update(ctx, obj, options...))
}

func (d discreet) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	return withoutValues(d.Client.Patch(ctx, obj, patch, options...))
}

func (d discreet) Delete(ctx context.Context, obj client.Object, options ...client.DeleteOption) error {
	return withoutValues(d.Client.Delete(ctx, obj, options...))
}

// SubResource returns a client of a subresource, such as "eviction", whose errors are discreet as well.
func (d discreet) SubResource(name string) client.SubResourceClient {
	return discreetPart{d.Client.SubResource(name)}
}

type discreetPart struct{ client.SubResourceClient }

func (d discreetPart) Create(ctx context.Context, obj, part client.Object, options ...client.SubResourceCreateOption) error {
	return withoutValues(d.SubResourceClient.Create(ctx, obj, part, options...))
}

func (d discreetPart) Update(ctx context.Context, obj client.Object, options ...client.SubResourceUpdateOption) error {
	return withoutValues(d.SubResourceClient.Update(ctx, obj, options...))
}

func (d discreetPart) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	return withoutValues(d.SubResourceClient.Patch(ctx, obj, patch, options...))
}

// withoutValues returns an error of the same reason whose text names objects, fields, and who refused, and nothing else.
func withoutValues(err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	said := status.Status()
	said.Message = safeMessage(said)
	if said.Details != nil {
		said.Details = said.Details.DeepCopy()
		for i := range said.Details.Causes {
			said.Details.Causes[i].Message = ""
		}
	}
	return &apierrors.StatusError{ErrStatus: said}
}

// plainReasons are those whose messages the API server makes of names alone.
var plainReasons = []metav1.StatusReason{
	metav1.StatusReasonNotFound, metav1.StatusReasonAlreadyExists, metav1.StatusReasonConflict, metav1.StatusReasonUnauthorized,
	metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests, metav1.StatusReasonGone,
	metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonMethodNotAllowed,
}

// ours are the continuations of those messages of the API server that quote nothing: about rights, a quota, or a namespace that is being deleted.
var ours = []string{"User \"", "exceeded quota: ", "unable to create new content in namespace "}

// refuser is how messages begin of those who refuse, or fail to say anything.
var refuser = regexp.MustCompile(`^(?:[\w.-]+ "[\w.:-]*" is (?:forbidden|invalid): |Internal error occurred: )?` +
	`(?:admission webhook "[\w.-]+" denied the request|ValidatingAdmissionPolicy '[\w.-]+' with binding '[\w.-]+' denied request|` +
	`failed calling webhook "[\w.-]+")`)

// confinement is what the chart's own policy says that confines confrev's account: it names fields, and no value.
var confinement = regexp.MustCompile(`^[\w.-]+ "[\w.:-]*" is forbidden: ValidatingAdmissionPolicy '[\w.-]+-confine-[\w.-]+' with binding ` +
	`'[\w.-]+' denied request: confrev may not [\w.,/: -]+$`)

func safeMessage(said metav1.Status) string {
	message := said.Message
	if confinement.MatchString(message) {
		return message
	}
	// Who refused is named before what it says. It chooses the reason, too, so that says nothing about the text.
	if who := refuser.FindString(message); who != "" {
		return who
	}
	if slices.Contains(plainReasons, said.Reason) || strings.HasPrefix(message, "etcdserver: ") {
		return message
	}
	if said.Reason == metav1.StatusReasonInvalid {
		return invalidFields(said)
	}
	if _, why, found := strings.Cut(message, " is forbidden: "); found && slices.ContainsFunc(ours, func(begin string) bool { return strings.HasPrefix(why, begin) }) {
		return message
	}
	return fmt.Sprintf("the API server refused it (%s)", said.Reason)
}

func invalidFields(said metav1.Status) string {
	if said.Details == nil {
		return "it is invalid"
	}
	var fields []string
	for _, cause := range said.Details.Causes {
		fields = append(fields, cause.Field)
	}
	return fmt.Sprintf("%s %q is invalid: %s", said.Details.Kind, said.Details.Name, strings.Join(fields, ", "))
}
