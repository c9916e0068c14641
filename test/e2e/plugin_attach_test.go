//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// attachJob applies docs/examples/attach-job.yaml without its Job, and returns the Job's arguments and the flag to act with its
// rights, and no others. The verbs are those on what is attached.
func (w *world) attachJob(verbs string) (args []string, as string) {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(env.Root(), "docs", "examples", "attach-job.yaml"))
	w.Must(err)
	job, rights, _ := strings.Cut(string(text), "\n---\n")
	var shown batchv1.Job
	w.Must(yaml.UnmarshalStrict([]byte(job), &shown))
	w.KubectlIn(job, "apply", "--dry-run=server", "-f", "-")
	if !strings.Contains(rights, "verbs: [get, patch]\n") {
		w.Fatalf("the example has other rights:\n%s", rights)
	}
	w.KubectlIn(strings.Replace(rights, "verbs: [get, patch]\n", "verbs: ["+verbs+"]\n", 1), "apply", "-f", "-")
	as = "--as=system:serviceaccount:" + w.NS + ":web-attach"
	w.Eventually("the Job has its rights", func() string {
		_, err := cluster.Kubectl(w.Ctx, "auth", "can-i", "patch", "configmaps", "--namespace", w.NS, as)
		return errorText(err)
	})
	return shown.Spec.Template.Spec.Containers[0].Args, as
}

// rolloutOf makes the manifest of an Argo Rollout that names a ConfigMap and a Secret of one name.
func rolloutOf(config string) string {
	return fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  replicas: 1
  revisionHistoryLimit: 1
  strategy: {canary: {}}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: app, image: app, envFrom: [{configMapRef: {name: %[1]s}}, {secretRef: {name: %[1]s}}]}
