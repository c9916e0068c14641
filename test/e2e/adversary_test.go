//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// adversary is someone with some rights in a namespace. What they try there is made from the keys that internal/keys declares, so
// that a new key is tried as well.
type adversary struct {
	// name is that of docs/security.md.
	name string
	// role is a ClusterRole of Kubernetes, or rules are rights of the adversary's own.
	role  string
	rules []rbacv1.PolicyRule
}

var adversaries = []adversary{
	{name: "may read everything in a namespace but Secrets (ClusterRole `view`)", role: "view"},
	{name: "may edit everything in a namespace (ClusterRole `edit`)", role: "edit"},
	{name: "may only patch ConfigMaps", rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"patch"}}}},
	{name: "may only create ConfigMaps", rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}}},
	{name: "may only create Argo Rollouts", rules: []rbacv1.PolicyRule{{APIGroups: []string{"argoproj.io"}, Resources: []string{"rollouts"}, Verbs: []string{"create"}}}},
}

// declaredKeys are all labels and annotations that internal/keys declares, read from its source.
func declaredKeys(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(env.Root(), "internal/keys/keys.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if _, after, found := strings.Cut(line, `= Prefix + "`); found {
			key, _, _ := strings.Cut(after, `"`)
			if !slices.Contains(all, keys.Prefix+key) {
				all = append(all, keys.Prefix+key)
			}
		}
	}
	if len(all) < 20 || !slices.Contains(all, keys.Track) {
		t.Fatalf("found only %v", all)
	}
	return append(all, "configmap.kubernetes.io/revision-managed", keys.ChangeCause)
}

// claims are values that each key is tried with: what opts in, what names another's object, what pretends to be confrev's own.
func claims(uid, other string) []string {
	return []string{
		"true", "all", "attach", "configmap/" + other, "configmap/victim=" + other + "@9", "secret/victim-secret", "v1-" + strings.Repeat("b", 52),
		"victim", uid + "/1", "2999-01-01T00:00:00Z", "99", "namespaces.v1/kube-system{.metadata.uid}",
	}
}

// attempt is one request of an adversary.
type attempt struct {
	what string
	send func(context.Context, client.Client) error
}

// arena is a namespace with a victim of each sort, which an adversary acts in.
type arena struct {
	*world
	adversary
	user  string
	tried int
}

func newArena(t *testing.T, a adversary) *arena {
	t.Helper()
	ar := &arena{world: newWorld(t), adversary: a}
	ar.user = "adversary-" + ar.ns
	// Two workloads of people who opted in, and objects that no one gave to confrev.
	used, plain, kept := configMap("victim", "key", "A"), configMap("plain", "key", "A"), configMap("attached", "key", "A")
	kept.Annotations = map[string]string{keys.Attach: "true"}
	attaching := deployment("attaching", envFrom("attached"))
	attaching.Annotations = map[string]string{keys.Mode: "attach"}
	bystander := deployment("bystander", envFrom("plain"))
	bystander.Annotations = nil
	ar.create(used, plain, kept, secret("victim-secret", corev1.SecretTypeOpaque, "key", "A"),
		deployment("web", envFrom("victim")), attaching, bystander)
	ar.waitPinned("web", "victim", "key", "A")
	if a.role != "" {
		ar.kubectl("create", "rolebinding", "adversary", "--clusterrole="+a.role, "--user="+ar.user)
		return ar
	}
	ar.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "adversary"}, Rules: a.rules})
	ar.kubectl("create", "rolebinding", "adversary", "--role=adversary", "--user="+ar.user)
	return ar
}

// attempts are all that the adversary tries: each key with each claim as annotation and label of each object, owners, and forged
// revisions and anchors, by patch and by create.
func (a *arena) attempts() []attempt {
	a.Helper()
	web := a.deployment("web")
	var all []attempt
	claimed := claims(string(web.UID), "plain")
	for _, key := range declaredKeys(a.T) {
		for i, claim := range claimed {
			for _, on := range []string{"annotations", "labels"} {
				patch := fmt.Sprintf(`{"metadata":{%q:{%q:%q}}}`, on, key, claim)
				for _, target := range []string{"configmap/plain", "configmap/victim", "deployment/bystander"} {
					all = append(all, a.patches(target, patch))
				}
				if i%3 == 0 {
					all = append(all, a.creates(fmt.Sprintf("forged-%d-%s", i, strings.ReplaceAll(strings.TrimPrefix(key, keys.Prefix), "/", "-")), on, key, claim)...)
				}
			}
		}
	}
	owner := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":%q}`, web.UID)
	dead := `{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"dead"}`
	for _, target := range []string{"configmap/plain", "configmap/victim", "configmap/attached", "secret/victim-secret"} {
		for _, references := range []string{owner, dead} {
			all = append(all, a.patches(target, `{"metadata":{"ownerReferences":[`+references+`]}}`))
		}
	}
	return append(all, a.patches("configmap/victim", `{"data":{"key":"B"}}`), a.patches("configmap/plain", `{"data":{"key":"B"}}`))
}

