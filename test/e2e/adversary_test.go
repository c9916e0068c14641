//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
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

// declaredKeys returns all labels and annotations that internal/keys declares, read from its source.
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

// claims returns values that each key is tried with: what opts in, what names another's object, what pretends to be confrev's own.
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
	ar.user = "adversary-" + ar.NS
	// Two workloads of people who opted in, and objects that no one gave to confrev.
	used, plain, kept := configMap("victim", "key", "A"), configMap("plain", "key", "A"), configMap("attached", "key", "A")
	kept.Annotations = map[string]string{keys.Attach: "true"}
	attaching := deployment("attaching", envFrom("attached"))
	attaching.Annotations = map[string]string{keys.Mode: "attach"}
	bystander := deployment("bystander", envFrom("plain"))
	bystander.Annotations = nil
	ar.Create(used, plain, kept, secret("victim-secret", corev1.SecretTypeOpaque, "key", "A"),
		deployment("web", envFrom("victim")), attaching, bystander)
	ar.WaitPinned("web", "victim", "key", "A")
	if a.role != "" {
		ar.Kubectl("create", "rolebinding", "adversary", "--clusterrole="+a.role, "--user="+ar.user)
		return ar
	}
	ar.Create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "adversary"}, Rules: a.rules})
	ar.Kubectl("create", "rolebinding", "adversary", "--role=adversary", "--user="+ar.user)
	return ar
}

// attempts returns all that the adversary tries: each key with each claim as annotation and label of each object, owners, and forged
// revisions and anchors, by patch and by create.
func (a *arena) attempts() []attempt {
	a.Helper()
	web := a.Deployment("web")
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
		return c.Patch(ctx, a.blank(target), client.RawPatch("application/merge-patch+json", []byte(patch)))
	}}
}

// blank returns an object of the arena, given as kind/name, before it is read.
func (a *arena) blank(target string) *unstructured.Unstructured {
	kind, name, _ := strings.Cut(target, "/")
	obj := &unstructured.Unstructured{}
	switch kind {
	case "configmap":
		obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	case "secret":
		obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	default:
		obj.SetGroupVersionKind(workload.Deployment.GVK)
	}
	obj.SetNamespace(a.NS)
	obj.SetName(name)
	return obj
}

// creates makes a ConfigMap and a Rollout with a key.
func (a *arena) creates(name, on, key, claim string) []attempt {
	meta := metav1.ObjectMeta{Namespace: a.NS, Name: name + "-" + on}
	if on == "labels" {
		meta.Labels = map[string]string{key: claim}
	} else {
		meta.Annotations = map[string]string{key: claim, keys.SourceName: "victim"}
		meta.Labels = map[string]string{keys.Content: "v1-" + strings.Repeat("b", 52)}
	}
	forged := &corev1.ConfigMap{ObjectMeta: meta, Immutable: new(true), Data: map[string]string{"key": "forged"}}
	rollout := objectOf(workload.Rollout.GVK, meta.Name, scaled(strategy("canary", map[string]any{}))(meta.Name, everyForm(meta.Name, "plain", "victim-secret")))
	rollout.SetNamespace(a.NS)
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
	a.Must(err)
	for _, attempt := range a.attempts() {
		a.tried++
		if attempt.send(a.Ctx, c) == nil {
			allowed++
		}
	}
	return allowed
}

// done is one thing that confrev did: to which objects is a word of docs/security.md, or empty for what has no name.
type done struct{ verb, group, resource, which, name string }

func (d done) String() string {
	resource := d.resource
	if d.group == webApp.Group {
		resource = "configured-kinds"
	}
	return strings.TrimSpace(d.verb + " " + resource + " " + d.which)
}

// listed reports whether docs/security.md has it for one of these principals, of such objects or of all.
func (d done) listed(all map[string]map[string]bool, principals ...string) bool {
	return slices.ContainsFunc(principals, func(principal string) bool {
		return all[principal][d.String()] || all[principal][strings.TrimSuffix(d.String(), " "+d.which)]
	})
}

// which returns the name that docs/security.md has for an object of the arena.
func which(resource, name string) string {
	switch {
	case name == "":
		return ""
	case strings.HasPrefix(name, "forged-"):
		return "(their own)"
	case isRevision.MatchString(name):
		return "(revisions)"
	case resource == "secrets" && name == keys.KeySecret:
		return "(keys)"
	case resource == "deployments" && (name == "web" || name == "attaching"):
		return "(opted in)"
	case resource == "configmaps" || resource == "secrets":
		return "(sources)"
	}
	return "(others)"
}

var isRevision = regexp.MustCompile("^(victim|plain|attached|victim-secret)-[bcdfghjklmnpqrstvwxz2456789]{10}$")

// consequences returns what confrev did in the namespace since a mark, writing or reading single objects, except for events.
func (a *arena) consequences(since env.AuditMark) []done {
	a.Helper()
	requests, err := cluster.ConfrevRequests(since)
	a.Must(err)
	seen := map[done]bool{}
	for _, r := range requests {
		if r.Object.Namespace == a.NS && r.Object.Resource != "events" && r.Response.Code < 300 {
			seen[done{r.Verb, r.Object.Group, r.Object.Resource, which(r.Object.Resource, r.Object.Name), r.Object.Name}] = true
		}
	}
	return slices.Collect(maps.Keys(seen))
}

// may reports whether the adversary has a right by itself.
func (a *arena) may(d done) bool {
	a.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: a.user, Groups: []string{"system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: a.NS, Verb: d.verb, Group: d.group, Resource: d.resource, Name: d.name},
	}}
	a.Must(cluster.Client.Create(a.Ctx, review))
	return review.Status.Allowed
}

