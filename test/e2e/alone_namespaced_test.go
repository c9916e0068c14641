//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// limited is a release that is limited to some namespaces, and that was installed by someone who has no right in any others.
type limited struct {
	// world is the release's own namespace.
	*world
	name    string
	watched []*world
	values  []string
	confrev *env.Confrev
	began   env.AuditMark
}

// installer administers the namespaces of the release, and nothing else.
const installer = "alice"

// namespacedValues are all that such a release can have. KWOK plays the pod.
var namespacedValues = slices.Concat([]string{
	"replicas=1", "secrets.enabled=true", "restartOn[0].apiGroups[0]=", "restartOn[0].resources[0]=persistentvolumeclaims",
	"settle=" + settle.String(), "grace=" + grace.String(), "revisionsPerHour=1000", "rolloutsPerHour=1000", "log.level=debug",
}, webAppValues)

// withoutTheChart removes what is installed for all namespaces until the test ends.
func withoutTheChart(t *testing.T) {
	t.Helper()
	// From the last to the first: the chart is installed again, confrev starts with a token of the new account, and API servers trust it.
	afterwards := func(do func(context.Context) error) {
		t.Cleanup(func() {
			if err := do(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	afterwards(cluster.WaitWebhook)
	stop(t)
	afterwards(cluster.RenewToken)
	reinstallAfter(t)
	if _, err := cluster.Run(t.Context(), "", "helm", "uninstall", "confrev", "--namespace", env.Namespace, "--wait"); err != nil {
		t.Fatal(err)
	}
}

// newLimited prepares a release for so many namespaces.
func newLimited(t *testing.T, namespaces int) *limited {
	t.Helper()
	l := &limited{world: newWorld(t), name: "confrev", values: namespacedValues}
	for range namespaces {
		l.watched = append(l.watched, newWorld(t))
	}
	// As the operators of these kinds install it.
	admins := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: l.NS, Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-admin": "true"}},
		Rules: []rbacv1.PolicyRule{
			rights("argoproj.io", []string{"rollouts"}, "get", "list", "watch", "patch"),
			rights(webApp.Group, []string{"webapps", "prunedapps"}, "get", "list", "watch", "patch"),
		},
	}
	env.Create(t, cluster.Client, admins)
	for _, w := range append(l.watched, l.world) {
		w.mayInstall(admins.Rules)
	}
	return l
}

// mayInstall makes the installer the administrator of the namespace.
func (w *world) mayInstall(more []rbacv1.PolicyRule) {
	w.Helper()
	w.Kubectl("create", "rolebinding", installer, "--clusterrole=admin", "--user="+installer)
	for _, rule := range append(more, rights(rbacv1.GroupName, []string{"roles"}, "create")) {
		w.Eventually("the rights of "+installer, func() string { return w.lacks(installer, rule) })
	}
}

// helm runs Helm as the installer, for the release.
func (l *limited) helm(binary, verb string, args ...string) error {
	all := append([]string{verb, l.name, "--namespace", l.NS, "--kube-as-user", installer}, args...)
	if verb != "uninstall" {
		var names []string
		for _, w := range l.watched {
			names = append(names, w.NS)
		}
		all = append(all, "charts/confrev", "--set", "watchNamespaces={"+strings.Join(names, ",")+"}")
		for _, value := range l.values {
			all = append(all, "--set", value)
		}
	}
	_, err := cluster.Run(l.Ctx, "", binary, all...)
	return err
}

// run starts confrev with the arguments that the chart gives it.
func (l *limited) run(name string) {
	l.Helper()
	d := l.Deployment("confrev")
	config := &corev1.ConfigMap{}
	l.Must(client.IgnoreNotFound(l.Get("confrev", config)))
	path := filepath.Join(l.TempDir(), "workloads.yaml")
	l.Must(os.WriteFile(path, []byte(config.Data["workloads.yaml"]), 0o600))
	args := []string{"--webhook-bind-address=0"}
	for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
		// Where it listens is for the test to choose.
		if !strings.Contains(arg, "-bind-address=") && !strings.HasPrefix(arg, "--namespace=") && !strings.HasPrefix(arg, "--log-format") {
			args = append(args, strings.Replace(arg, "/etc/confrev/workloads.yaml", path, 1))
		}
	}
	var err error
	l.began, err = cluster.AuditNow()
	l.Must(err)
	l.confrev, err = cluster.ConfrevOf(l.Ctx, l.NS, name, binary, args...)
	l.Must(err)
	l.Must(l.confrev.Start(l.Ctx))
	l.Cleanup(func() {
		if !l.confrev.Ended() {
			l.Must(l.confrev.Stop())
		}
	})
}

// requests returns what confrev asked the API server for.
func (l *limited) requests() []env.Request {
	l.Helper()
	requests, err := cluster.Requests(l.began, func(r env.Request) bool { return r.User.Username == "system:serviceaccount:"+l.NS+":confrev" })
	l.Must(err)
	return requests
}

// A release that is limited to namespaces is installed by an administrator of these alone, and keeps the promise in them for every kind, without any
// request that reaches further. Not parallel: nothing else is to be installed.
func TestNamespaced(t *testing.T) {
	withoutTheChart(t)
	l := newLimited(t, len(subjects)+1)
	outside := newWorld(t)
	outside.Create(configMap("web", "color", "A"), deployment("web", envFrom("web")))
	l.Must(l.helm("helm3", "install", "--wait"))
	l.Must(l.helm("helm3", "uninstall", "--wait"))
	l.Must(l.helm("helm", "install", "--wait"))
	l.run("namespaced")

	t.Run("Kinds", func(t *testing.T) {
		for i, s := range subjects {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				rollsForwardAndBack(worldIn(t, l.watched[i].NS), s)
			})
		}
		t.Run("Revisions", func(t *testing.T) {
			t.Parallel()
			revisionsWithoutGuards(worldIn(t, l.watched[len(subjects)].NS))
		})
	})
	if pins := outside.PinsText("web"); pins != "" || len(outside.Revisions("web")) > 0 {
		t.Errorf("a workload of another namespace is pinned: %s", pins)
	}
	l.isSeenByThePlugin(outside)
	l.asksOnlyWithinItsNamespaces()
	l.hasNoOtherRights()
	l.isRefusedTwice()
}

