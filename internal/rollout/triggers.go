package rollout

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
)

// Triggers looks at the objects of any kind that make workloads restart (confrev.io/restart-on). Only their metadata is
// cached; what matters of them is read when it is needed. Nothing of it is ever repeated (rule 19).
type Triggers struct {
	options Options
	client  client.Client
	live    client.Reader

	mu sync.Mutex
	// permitted are the resources that confrev was found to have the rights for.
	permitted map[schema.GroupVersionResource]bool
}

// FollowedKind is a kind of objects on which some workload restarts: as the API has it, and as confrev.io/restart-on names it.
type FollowedKind struct {
	GVK  schema.GroupVersionKind
	Kind pin.Kind
}

// NewTriggers returns Triggers that know of no object yet.
func NewTriggers(options Options, cl client.Client, live client.Reader) *Triggers {
	return &Triggers{options: options, client: cl, live: live, permitted: map[schema.GroupVersionResource]bool{}}
}

// restartsOn reports whether confrev.io/restart-on may name objects of a resource: confrev may read more than that, on
// no one's behalf.
func (o Options) restartsOn(resource schema.GroupResource) bool {
	return o.RestartOnAny || slices.Contains(o.RestartOn, resource)
}

// observe returns a hash of what matters of an object, and the kind to watch for changes to it. What is not listed, and a missing kind or right, is a TerminalError; a missing object is not found.
func (t *Triggers) observe(ctx context.Context, namespace string, trigger optin.Trigger) (hash string, followed FollowedKind, err error) {
	if !t.options.restartsOn(trigger.Resource.GroupResource()) {
		return "", followed, forbidden("follow", trigger.Resource)
	}
	gvk, err := t.client.RESTMapper().KindFor(trigger.Resource)
	if meta.IsNoMatchError(err) {
		return "", followed, &revision.TerminalError{Reason: optin.InvalidRestartOn, Message: fmt.Sprintf(
			"annotation %s: the API server does not serve %s", keys.RestartOn, trigger.Kind)}
	}
	if err != nil {
		return "", followed, err
	}
	mapping, err := t.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return "", followed, err
	}
	if mapping.Resource != trigger.Resource {
		// The API knows resources by their singular too; rights and indexes do not.
		return "", followed, &revision.TerminalError{Reason: optin.InvalidRestartOn, Message: fmt.Sprintf(
			"annotation %s: %s is not how the API calls it; write %s", keys.RestartOn, trigger.Kind, mapping.Resource.Resource)}
	}
	if err := t.permit(ctx, trigger.Resource); err != nil {
		return "", followed, err
	}
	followed = FollowedKind{gvk, trigger.Kind}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = ""
	}
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(gvk)
	err = t.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: trigger.Name}, obj)
	if apierrors.IsForbidden(err) {
		// The right was taken away.
		t.forget(trigger.Resource)
		return "", followed, forbidden("get", trigger.Resource)
	}
	if err != nil {
		return "", followed, err
	}
	hash, err = fingerprint(obj, trigger.Fields)
	return hash, followed, err
}

// permit makes sure that confrev may follow a resource.
func (t *Triggers) permit(ctx context.Context, resource schema.GroupVersionResource) error {
	t.mu.Lock()
	known := t.permitted[resource]
	t.mu.Unlock()
	if known {
		return nil
	}
	for _, verb := range []string{"get", "list", "watch"} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: verb, Group: resource.Group, Version: resource.Version, Resource: resource.Resource,
			},
		}}
		if err := t.client.Create(ctx, review); err != nil {
			return fmt.Errorf("ask for the right to %s %s: %w", verb, resource, err)
		}
		if !review.Status.Allowed {
			return forbidden(verb, resource)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.permitted[resource] = true
	return nil
}

func (t *Triggers) forget(resource schema.GroupVersionResource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.permitted, resource)
}

func forbidden(verb string, resource schema.GroupVersionResource) error {
	return &revision.TerminalError{Reason: notice.RestartOnForbidden, Message: fmt.Sprintf(
		"annotation %s: confrev may not %s %s; list them, by their plural, in the chart's value restartOn",
		keys.RestartOn, verb, resource.GroupResource())}
}

// maxFingerprinted is how much of one object is hashed, as JSON: what the API server takes of an object, and no more however
// many fields are named.
const maxFingerprinted = 2 << 20

// fingerprint hashes what matters of an object: the given fields, or all but metadata and status. What it covers must
// never change, since that would restart every workload.
func fingerprint(obj *unstructured.Unstructured, fields []optin.Field) (string, error) {
	sum := sha256.New()
	bounded := &boundedWriter{to: sum, left: maxFingerprinted}
	encoder := json.NewEncoder(bounded)
	var err error
	if len(fields) == 0 {
		whole := maps.Clone(obj.Object)
		delete(whole, "metadata")
		delete(whole, "status")
		err = encoder.Encode(whole)
	}
	for _, field := range fields {
		var values []string
		if values, err = find(obj, field); err == nil {
			err = encoder.Encode([]any{field, values})
		}
		if err != nil {
			break
		}
	}
	if errors.Is(err, errTooMuch) {
		return "", &revision.TerminalError{Reason: optin.InvalidRestartOn, Message: fmt.Sprintf(
			"annotation %s: what it names of %s %s is more than %d bytes; name fields that matter", keys.RestartOn, obj.GetKind(),
			obj.GetName(), maxFingerprinted)}
	}
	return content.Short(sum), err
}

// find returns the value of a field as JSON; none when the object does not have it.
func find(obj *unstructured.Unstructured, field optin.Field) ([]string, error) {
	value, found := field.Of(obj.Object)
	if !found {
		return nil, nil
	}
	text, err := json.Marshal(value)
	return []string{string(text)}, err
}

var errTooMuch = errors.New("more than may be written")

// boundedWriter takes so many bytes and no more.
type boundedWriter struct {
	to   io.Writer
	left int
}

func (w *boundedWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return 0, errTooMuch
	}
	w.left -= len(p)
	return w.to.Write(p)
}
