// Package trigger reads the objects of any kind on which workloads restart (confrev.io/restart-on, rule 19), as far as confrev may. Only their
// metadata is cached; their content is read when it is needed, and is never repeated.
package trigger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// Limits are what may be read.
type Limits struct {
	// Listed are the resources that confrev.io/restart-on may name, other than ConfigMaps and Secrets; Any allows all of them.
	Listed []schema.GroupResource
	Any    bool
	// Namespaced is true if confrev is limited to single namespaces, and Within is the one in which this reader reads.
	Namespaced bool
	Within     string
}

// Reader reads the objects that make workloads restart.
type Reader struct {
	limits Limits
	client client.Client
	live   client.Reader

	mu sync.Mutex
	// permitted are the resources for which the API server has confirmed confrev's rights.
	permitted map[schema.GroupVersionResource]bool
}

// Kind is a kind of objects on which some workload restarts: as the API has it, and as confrev.io/restart-on names it.
type Kind struct {
	GVK  schema.GroupVersionKind
	Kind pin.Kind
}

// New returns a Reader that has not asked for any right yet.
func New(limits Limits, cl client.Client, live client.Reader) *Reader {
	return &Reader{limits: limits, client: cl, live: live, permitted: map[schema.GroupVersionResource]bool{}}
}

// Prepared is a trigger of which confrev knows the kind and may read the objects.
type Prepared struct {
	optin.Trigger
	gvk        schema.GroupVersionKind
	namespaced bool
}

// Followed returns the kind of the objects.
func (p Prepared) Followed() Kind { return Kind{p.gvk, p.Kind} }

// Prepare finds the kind of a trigger and checks confrev's rights on it. It returns a terminal error if the kind is not listed or does not
// exist, or if a right is missing.
func (t *Reader) Prepare(ctx context.Context, trigger optin.Trigger) (Prepared, error) {
	none := Prepared{}
	if !t.limits.Any && !slices.Contains(t.limits.Listed, trigger.Resource.GroupResource()) {
		// confrev may read more than what is listed, but on no one's behalf.
		return none, forbidden("follow", trigger.Resource)
	}
	gvk, err := t.client.RESTMapper().KindFor(trigger.Resource)
	if meta.IsNoMatchError(err) {
		return none, notice.Terminal(optin.InvalidRestartOn, "annotation %s: the API server does not serve %s", keys.RestartOn, trigger.Kind)
	}
	if err != nil {
		return none, err
	}
	mapping, err := t.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return none, err
	}
	if mapping.Resource != trigger.Resource {
		// The API knows resources by their singular too; rights and indexes do not.
		return none, notice.Terminal(optin.InvalidRestartOn, "annotation %s: %s is not how the API calls it; write %s", keys.RestartOn, trigger.Kind, mapping.Resource.Resource)
	}
	namespaced := mapping.Scope.Name() != meta.RESTScopeNameRoot
	if !namespaced && t.limits.Namespaced {
		return none, notice.Terminal(notice.RestartOnForbidden, "annotation %s: %s is in no namespace, and confrev is limited to single namespaces", keys.RestartOn, trigger.Kind)
	}
	if err := t.permit(ctx, trigger.Resource, gvk); err != nil {
		return none, err
	}
	return Prepared{trigger, gvk, namespaced}, nil
}

// Read returns a hash of the parts of an object that count. The error is NotFound if the object does not exist.
func (t *Reader) Read(ctx context.Context, namespace string, trigger Prepared) (string, error) {
	if !trigger.namespaced {
		namespace = ""
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(trigger.gvk)
	err := t.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: trigger.Name}, obj)
	if apierrors.IsForbidden(err) {
		// The right was removed.
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.permitted, trigger.Resource)
		return "", forbidden("get", trigger.Resource)
	}
	if err != nil {
		return "", err
	}
	return fingerprint(obj, trigger.Fields)
}

// permit checks that confrev may follow a resource, and can: of objects that the API server fails to list, as it does without their conversion webhook, the
// cache would never be complete, and changes not arrive.
func (t *Reader) permit(ctx context.Context, resource schema.GroupVersionResource, gvk schema.GroupVersionKind) error {
	t.mu.Lock()
	known := t.permitted[resource]
	t.mu.Unlock()
	if known {
		return nil
	}
	for _, verb := range []string{"get", "list", "watch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: t.limits.Within, Verb: verb, Group: resource.Group, Version: resource.Version, Resource: resource.Resource,
			},
		}}
		if err := t.client.Create(ctx, review); err != nil {
			return fmt.Errorf("ask for the right to %s %s: %w", verb, resource, err)
		}
		if !review.Status.Allowed {
			return forbidden(verb, resource)
		}
	}
	err := t.live.List(ctx, metadata.NewList(gvk), client.InNamespace(t.limits.Within), client.Limit(1))
	if apierrors.IsForbidden(err) {
		return forbidden("list", resource)
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", resource.GroupResource(), err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.permitted[resource] = true
	return nil
}

func forbidden(verb string, resource schema.GroupVersionResource) error {
	return notice.Terminal(notice.RestartOnForbidden, "annotation %s: confrev may not %s %s; list them, by their plural, in the chart's value restartOn",
		keys.RestartOn, verb, resource.GroupResource())
}

// maxFingerprinted is how many bytes of one object are hashed, as JSON: as many as the API server accepts of an object, however many fields
// are listed.
const maxFingerprinted = 2 << 20

// fingerprint hashes the parts of an object that count: the given fields, or everything except metadata and status. What it covers must
// never change, because that would restart every workload.
func fingerprint(obj *unstructured.Unstructured, fields []optin.Field) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	var err error
	if len(fields) == 0 {
		whole := maps.Clone(obj.Object)
		delete(whole, "metadata")
		delete(whole, "status")
		err = encoder.Encode(whole)
	}
	for _, field := range fields {
		// The value as JSON; null when the object does not have the field.
		var values []string
		if value, found := field.Of(obj.Object); found {
			var encoded []byte
			if encoded, err = json.Marshal(value); err != nil {
				break
			}
			values = []string{string(encoded)}
		}
		if err = encoder.Encode([]any{field, values}); err != nil || text.Len() > maxFingerprinted {
			break
		}
	}
	if text.Len() > maxFingerprinted {
		return "", notice.Terminal(optin.InvalidRestartOn, "annotation %s: what it names of %s %s is more than %d bytes; name fields that matter", keys.RestartOn, obj.GetKind(),
			obj.GetName(), maxFingerprinted)
	}
	sum := sha256.New()
	sum.Write(text.Bytes())
	return content.Short(sum), err
}
