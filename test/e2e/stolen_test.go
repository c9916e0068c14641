//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/env"
)

// stolen is a client with confrev's rights, whose writes are dry runs.
type stolen struct {
	client.Client
	*arena
	// before are the objects of the arena, may is what docs/security.md lists, and seen what was let through of it.
	before          map[string]*unstructured.Unstructured
	may             map[string]map[string]bool
	seen            map[string]map[string]bool
	tried, let, bad int
}

// stealToken returns a client with confrev's name and groups, and so with its rights.
func stealToken(t *testing.T) client.Client {
	t.Helper()
	return stealTokenOf(t, env.Namespace)
}

// stealTokenOf does what stealToken does for the release in another namespace.
func stealTokenOf(t *testing.T, namespace string) client.Client {
	t.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":confrev",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// judge compares what the API server let the token make of an object with the list.
func (s *stolen) judge(before, after *unstructured.Unstructured) {
	s.let++
	sort := sortOf(after)
	if before != nil {
		sort = sortOf(before)
	}
	for _, effect := range effectsOf(before, after) {
		s.note(sort, effect, after.GetKind()+"/"+after.GetName())
	}
}

func (s *stolen) note(sort, effect, object string) {
	if s.seen[sort] == nil {
		s.seen[sort] = map[string]bool{}
	}
	s.seen[sort][effect] = true
	if !s.may[sort][effect] {
		s.bad++
		s.Errorf("the token may %q of %s, a %s, which docs/security.md does not list", effect, object, sort)
	}
}

// Patch, Create and the others judge what is let through. Nothing changes by them.
func (s *stolen) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	s.tried++
	for {
		patched := obj.DeepCopyObject().(client.Object)
		if err := s.Client.Patch(ctx, patched, patch, options...); err != nil {
			return err
		}
		after := unstructuredOf(s.T, patched)
		if before, patched := s.beforeOf(after); patched {
			s.judge(before, after)
			return nil
		}
	}
}

// beforeOf returns what an object was before a patch. Controllers write to it meanwhile: it returns false when it has changed since.
func (s *stolen) beforeOf(after *unstructured.Unstructured) (*unstructured.Unstructured, bool) {
	s.Helper()
	key := after.GetKind() + "/" + after.GetName()
	before, known := s.before[key]
	if !known {
		return nil, true
	}
	// A dry run returns the version that it patched.
	if before.GetResourceVersion() != after.GetResourceVersion() {
		before = unstructuredOf(s.T, s.object(strings.ToLower(key)))
		s.before[key] = before
	}
	return before, before.GetResourceVersion() == after.GetResourceVersion()
}

func (s *stolen) Create(ctx context.Context, obj client.Object, options ...client.CreateOption) error {
	s.tried++
	err := s.Client.Create(ctx, obj, options...)
	if err == nil {
		s.judge(nil, unstructuredOf(s.T, obj))
	}
	return err
}

// remove tries to delete an object, replace to write it as a whole.
func (s *stolen) remove(obj *unstructured.Unstructured) {
	s.Helper()
	s.tried++
	if s.Delete(s.Ctx, obj.DeepCopy()) == nil {
		s.let++
		s.note(sortOf(obj), "delete", obj.GetKind()+"/"+obj.GetName())
	}
}

func (s *stolen) replace(obj *unstructured.Unstructured) {
	s.Helper()
	s.tried++
	if s.Update(s.Ctx, obj.DeepCopy()) == nil {
		s.Errorf("the token may write %s/%s as a whole", obj.GetKind(), obj.GetName())
	}
}

func unstructuredOf(t *testing.T, obj client.Object) *unstructured.Unstructured {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &u.Object); err != nil {
		t.Fatal(err)
	}
	gvk, err := apiutil.GVKForObject(obj, clientgoscheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	u.SetGroupVersionKind(gvk)
	return u
}