// Watched namespaces come and go, each on its own, and Secrets are not read unless they are enabled. Not parallel, as above.
func TestNamespacesComeAndGo(t *testing.T) {
	withoutTheChart(t)
	l := newLimited(t, 2)
	// Its own namespace can be one of them.
	l.watched[0] = l.world
	l.values = []string{"replicas=1", "settle=0s", "grace=" + grace.String()}
	l.Must(l.helm("helm", "install", "--wait"))
	l.run("come-and-go")
	stays, goes := l.watched[0], l.watched[1]
	stays.Create(secret("cred", corev1.SecretTypeOpaque, "k", "v"), configMap("web", "color", "A"),
		deployment("web", envFrom("web"), gen.Template(gen.EnvFrom("secret/cred"))))
	stays.WaitPinned("web", "web", "color", "A")
	if pins := stays.PinsText("web"); strings.Contains(pins, "secret/") {
		t.Errorf("a Secret is pinned: %s", pins)
	}
	goes.Create(attachable("one", keys.Protect), deployment("web", inMode(optin.Attach), envFrom("one")))
	goes.waitOwners("one")
	one := &corev1.ConfigMap{}
	goes.Must(goes.Get("one", one))
	if len(one.Finalizers) > 0 {
		t.Errorf("finalizers %q would outlive the rights to remove them", one.Finalizers)
	}
	l.waitHandled(2, 0)

	l.Kubectl("delete", "namespace", goes.NS, "--timeout="+patience.String())
	l.waitHandled(1, 1)
	l.Kubectl("create", "namespace", goes.NS)
	goes.Create(configMap("web", "color", "A"), deployment("web", envFrom("web")))
	stays.editTo("B")
	l.Must(l.confrev.Stop())
	l.Must(l.confrev.Start(l.Ctx))
	stays.editTo("C")
	l.waitHandled(1, 1)
	if pins := goes.PinsText("web"); pins != "" {
		t.Errorf("pinned without rights: %s", pins)
	}

	goes.mayInstall(nil)
	l.Must(l.helm("helm", "upgrade"))
	goes.WaitPinned("web", "web", "color", "A")
	goes.editTo("B")
	// On whatever API of events an administrator of the namespace may grant rights.
	goes.WaitEvent("Pinned", "web", "Pinned configmap/web")
	l.waitHandled(2, 0)
	for _, r := range l.requests() {
		if r.Object.Resource == "secrets" || r.Object.Namespace == "" && r.Object.Resource != "" && r.Object.Resource != "selfsubjectaccessreviews" {
			t.Errorf("it asked for %s (%s)", r, r.URI)
		}
	}
	text, err := os.ReadFile(l.confrev.Log)
	l.Must(err)
	for said, times := range map[string]int{
		`msg="limited to single namespaces" namespaces="[` + stays.NS + " " + goes.NS + `]" off="[admission policies`: 2,
		`msg="a namespace is not handled for now" namespace=` + goes.NS:                                               2,
		`msg="a namespace is handled from now on" namespace=` + goes.NS:                                               2,
		`msg="a namespace is handled from now on" namespace=` + stays.NS:                                              2,
		"Observed a panic": 0,
	} {
		if got := strings.Count(string(text), said); got != times {
			t.Errorf("%q is in the log %d times, want %d; see %s", said, got, times, l.confrev.Log)
		}
	}
}

