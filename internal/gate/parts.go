package gate

import (
	"context"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/metadata"
)

// ResolvePins is the suffix of the names of the chart's objects that resolve pins.
const ResolvePins = "-resolve-pins"

const refuseUnresolved = "-refuse-unresolved-pins"

// Part is an admission object of the chart without which pins have no effect, or no reliable effect.
type Part struct {
	Kind, Suffix string
	// Without says what happens while the object is missing.
	Without string
}

const readsSources = "pins have no effect: pods read the sources themselves"

var (
	// ByPolicy are the parts that resolve pins in the API server.
	ByPolicy = []Part{{"MutatingAdmissionPolicy", ResolvePins, readsSources}, {"MutatingAdmissionPolicyBinding", ResolvePins, readsSources}}
	// ByWebhook is the part that makes the API server call confrev to resolve pins.
	ByWebhook = Part{"MutatingWebhookConfiguration", ResolvePins, readsSources}
	// Refusing are the parts that refuse pods whose pins were not resolved.
	Refusing = []Part{
		{"ValidatingAdmissionPolicy", refuseUnresolved, "pods whose pins were not applied are not refused"},
		{"ValidatingAdmissionPolicyBinding", refuseUnresolved, "pods whose pins were not applied are not refused"},
	}
)

// GVK returns the API kind of a part.
func (p Part) GVK() schema.GroupVersionKind {
	return admissionregistrationv1.SchemeGroupVersion.WithKind(p.Kind)
}

// ResolvesPins reports whether any release of the chart resolves pins when pods are created, with policies or with confrev's
// webhook. It is for callers that only read; the controller pins only while its Gate is open.
func ResolvesPins(ctx context.Context, c client.Reader) (bool, error) {
	webhook, err := ByWebhook.isThere(ctx, c)
	if err != nil || webhook {
		return webhook, err
	}
	for _, part := range ByPolicy {
		if there, err := part.isThere(ctx, c); err != nil || !there {
			return false, err
		}
	}
	return true, nil
}

// isThere reports whether any release of the chart has installed a part.
func (p Part) isThere(ctx context.Context, c client.Reader) (bool, error) {
	list := metadata.NewList(p.GVK())
	err := c.List(ctx, list)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	for i := range list.Items {
		if strings.HasSuffix(list.Items[i].Name, p.Suffix) {
			return true, err
		}
	}
	return false, err
}