func (a *arena) patches(target, patch string) attempt {
	return attempt{target + " " + patch, func(ctx context.Context, c client.Client) error {
		kind, name, _ := strings.Cut(target, "/")
		obj := &metav1.PartialObjectMetadata{}
		switch kind {
		case "configmap":
			obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		case "secret":
			obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		default:
			obj.SetGroupVersionKind(deploymentKind)
		}
		obj.Namespace, obj.Name = a.ns, name
		return c.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(patch)))
	}}
}

// creates makes a ConfigMap and a Rollout with a key.
func (a *arena) creates(name, on, key, claim string) []attempt {
	meta := metav1.ObjectMeta{Namespace: a.ns, Name: name + "-" + on}
	if on == "labels" {
		meta.Labels = map[string]string{key: claim}
	} else {
		meta.Annotations = map[string]string{key: claim, keys.SourceName: "victim"}
		meta.Labels = map[string]string{keys.Content: "v1-" + strings.Repeat("b", 52)}
	}
	forged := &corev1.ConfigMap{ObjectMeta: meta, Immutable: new(true), Data: map[string]string{"key": "forged"}}
	rollout := objectOf(rolloutKind, meta.Name, scaled(strategy("canary", map[string]any{}))(meta.Name, everyForm(meta.Name, "plain", "victim-secret")))
	rollout.SetNamespace(a.ns)
	put(rollout.Object, "spec.replicas", int64(0))
	rollout.SetAnnotations(meta.Annotations)
	rollout.SetLabels(map[string]string{key: claim})
	return []attempt{
		{"create configmap " + key, func(ctx context.Context, c client.Client) error { return c.Create(ctx, forged) }},
		{"create rollout " + key, func(ctx context.Context, c client.Client) error { return c.Create(ctx, rollout) }},
	}
}

// act tries everything, and returns how much the API server let through.
func (a *arena) act() (allowed int) {
	a.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: a.user, Groups: []string{"system:authenticated"}}
	c, err := client.New(config, client.Options{Scheme: cluster.Client.Scheme()})
	a.must(err)
	for _, attempt := range a.attempts() {
		a.tried++
		if attempt.send(a.ctx, c) == nil {
			allowed++
		}
	}
	return allowed
}

// done is one thing that confrev did.
type done struct{ verb, group, resource string }

func (d done) String() string {
	if d.group == webApp.Group {
		return d.verb + " configured-kinds"
	}
	return d.verb + " " + d.resource
}

// consequences are what confrev did in the namespace since a mark, writing or reading single objects, but for events.
func (a *arena) consequences(since env.AuditMark) []done {
	a.Helper()
	requests, err := cluster.ConfrevRequests(since)
	a.must(err)
	seen := map[done]bool{}
	for _, r := range requests {
		if r.Object.Namespace == a.ns && r.Object.Resource != "events" && r.Response.Code < 300 {
			seen[done{r.Verb, r.Object.Group, r.Object.Resource}] = true
		}
	}
	return slices.Collect(maps.Keys(seen))
}

// may reports whether the adversary has a right by itself.
func (a *arena) may(d done) bool {
	a.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: a.user, Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: a.ns, Verb: d.verb, Group: d.group, Resource: d.resource},
	}}
	a.must(cluster.Client.Create(a.ctx, review))
	return review.Status.Allowed
}