// From a release for the whole cluster to one for a namespace, and back, nothing restarts if templates name their revisions (docs/install.md).
// Not parallel, as above.
func TestFromTheWholeClusterToANamespaceAndBack(t *testing.T) {
	l := newLimited(t, 1)
	w := worldIn(t, l.watched[0].NS)
	w.Create(configMap("web", "color", "A"), deployment("web", injecting(optin.Template), envFrom("web")))
	a := w.WaitPinned("web", "web", "color", "A")
	w.waitTemplateNames(a.Revision)
	generation := w.Deployment("web").Generation
	unchanged := func(when string) {
		t.Helper()
		w.Barrier()
		if now := w.Deployment("web").Generation; now != generation {
			t.Errorf("%s, the template changed %d times", when, now-generation)
		}
		w.podsRead(a.Revision)
	}

	withoutTheChart(t)
	l.values = []string{"replicas=1", "settle=0s", "grace=" + grace.String()}
	l.Must(l.helm("helm", "install", "--wait"))
	l.run("from-the-whole-cluster")
	unchanged("after the change to a namespace")
	b := w.editTo("B")
	w.waitTemplateNames(b.Revision)
	// As if the webhook had failed between a dry run and the request, and confrev before it wrote the name itself.
	w.Kubectl("patch", "deployment/web", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/template/spec/containers/0/envFrom/0/configMapRef/name","value":"`+a.Revision+`"}]`)
	w.waitTemplateNames(b.Revision)
	if got := w.PinOf("web", "web"); got != b {
		t.Errorf("pinned to %s, want %s", got, b)
	}
	w.quiet()
	a, generation = b, w.Deployment("web").Generation

	l.Must(l.confrev.Stop())
	l.Must(l.helm("helm", "uninstall", "--wait"))
	l.Must(reinstall(t))
	l.Must(cluster.RenewToken(l.Ctx))
	start(t)
	l.Must(cluster.WaitWebhook(l.Ctx))
	unchanged("after the change back")
	w.waitTemplateNames(w.editTo("C").Revision)
}

// waitHandled waits until confrev counts so many of its namespaces as handled, and as unreadable.
func (l *limited) waitHandled(handled, unreadable float64) {
	l.Helper()
	l.Eventually("namespaces handled", func() string {
		metrics, err := l.confrev.ReadMetrics(l.Ctx)
		if err != nil {
			return err.Error()
		}
		is, not := metrics.Sum("confrev_watched_namespaces", "state", "handled"), metrics.Sum("confrev_watched_namespaces", "state", "unreadable")
		if is != handled || not != unreadable {
			return fmt.Sprintf("%v, and %v unreadable", is, not)
		}
		return ""
	})
}

// isSeenByThePlugin asks the plugin as an administrator of the cluster, and as someone who has rights in one watched namespace only.
func (l *limited) isSeenByThePlugin(outside *world) {
	l.Helper()
	w := worldIn(l.T, l.watched[0].NS)
	// Of the release, for which the process of the test stands in.
	l.Eventually("the pod of the release", func() string { return l.NotRolledOut("confrev") })
	w.Kubectl("create", "rolebinding", "bob", "--clusterrole=admin", "--user=bob")
	w.Eventually("the rights of bob", func() string { return w.lacks("bob", rights(rbacv1.GroupName, []string{"rolebindings"}, "get")) })
	for who, flags := range map[string][]string{"administrator": nil, "bob": {"--as=bob"}} {
		var d view.Diagnosis
		status := w.pluginJSON(&d, append(flags, "doctor")...)
		if f := found(d, "Namespaced", "deployment/confrev"); f == nil || f.Severity != view.SeverityInfo || f.Namespace != l.NS {
			w.Errorf("%s: %+v", who, d)
		}
		for _, f := range d.Findings {
			// It is so for one of the test's own kinds, and only the administrator may see that.
			if pruned := f.Reason == "PinsNotKept" && who == "administrator"; !pruned && (f.Severity != view.SeverityInfo || f.Reason == "NoGuard") {
				w.Errorf("%s: %+v", who, f)
			}
		}
		if (status == 0) != (who == "bob") || (len(d.Notes) == 0) != (who == "administrator") {
			w.Errorf("%s: status %d, notes %q", who, status, d.Notes)
		}
		w.Logf("%s: notes %q", who, d.Notes)
		if got := w.plugin(append(flags, "status", "deployment/web")...); got.status != 0 || !strings.Contains(got.stdout, "RolledOut") {
			w.Errorf("%s: %+v", who, got)
		}
	}
	before := w.PinsText("web")
	for _, verb := range []string{"undo", "resume"} {
		if got := w.plugin("--as=bob", verb, "deployment/web"); got.status != 0 {
			w.Errorf("%s: %+v", verb, got)
		}
		w.Eventually(verb+" rolled out", func() string { return w.NotRolledOut("web") })
		if pins := w.PinsText("web"); (pins == before) != (verb == "resume") {
			w.Errorf("after %s, it is pinned to %s", verb, pins)
		}
	}
	const elsewhere = "is limited to "
	if got := outside.plugin("status"); !strings.Contains(got.stderr, elsewhere) || !strings.Contains(got.stderr, "it does nothing in "+outside.NS) {
		l.Errorf("%+v", got)
	}
	outside.Create(gen.Unsaved(gen.Deployment("other", gen.Replicas(0), gen.Template(gen.EnvFrom("configmap/web")))))
	if got := outside.plugin("track", "deployment/other"); !strings.Contains(got.stdout+got.stderr, elsewhere) {
		l.Errorf("%+v", got)
	}
	var d view.Diagnosis
	if status := outside.pluginJSON(&d, "doctor"); status != 3 || found(d, "NotWatched", "namespace/"+outside.NS) == nil {
		l.Errorf("status %d, %+v", status, d)
	}
}

// revisionsWithoutGuards checks what becomes of revisions where only confrev keeps them.
func revisionsWithoutGuards(w *world) {
	w.Create(configMap("web", "color", "A"), deployment("web", gen.HistoryLimit(1), envKey("web", "color", false)))
	a := w.WaitPinned("web", "web", "color", "A")
	w.waitTemplateNames(a.Revision)
	w.WaitOwned(a.Revision, "web")

	// Nothing refuses that. Rule 9 repairs it.
	w.Kubectl("delete", "configmap", a.Revision)
	w.WaitEvent("RevisionRecreated", "web", a.Revision)
	w.WaitOwned(a.Revision, "web")

	b := w.editTo("B")
	w.waitTemplateNames(b.Revision)
	w.Undo("web")
	w.WaitHeld("web", "web")
	w.Barrier()
	w.waitTemplateNames(a.Revision)
	w.podsRead(a.Revision)
	w.editTo("C")
	w.waitGone(b.Revision)

	w.Create(deployment("other", injecting(optin.Admission), envFrom("web")))
	w.WaitEvent("PoliciesNotReady", "other", "limited to single namespaces")
	// In a request of its own, since a namespace's label is not read.
	w.Kubectl("label", "namespace", w.NS, keys.Track+"=all")
	w.Create(gen.Unsaved(gen.Deployment("unasked", gen.Replicas(0), gen.Template(gen.EnvFrom("configmap/web")))))
	w.Barrier()
	if pins := w.PinsText("other") + w.PinsText("unasked"); pins != "" {
		w.Errorf("pinned: %s", pins)
	}
}

// asksOnlyWithinItsNamespaces looks in the audit log for what reached further, or was refused.
func (l *limited) asksOnlyWithinItsNamespaces() {
	l.Helper()
	in := map[string]int{}
	for _, r := range l.requests() {
		watched := slices.ContainsFunc(l.watched, func(w *world) bool { return w.NS == r.Object.Namespace })
		own := r.Object.Namespace == l.NS && (r.Object.Resource == "leases" || r.Object.Resource == "events")
		// What the API server serves, and questions about its own rights.
		discovery := r.Object.Resource == "" || r.Object.Resource == "selfsubjectaccessreviews"
		switch {
		case !watched && !own && !discovery:
			l.Errorf("it asked for %s (%s)", r, r.URI)
		case r.Response.Code == 403:
			l.Errorf("it was refused %s (%s)", r, r.URI)
		}
		in[fmt.Sprintf("watched %t, own %t, discovery %t", watched, own, discovery)]++
	}
	if len(in) != 3 {
		l.Errorf("requests: %v: the test looks for the wrong ones", in)
	}
	l.Logf("requests: %v", in)
}

// everyone is what any account may ask.
var everyone = []string{"selfsubjectaccessreviews.authorization.k8s.io", "selfsubjectrulesreviews.authorization.k8s.io", "selfsubjectreviews.authentication.k8s.io"}

// mayIn returns what the token may do in a namespace, as the API server sees it, beyond what any account may.
func (l *limited) mayIn(token client.Client, namespace string) []env.Right {
	l.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	l.Must(token.Create(l.Ctx, review))
	if review.Status.Incomplete {
		l.Fatalf("the API server does not know what the token may do: %s", review.Status.EvaluationError)
	}
	var rules []rbacv1.PolicyRule
	for _, rule := range review.Status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames})
	}
	return slices.DeleteFunc(env.RightsOf(rules...), func(r env.Right) bool { return slices.Contains(everyone, r.Resource) })
}