`, config)
}

// ownersOf returns the names of an object's owners, sorted.
func (w *world) ownersOf(obj client.Object, name string) []string {
	w.Helper()
	w.Must(w.Get(name, obj))
	var names []string
	for _, owner := range obj.GetOwnerReferences() {
		names = append(names, owner.Name)
	}
	slices.Sort(names)
	return names
}

// reading returns the one ReplicaSet whose template names a ConfigMap.
func (w *world) reading(config string) string {
	w.Helper()
	sets := &appsv1.ReplicaSetList{}
	w.Must(cluster.Client.List(w.Ctx, sets, client.InNamespace(w.NS)))
	var names []string
	for _, rs := range sets.Items {
		if env := rs.Spec.Template.Spec.Containers[0].EnvFrom; len(env) > 0 && env[0].ConfigMapRef.Name == config {
			names = append(names, rs.Name)
		}
	}
	if len(names) != 1 {
		w.Fatalf("%s is named by %v", config, names)
	}
	return names[0]
}

// The example Job, with the example's rights, in addition to the real Argo Rollouts: it waits for the ReplicaSet; each version is owned by
// those ReplicaSets that need it, and goes with the last of them.
func TestPluginAttachToARollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The tests' API server lets only those set owners who may delete (plugin OwnerReferencesPermissionEnforcement).
	args, as := w.attachJob("get, patch, delete")
	// The Job may start before there is anything.
	waiting := make(chan outcome, 1)
	go func() { waiting <- w.plugin(append(slices.Clone(args), as)...) }()
	w.Create(configMap("web-7", "v", "7"), secret("web-7", corev1.SecretTypeOpaque, "v", "7"))
	w.KubectlIn(rolloutOf("web-7"), "apply", "-f", "-")
	got := <-waiting
	first := w.reading("web-7")
	if want := fmt.Sprintf("configmap/web-7 attached to replicaset/%[1]s\nsecret/web-7 attached to replicaset/%[1]s\n", first); got.stdout != want || got.status != 0 {
		t.Errorf("status %d: %s%s, want %s", got.status, got.stdout, got.stderr, want)
	}
	// As configmap-attacher is called, and again.
	w.confrev("attach", "-rollout", "web", "-namespace", w.NS, "-configmaps", "web-7", as).
		says("configmap/web-7 is attached already to replicaset/" + first)

	for _, version := range []string{"web-8", "web-9"} {
		w.Create(configMap(version, "v", version), secret(version, corev1.SecretTypeOpaque, "v", version))
		w.KubectlIn(rolloutOf(version), "apply", "-f", "-")
		// What the template refers to needs no names.
		w.confrev("attach", "--rollout=web", as).says("configmap/"+version+" attached", "secret/"+version+" attached")
		if owners := w.ownersOf(&corev1.Secret{}, version); !slices.Equal(owners, []string{w.reading(version)}) {
			t.Errorf("%s is owned by %v", version, owners)
		}
	}
	// revisionHistoryLimit is 1, so the first goes.
	w.waitGone("web-7")
	if w.Gone("web-8") || w.Gone("web-9") {
		t.Error("a version went that a ReplicaSet needs")
	}
	w.Kubectl("delete", "rollout", "web")
	w.waitGone("web-8")
	w.waitGone("web-9")
}

// Where it takes more rights than the example has, an error says which.
func TestPluginAttachWhereOwnersAreEnforced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	args, as := w.attachJob("get, patch")
	w.Create(configMap("web-7", "v", "7"), secret("web-7", corev1.SecretTypeOpaque, "v", "7"))
	w.KubectlIn(rolloutOf("web-7"), "apply", "-f", "-")
	w.confrev(append(args, as)...).fails(1, "attach configmap/web-7", "OwnerReferencesPermissionEnforcement: add the right to delete")
}

// impatient makes attach give up soon, and yet not before a busy API server has said what there is.
const impatient = "--timeout=30s"

// Owners that are there stay, whatever is attached and however the ReplicaSet is found.
func TestPluginAttachToADeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owned := configMap("app-7", "v", "7")
	w.Create(configMap("keeper", "v", "1"))
	keeper := &corev1.ConfigMap{}
	w.Must(w.Get("keeper", keeper))
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "keeper", UID: keeper.UID}}
	labeled := configMap("flags-7", "v", "7")
	labeled.Labels = map[string]string{"release": "7"}
	w.Create(owned, labeled, secret("db-7", corev1.SecretTypeOpaque, "v", "7"), deployment("web", gen.Untracked, envFrom("app-7")))
	w.confrev("attach", "--deployment=web").says("configmap/app-7 attached")
	rs := w.reading("app-7")
	w.confrev("attach", "--deployment=web", "--selector=release=7", "--secrets=db-7").says("configmap/flags-7 attached", "secret/db-7 attached")
	w.Kubectl("label", "replicaset", rs, "configMap=app-7")
	w.confrev("attach", "--replicaset-selector=configMap=app-7", "--configmaps=app-7").says("configmap/app-7 is attached already to replicaset/" + rs)
	if owners := w.ownersOf(&corev1.ConfigMap{}, "app-7"); !slices.Equal(owners, []string{"keeper", rs}) {
		t.Errorf("app-7 is owned by %v", owners)
	}

	// One that is missing does not keep the others from being attached.
	w.Create(configMap("late", "v", "1"))
	got := w.plugin("attach", "--deployment=web", "--configmaps=gone,late")
	if got.status != 1 || !strings.Contains(got.stdout, "configmap/late attached") || !strings.Contains(got.stderr, `configmaps "gone" not found`) ||
		strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("status %d: %s%s", got.status, got.stdout, got.stderr)
	}
	w.confrev("attach", "--deployment=none", impatient).fails(1, "waited 30s", `deployment "none" does not exist`)
	w.confrev("attach", "--replicaset-selector=a=b", impatient).fails(1, "no ReplicaSet has the labels a=b")
	w.confrev("attach").fails(1, "rollout", "deployment", "replicaset-selector")
	w.confrev("attach", "--deployment=web", "--rollout=web").fails(1, "none of the others can be")
	w.confrev("attach", "--deployment=web", "--selector==").fails(1, "--selector")
	w.confrev("attach", "--deployment=web", w.unreachable()).fails(1, "cannot reach the API server")
	w.confrev("attach", "--deployment=web", w.account("stranger")).fails(1, "forbidden")
}

// While a Deployment is paused, its newest ReplicaSet is that of the template before. What the new template needs must not be attached to it:
// it would go while it is in use.
func TestPluginAttachToAPausedDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app-6", "v", "6"), configMap("app-7", "v", "7"), deployment("web", gen.Untracked, envFrom("app-6")))
	w.confrev("attach", "--deployment=web").says("configmap/app-6 attached")
	w.Kubectl("rollout", "pause", "deployment/web")
	w.Kubectl("patch", "deployment", "web", "--type=json",
		`--patch=[{"op":"replace","path":"/spec/template/spec/containers/0/envFrom/0/configMapRef/name","value":"app-7"}]`)
	w.confrev("attach", "--deployment=web", "--configmaps=app-7", impatient).fails(1, "waited 30s", `deployment "web" is paused`)
	if owners := w.ownersOf(&corev1.ConfigMap{}, "app-7"); len(owners) > 0 {
		t.Errorf("app-7 is owned by %v", owners)
	}
	w.Kubectl("rollout", "resume", "deployment/web")
	w.confrev("attach", "--deployment=web", "--configmaps=app-7").says("configmap/app-7 attached")
	if owners := w.ownersOf(&corev1.ConfigMap{}, "app-7"); !slices.Equal(owners, []string{w.reading("app-7")}) {
		t.Errorf("app-7 is owned by %v", owners)
	}
	// An undo's ReplicaSet is older, and current again.
	w.Kubectl("rollout", "undo", "deployment/web")
	w.confrev("attach", "--deployment=web").says("configmap/app-6 is attached already to replicaset/" + w.reading("app-6"))
}

// A pod starts without what is optional, so that it is no error that it does not exist.
func TestPluginAttachWithoutWhatIsOptional(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app-7", "v", "7"), deployment("web", gen.Untracked, envFrom("app-7"), envKey("maybe", "k", true)))
	w.confrev("attach", "--deployment=web").says("configmap/app-7 attached", "configmap/maybe does not exist, and is optional")
	// Anyone who names it wants it.
	w.confrev("attach", "--deployment=web", "--configmaps=maybe").fails(1, `configmaps "maybe" not found`)
}

// It says why it waits even where there is nothing to see, and does not wait for a right.
func TestPluginAttachSaysWhyItWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.confrev("attach", "--deployment=none", impatient).fails(1, "waited 30s", `deployment "none" does not exist`)
	w.confrev("attach", "--replicaset-selector=a=b", impatient).fails(1, "no ReplicaSet has the labels a=b")
	as := w.account("lister", rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"replicasets", "deployments"}, Verbs: []string{"list"}})
	w.confrev("attach", "--deployment=web", as).fails(1, `cannot watch resource`, `in API group "apps"`)
	w.confrev("attach", "--replicaset-selector=a=b", as).fails(1, `cannot watch resource "replicasets" in API group "apps"`)
}

// The examples of the help.
func TestPluginAttachExamples(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"app-7", "flags-7"} {
		cm := configMap(name, "v", "7")
		cm.Labels = map[string]string{"release": "7"}
		w.Create(cm)
	}
	w.Create(secret("db-7", corev1.SecretTypeOpaque, "v", "7"), secret("web-7", corev1.SecretTypeOpaque, "v", "7"), configMap("web-7", "v", "7"),
		deployment("web", gen.Untracked, envFrom("app-7"), func(d *appsv1.Deployment) {
			d.Spec.Template.Labels["configMap"] = "app-7"
			d.Spec.Selector.MatchLabels["configMap"] = "app-7"
		}))
	w.KubectlIn(strings.ReplaceAll(rolloutOf("web-7"), "app: web}", "app: rollout}"), "apply", "-f", "-")
	w.examples("", nil, "attach")
}