// exceptions reads docs/security.md: what confrev does for each principal, in the form "patch configmaps (revisions)".
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
			part, objects, _ := strings.Cut(part, " (")
			words := strings.Fields(strings.ReplaceAll(part, ",", ""))
			for _, verb := range words[:len(words)-1] {
				what := verb + " " + words[len(words)-1]
				if objects != "" {
					what += " (" + objects
				}
				all[cells[1]][what] = true
			}
		}
	}
	if len(all) == 0 {
		t.Fatal("docs/security.md lists no exceptions: the test reads it wrongly")
	}
	return all
}

// confrev does nothing for anyone that they could not do themselves, except for the exceptions that docs/security.md lists. Not parallel:
// the restarts of others would end the wait early.
func TestNoOneGainsARightThroughConfrev(t *testing.T) {
	listed := exceptions(t)
	for _, adversary := range adversaries {
		t.Run(adversary.name, func(t *testing.T) {
			t.Parallel()
			a := newArena(t, adversary)
			a.settleDown()
			used := a.PinOf("web", "victim").Revision
			before := a.workloads()
			mark, err := cluster.AuditNow()
			a.Must(err)
			allowed := a.act()
			// Past settling, and the grace of what is unused.
			a.settleDown()
			escalations := 0
			for _, d := range a.consequences(mark) {
				if d.listed(listed, adversary.name, "anyone") || a.may(d) {
					continue
				}
				escalations++
				t.Errorf("confrev did %q to %s for one who %s and may not, and docs/security.md lists no such exception", d, d.name, adversary.name)
			}
			if adversary.role != "view" && allowed == 0 {
				t.Error("nothing was let through: this test shows nothing")
			}
			a.unharmed(used)
			escalations += a.changed(before)
			fmt.Fprintf(os.Stderr, "e2e: adversary %s: %d operations tried, %d let through, %d escalations\n", adversary.name, a.tried, allowed, escalations)
		})
	}
}

// settleDown waits until whatever an attempt set off must have happened: what is made now has gone through all of confrev's waits.
func (a *arena) settleDown() {
	a.Helper()
	elsewhere := newWorld(a.T)
	forgotten := orphan()
	elsewhere.Create(forgotten, configMap("last", "key", "A"), deployment("last", envFrom("last")))
	elsewhere.WaitPinned("last", "last", "key", "A")
	elsewhere.waitGone(forgotten.Name)
}

// workloads returns the arena's, as they are.
func (a *arena) workloads() []*unstructured.Unstructured {
	a.Helper()
	return []*unstructured.Unstructured{a.object("deployment/web"), a.object("deployment/attaching"), a.object("deployment/bystander")}
}

// changed looks at what has become of workloads that the adversary itself may not change: of them, only the pins and notes that confrev
// is there for, where they opted in.
func (a *arena) changed(workloads []*unstructured.Unstructured) (escalations int) {
	a.Helper()
	if a.may(done{verb: "patch", group: "apps", resource: "deployments"}) {
		return 0
	}
	may := mayWrite(a.T)
	for _, before := range workloads {
		for _, effect := range effectsOf(before, a.object("deployment/"+before.GetName())) {
			if strings.HasSuffix(effect, "annotation "+revisionAnnotation) || may[sortOf(before)][effect] {
				continue
			}
			escalations++
			a.Errorf("confrev did %q to %s for one who may not", effect, before.GetName())
		}
	}
	return escalations
}

// unharmed looks at what no one gave to confrev. Who may delete it may have done so, by a dead owner for instance.
func (a *arena) unharmed(used string) {
	a.Helper()
	for _, name := range []string{"victim", "plain", "attached", used} {
		if a.Gone(name) && !a.may(done{verb: "delete", resource: "configmaps", name: name}) {
			a.Errorf("configmap %s is gone", name)
		}
	}
	if a.secretGone("victim-secret") && !a.may(done{verb: "delete", resource: "secrets", name: "victim-secret"}) {
		a.Error("secret victim-secret is gone")
	}
}

// Anyone who may create Rollouts can name the Deployment of someone else as the one that has the template. Its settings stay those of its owner.
func TestARolloutDoesNotSteerSomeonesDeployment(t *testing.T) {
	t.Parallel()
	for name, setting := range map[string]struct{ annotations, labels map[string]string }{
		"no pins":          {annotations: map[string]string{keys.Mode: "attach"}},
		"other references": {annotations: map[string]string{keys.Injection: "template"}},
		"opted out":        {labels: map[string]string{keys.Track: "none"}},
		"waiting":          {annotations: map[string]string{keys.Advance: "manual"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Create(configMap("app", "color", "A"), deployment("web", envFrom("app")))
			w.WaitPinned("web", "app", "color", "A")
			before := w.Deployment("web")
			rollout := objectOf(workload.Rollout.GVK, "evil", aReferringRollout.spec("web", nil))
			put(rollout.Object, "spec.replicas", int64(0))
			rollout.SetAnnotations(setting.annotations)
			rollout.SetLabels(setting.labels)
			w.Create(rollout)
			w.WaitEvent("UnknownAnnotation", "evil", "has no effect here: the pod template is that of deployment/web")
			w.Barrier()
			if got := w.Deployment("web"); got.Generation != before.Generation {
				t.Errorf("its spec changed:\n%s", gocmp.Diff(before.Spec, got.Spec))
			}
			w.Edit("app", "color", "B")
			w.WaitPinned("web", "app", "color", "B")
		})
	}
}