// exceptions reads docs/security.md: what confrev does for each principal, in the form "patch configmaps".
func exceptions(t *testing.T) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(env.Root(), "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Exceptions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	all := map[string]map[string]bool{}
	for row := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(row, " | ")
		if len(cells) != 4 || !strings.HasPrefix(row, "| `") {
			continue
		}
		if all[cells[1]] == nil {
			all[cells[1]] = map[string]bool{}
		}
		for part := range strings.SplitSeq(cells[2], "; ") {
			words := strings.Fields(strings.ReplaceAll(part, ",", ""))
			for _, verb := range words[:len(words)-1] {
				all[cells[1]][verb+" "+words[len(words)-1]] = true
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("docs/security.md lists no exceptions: the test reads it wrongly")
	}
	return all
}

// confrev does nothing for anyone that they could not do themselves, but for the exceptions that docs/security.md lists. Not parallel:
// the restarts of others would end the wait early.
func TestNobodyGainsARightThroughConfrev(t *testing.T) {
	listed := exceptions(t)
	for _, adversary := range adversaries {
		t.Run(adversary.name, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, adversary)
			a.settleDown()
			used := a.pinOf("web", "victim").Revision
			mark, err := cluster.AuditNow()
			a.must(err)
			allowed := a.act()
			// Past settling, and the grace of what is unused.
			a.settleDown()
			escalations := 0
			for _, d := range a.consequences(mark) {
				if a.may(d) || listed[adversary.name][d.String()] || listed["anyone"][d.String()] {
					continue
				}
				escalations++
				t.Errorf("confrev did %q for one who %s and may not, and docs/security.md lists no such exception", d, adversary.name)
			}
			if adversary.role != "view" && allowed == 0 {
				t.Error("nothing was let through: this test shows nothing")
			}
			a.unharmed(used)
			fmt.Fprintf(os.Stderr, "e2e: adversary %s: %d operations tried, %d let through, %d escalations\n", adversary.name, a.tried, allowed, escalations)
		})
	}
}

// settleDown waits until whatever an attempt set off must have happened: what is made now has gone through all of confrev's waits.
func (a *arena) settleDown() {
	a.Helper()
	elsewhere := newWorld(a.T)
	forgotten := orphan()
	elsewhere.create(forgotten, configMap("last", "key", "A"), deployment("last", envFrom("last")))
	elsewhere.waitPinned("last", "last", "key", "A")
	elsewhere.waitGone(forgotten.Name)
}

// unharmed looks at what no one gave to confrev. Who may delete it may have done so, by a dead owner for instance.
func (a *arena) unharmed(used string) {
	a.Helper()
	for _, name := range []string{"victim", "plain", "attached", used} {
		if a.gone(name) && !a.may(done{"delete", "", "configmaps"}) {
			a.Errorf("configmap %s is gone", name)
		}
	}
	if a.secretGone("victim-secret") && !a.may(done{"delete", "", "secrets"}) {
		a.Error("secret victim-secret is gone")
	}
}

// A pod without credentials that reaches confrev's ports reads and changes nothing by a forged review.
func TestAForgedReviewGainsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := configMap("plain", "key", "canary-of-a-forged-review")
	bystander := deployment("bystander", envFrom("plain"))
	bystander.Annotations = nil
	w.create(plain, bystander)
	mark, err := cluster.AuditNow()
	w.must(err)
	anonymous := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // An attacker does not ask who answers.
	}}
	tried := 0
	for _, key := range declaredKeys(t) {
		for _, claim := range claims(string(bystander.UID), "plain") {
			forged := w.deployment("bystander")
			forged.Annotations = map[string]string{keys.Track: "all", key: claim}
			forged.Spec.Template.Annotations = map[string]string{key: claim}
			review, err := json.Marshal(map[string]any{
				"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
				"request": map[string]any{
					"uid": "forged", "operation": "UPDATE", "namespace": w.ns, "name": "bystander", "object": forged, "oldObject": forged,
					"kind":     map[string]string{"group": "apps", "version": "v1", "kind": "Deployment"},
					"resource": map[string]string{"group": "apps", "version": "v1", "resource": "deployments"},
					"userInfo": map[string]string{"username": "system:masters"},
				},
			})
			w.must(err)
			for _, path := range []string{"/pin-workloads", "/resolve-pins", "/"} {
				tried++
				response, err := anonymous.Post(cluster.WebhookURL+path, "application/json", bytes.NewReader(review))
				w.must(err)
				said, err := io.ReadAll(response.Body)
				w.must(err)
				w.must(response.Body.Close())
				if bytes.Contains(said, []byte("canary")) {
					t.Errorf("%s %s=%s is answered with content: %s", path, key, claim, said)
				}
			}
		}
	}
	requests, err := cluster.ConfrevRequests(mark)
	w.must(err)
	escalations := 0
	for _, r := range requests {
		if r.Object.Namespace == w.ns && r.Object.Resource != "events" {
			escalations++
			t.Errorf("confrev did %s for one without credentials", r)
		}
	}
	fmt.Fprintf(os.Stderr, "e2e: adversary without credentials: %d operations tried, %d escalations\n", tried, escalations)
}