// hasNoOtherRights tries a stolen token: outside of the watched namespaces it is good for the lease and its events, and nothing else.
func (l *limited) hasNoOtherRights() {
	l.Helper()
	token := stealTokenOf(l.T, l.NS)
	other := newWorld(l.T)
	for _, namespace := range []string{other.NS, metav1.NamespaceDefault, metav1.NamespaceSystem, env.Namespace} {
		if may := l.mayIn(token, namespace); len(may) > 0 {
			l.Errorf("in %s, the token may %q", namespace, may)
		}
	}
	if may := l.mayIn(token, l.NS); !slices.Equal(sortedRights(may), []string{
		"create events", "create leases.coordination.k8s.io", "get leases.coordination.k8s.io confrev-namespaced", "patch events",
		"patch leases.coordination.k8s.io confrev-namespaced", "update leases.coordination.k8s.io confrev-namespaced",
	}) {
		l.Errorf("in its own namespace, the token may %q", may)
	}
	role := &rbacv1.Role{}
	l.Must(l.watched[0].Get("confrev", role))
	if may, granted := sortedRights(l.mayIn(token, l.watched[0].NS)), sortedRights(env.RightsOf(role.Rules...)); !slices.Equal(may, granted) {
		l.Errorf("in a watched namespace, the token may %q, and the chart grants %q", may, granted)
	}
	everywhere := &corev1.ConfigMapList{}
	widened := role.DeepCopy()
	widened.Rules = append(widened.Rules, rights("", []string{"pods"}, "create"))
	for what, err := range map[string]error{
		"list ConfigMaps of all namespaces": token.List(l.Ctx, everywhere),
		"list namespaces":                   token.List(l.Ctx, &corev1.NamespaceList{}),
		"get a watched namespace":           token.Get(l.Ctx, client.ObjectKey{Name: l.watched[0].NS}, &corev1.Namespace{}),
		"list Secrets of another namespace": token.List(l.Ctx, &corev1.SecretList{}, client.InNamespace(other.NS)),
		"list Secrets of its own":           token.List(l.Ctx, &corev1.SecretList{}, client.InNamespace(l.NS)),
		"create pods":                       token.Create(l.Ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.watched[0].NS, Name: "pod"}}),
		"widen its Role":                    token.Update(l.Ctx, widened),
	} {
		if !apierrors.IsForbidden(err) {
			l.Errorf("the token may %s: %v", what, err)
		}
	}
}

func sortedRights(all []env.Right) []string {
	var texts []string
	for _, right := range all {
		texts = append(texts, right.String())
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// isRefusedTwice installs a second release for a namespace that is watched already.
func (l *limited) isRefusedTwice() {
	l.Helper()
	second := &limited{world: newWorld(l.T), name: "other", watched: l.watched[:1]}
	second.mayInstall(nil)
	for _, binary := range []string{"helm3", "helm"} {
		err := second.helm(binary, "install")
		if err == nil || !strings.Contains(err.Error(), "confrev") || !strings.Contains(err.Error(), "invalid ownership metadata") {
			l.Errorf("%s installs a second release for the same namespace: %v", binary, err)
		}
	}
	if out := second.Kubectl("get", "all,serviceaccounts,roles", "-o", "name", "-l", "app.kubernetes.io/name=confrev"); out != "" {
		l.Errorf("it left %s", out)
	}
}