// Anyone who has confrev's token tries what the other adversaries try and, of every object of the arena, each key and each other thing that
// an object has. What the API server lets through is what docs/security.md lists, and all of that.
func TestStolenTokenDoesOnlyWhatIsListed(t *testing.T) {
	t.Parallel()
	s := &stolen{Client: client.NewDryRunClient(stealToken(t)), arena: newArena(t, adversary{name: "has confrev's own token", role: "view"}),
		before: map[string]*unstructured.Unstructured{}, may: mayWrite(t), seen: map[string]map[string]bool{}}
	made := s.PinOf("web", "victim").Revision
	s.WaitOwned(made, "web")
	protected := configMap("protected", "k", "v")
	protected.Annotations = map[string]string{keys.Attach: "true", keys.Protect: "true"}
	s.arena.Create(protected, deployment("waiting", envFrom("absent")))
	s.Barrier()
	// The first has a pause of confrev's, which ends by itself.
	targets := []string{"deployment/waiting", "configmap/plain", "configmap/victim", "configmap/attached", "configmap/protected", "configmap/" + made,
		"secret/victim-secret", "deployment/web", "deployment/attaching", "deployment/bystander"}
	for _, target := range targets {
		if name, is := strings.CutPrefix(target, "deployment/"); is {
			s.waitObserved(name)
		}
		obj := s.object(target)
		s.before[obj.GetKind()+"/"+obj.GetName()] = unstructuredOf(t, obj)
	}
	// What others write from now on is not the token's doing.
	s.Kubectl("annotate", "deployment/waiting", "example.com/written=meanwhile")
	all := append(s.everything(targets[0]), s.attempts()...)
	for _, target := range targets[1:] {
		all = append(all, s.everything(target)...)
	}
	all = append(all, s.madeUp()...)
	for _, attempt := range all {
		// What is refused is as it should be; what is not was judged.
		_ = attempt.send(s.Ctx, s)
	}
	for _, obj := range s.before {
		s.remove(obj)
		s.replace(obj)
	}
	s.wantSeen()
	fmt.Fprintf(os.Stderr, "e2e: adversary %s: %d operations tried, %d let through, %d escalations\n", s.name, s.tried, s.let, s.bad)
}

// waitObserved waits until the deployment controller has seen a Deployment: it then has all annotations that it gets from there.
func (s *stolen) waitObserved(name string) {
	s.Helper()
	s.Eventually("the deployment controller has seen "+name, func() string {
		if d := s.Deployment(name); d.Status.ObservedGeneration < d.Generation {
			return fmt.Sprintf("it has seen generation %d, not yet %d", d.Status.ObservedGeneration, d.Generation)
		}
		return ""
	})
}

// wantSeen complains of what docs/security.md lists, and the API server let through in no form.
func (s *stolen) wantSeen() {
	s.Helper()
	for _, sort := range []string{optedIn, aSource, toAttach, aRevision, theAnchor} {
		for effect := range s.may[sort] {
			other := strings.Replace(effect, "set ", "remove ", 1)
			if other == effect {
				other = strings.Replace(effect, "remove ", "set ", 1)
			}
			// confrev takes these away at once where they stand, and no one else can put them there for it.
			cleared := sort == aSource && (strings.HasSuffix(effect, keys.Attached) || strings.HasSuffix(effect, keys.Protect))
			if !cleared && !s.seen[sort][effect] && !s.seen[sort][other] {
				s.Errorf("docs/security.md says that the token may %q of a %s: nothing of the kind was let through", effect, sort)
			}
		}
	}
}

// object reads an object of the arena, given as kind/name.
func (a *arena) object(target string) *unstructured.Unstructured {
	a.Helper()
	obj := a.blank(target)
	a.Must(a.Get(obj.GetName(), obj))
	return obj
}

