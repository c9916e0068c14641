package rollout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
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
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
)

// Triggers reads the objects of any kind that make workloads restart (confrev.io/restart-on). Only their metadata is cached; their content is
// read when it is needed, and is never repeated (rule 19).
type Triggers struct {
	options Options
	client  client.Client
	live    client.Reader

	mu sync.Mutex
	// permitted are the resources for which the API server has confirmed confrev's rights.
	permitted map[schema.GroupVersionResource]bool
}

// FollowedKind is a kind of objects on which some workload restarts: as the API has it, and as confrev.io/restart-on names it.
type FollowedKind struct {
	GVK  schema.GroupVersionKind
	Kind pin.Kind
}

// NewTriggers returns Triggers without any known objects.
func NewTriggers(options Options, cl client.Client, live client.Reader) *Triggers {
	return &Triggers{options: options, client: cl, live: live, permitted: map[schema.GroupVersionResource]bool{}}
}

// missingTrigger is the warning that an object does not exist.
const missingTrigger = "annotation %s names %s, which does not exist; the workload restarts when it appears"

// readTriggers reads the objects of other kinds that make the workload restart, each after making sure that confrev may read and watch it,
// and warns about those that it may not.
func (r *Engine) readTriggers(ctx context.Context, seen *observed) error {
	var errs []error
	for _, trigger := range seen.config.RestartOn {
		if trigger.IsSource() {
			continue
		}
		err := r.readTrigger(ctx, seen, trigger)
		if terminal, ok := errors.AsType[*notice.TerminalError](err); ok {
			seen.warnings = append(seen.warnings, terminal.About(trigger.Source))
			seen.retry = true
			continue
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (r *Engine) readTrigger(ctx context.Context, seen *observed, trigger optin.Trigger) error {
	prepared, err := r.Triggers.prepare(ctx, trigger)
	if err != nil {
		return err
	}
	seen.triggers = append(seen.triggers, FollowedKind{prepared.gvk, trigger.Kind})
	hash, err := r.Triggers.read(ctx, seen.namespace, prepared)
	var key *content.Key
	if err == nil {
		// An object that does not exist needs no key.
		key, err = r.Store.Key(ctx, seen.namespace)
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		seen.warn(notice.SourceMissing, trigger.Source, missingTrigger, keys.RestartOn, trigger.Source)
	}
	seen.contents[trigger.Source] = contents{
		plan.Source{Present: err == nil, Name: key.Sum(trigger.Source, hash), Scheme: key.Scheme()}, hash,
	}
	return nil
}

// preparedTrigger is a trigger of which confrev knows the kind and may read the objects.
type preparedTrigger struct {
	optin.Trigger
	gvk        schema.GroupVersionKind
	namespaced bool
}

// prepare finds the kind of a trigger and checks confrev's rights on it. It returns a terminal error if the kind is not listed or does not
// exist, or if a right is missing.
func (t *Triggers) prepare(ctx context.Context, trigger optin.Trigger) (preparedTrigger, error) {
	none := preparedTrigger{}
	if !t.options.RestartOnAny && !slices.Contains(t.options.RestartOn, trigger.Resource.GroupResource()) {
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
	if !namespaced && t.options.Namespaced() {
		return none, notice.Terminal(notice.RestartOnForbidden, "annotation %s: %s is in no namespace, and confrev is limited to single namespaces", keys.RestartOn, trigger.Kind)
	}
	if err := t.permit(ctx, trigger.Resource); err != nil {
		return none, err
	}
	return preparedTrigger{trigger, gvk, namespaced}, nil
}

// read returns a hash of the parts of an object that count. The error is NotFound if the object does not exist.
func (t *Triggers) read(ctx context.Context, namespace string, trigger preparedTrigger) (string, error) {
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

// permit checks that confrev may follow a resource.
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
				Namespace: t.options.Within(), Verb: verb, Group: resource.Group, Version: resource.Version, Resource: resource.Resource,
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