// everything returns each key with some claims, and removed, on an object and on its pod template; and each other thing that it has.
func (a *arena) everything(target string) []attempt {
	a.Helper()
	var all []attempt
	// A pause of confrev's ends by itself: what is tried on that comes before all else.
	rest := []string{`"data":{"key":"eA=="}`, `"data":null`, `"binaryData":{"x":"eA=="}`, `"immutable":true`, `"immutable":null`, `"type":"other"`}
	if strings.HasPrefix(target, "deployment/") {
		rest = []string{
			`"spec":{"paused":null},"metadata":{"annotations":{"confrev.io/paused":null}}`, `"spec":{"paused":true}`, `"spec":{"replicas":9}`, `"spec":{"minReadySeconds":9}`,
			`"spec":{"strategy":null}`, `"spec":{"revisionHistoryLimit":0}`, `"spec":{"template":{"spec":{"serviceAccountName":"default"}}}`,
			`"spec":{"template":{"spec":{"hostNetwork":true}}}`, `"spec":{"template":{"spec":{"containers":[{"name":"app","image":"evil"}]}}}`,
		}
	}
	for _, patch := range rest {
		all = append(all, a.patches(target, "{"+patch+"}"))
	}
	for _, key := range append(declaredKeys(a.T), "example.com/note") {
		for _, value := range []string{`"true"`, "null"} {
			for _, on := range []string{"annotations", "labels"} {
				meta := fmt.Sprintf(`{"metadata":{%q:{%q:%s}}}`, on, key, value)
				all = append(all, a.patches(target, meta))
				if strings.HasPrefix(target, "deployment/") {
					all = append(all, a.patches(target, `{"spec":{"template":`+meta+`}}`))
				}
			}
		}
	}
	for _, meta := range []string{
		`"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"dead"}]`, `"ownerReferences":null`,
		`"finalizers":["example.com/stay"]`, `"finalizers":["confrev.io/protect"]`, `"finalizers":null`, `"generateName":"x"`,
	} {
		all = append(all, a.patches(target, `{"metadata":{`+meta+`}}`))
	}
	return all
}

// madeUp returns objects in the form of revisions and of the anchor, each with one thing more.
func (a *arena) madeUp() []attempt {
	a.Helper()
	var all []attempt
	create := func(obj client.Object) {
		obj.SetNamespace(a.NS)
		all = append(all, attempt{"create " + obj.GetName(), func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, obj.DeepCopyObject().(client.Object))
		}})
	}
	anchor := configMap(revision.AnchorName)
	anchor.Annotations = map[string]string{keys.Anchor: "true"}
	full := anchor.DeepCopy()
	full.Data = map[string]string{"key": "value"}
	create(anchor)
	create(full)
	for i, key := range append(declaredKeys(a.T), "example.com/note") {
		for _, on := range []string{"annotations", "labels"} {
			obj := forged(trueName("victim", "key", fmt.Sprint(on, i)), "victim", hashOf("key", fmt.Sprint(on, i)), nil, "key", fmt.Sprint(on, i))
			into := obj.Annotations
			if on == "labels" {
				into = obj.Labels
			}
			// The hash of a Secret is keyed.
			secretLike := &corev1.Secret{ObjectMeta: *obj.ObjectMeta.DeepCopy(), Immutable: new(true)}
			secretLike.Labels[keys.Content] = "k1-abcdefg" + strings.TrimPrefix(secretLike.Labels[keys.Content], "v1")
			into[key] = "1"
			create(obj)
			if into = secretLike.Annotations; on == "labels" {
				into = secretLike.Labels
			}
			into[key] = "1"
			create(secretLike)
			marked := anchor.DeepCopy()
			marked.Labels = map[string]string{key: "1"}
			create(marked)
		}
	}
	owned := forged(trueName("victim", "key", "owned"), "victim", hashOf("key", "owned"), nil, "key", "owned")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "dead"}}
	create(owned)
	held := owned.DeepCopy()
	held.Finalizers = []string{keys.Protect}
	create(held)
	return all
}

// The token has the rights that the chart gives, wherever it is used, and what Kubernetes gives everyone.
func TestStolenTokenHasTheRightsOfTheChart(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), stealToken(t)
	granted, err := cluster.Granted(w.Ctx)
	w.Must(err)
	given := map[string]bool{}
	for _, right := range granted {
		given[right.String()] = true
	}
	for _, namespace := range []string{w.NS, metav1.NamespaceSystem, env.Namespace} {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
		w.Must(c.Create(w.Ctx, review))
		if review.Status.Incomplete || len(review.Status.ResourceRules) < 5 {
			t.Fatalf("the API server does not say everything: %+v", review.Status)
		}
		for _, rule := range review.Status.ResourceRules {
			for _, right := range env.RightsOf(rbacv1.PolicyRule{APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames, Verbs: rule.Verbs}) {
				if !given[right.String()] && !slices.Contains(everyones, right.String()) {
					t.Errorf("in %s the token may %s", namespace, right)
				}
			}
		}
	}
}

// everyones are what Kubernetes lets every user do.
var everyones = []string{
	"create selfsubjectaccessreviews.authorization.k8s.io", "create selfsubjectrulesreviews.authorization.k8s.io", "create selfsubjectreviews.authentication.k8s.io",
}
