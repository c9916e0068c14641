//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// lifecycle is a namespace with users of confrev, and confrev's release in another, in the hands of one version of Helm.
type lifecycle struct {
	*world
	helm   string
	values []string
	before map[string]string
	// others is what earlier tests left of the chart, in namespaces of their own.
	others string
}

// What people do to a release with either Helm: uninstall, install an earlier version, upgrade, roll back, remove. Nothing of users
// restarts, and nothing of confrev stays. Not parallel.
func TestHelmLifecycle(t *testing.T) {
	withoutRelease(t)
	for _, helm := range []string{"helm3", "helm"} {
		t.Run(helm, func(t *testing.T) {
			w := newWorld(t)
			t.Cleanup(func() {
				// What fails may leave it running.
				if !confrev.Ended() {
					w.Must(confrev.Stop())
				}
			})
			known := slices.DeleteFunc(slices.Clone(chartValues), newerThanPrevious)
			values, err := cluster.Values(slices.Concat(known, []string{"podAnnotations.team=blue", "log.level=warn"})...)
			w.Must(err)
			l := &lifecycle{world: w, helm: helm, values: values}
			l.others = l.rest()
			for line := range strings.Lines(l.others) {
				if !strings.HasPrefix(line, namespacePrefix) {
					t.Fatalf("an earlier release left %s: this would show nothing", line)
				}
			}
			l.deployed()
			l.uninstalled()
			l.notInstalledByHalves()
			l.upgradedFromPrevious()
			l.rolledBack()
			l.removedInOrder()
		})
	}
}

// withoutRelease stops confrev and uninstalls its release. When the test ends, it brings both back, whichever Helm installed what is there
// then: one version cannot force what another applied in its own way.
func withoutRelease(t *testing.T) {
	t.Helper()
	stop(t)
	t.Cleanup(func() {
		// A token ends with its account.
		if err := cluster.RenewToken(context.Background()); err != nil {
			t.Error(err)
		}
	})
	reinstallAfter(t)
	uninstall := func() {
		if err := uninstalled(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	uninstall()
	t.Cleanup(uninstall)
}

// uninstalled uninstalls the release, if there is one.
func uninstalled(ctx context.Context) error {
	_, err := cluster.Run(ctx, "", "helm", "uninstall", "confrev", "--namespace", env.Namespace, "--no-hooks", "--ignore-not-found", "--wait")
	return err
}

// deployed has workloads pinned by a confrev that then stops: one with a revision, one that keeps its protected source.
func (l *lifecycle) deployed() {
	l.Helper()
	l.Must(reinstall(l.T))
	l.startConfrev()
	l.Create(configMap("web", "color", "A"), deployment("web", envFrom("web"), volume("web"), gen.Replicas(2)),
		attachable("kept", keys.Protect), deployment("keeper", inMode(optin.Attach), envFrom("kept")))
	l.WaitPinned("web", "web", "color", "A")
	l.Eventually("the source is protected", func() string {
		kept := &corev1.ConfigMap{}
		l.Must(l.Get("kept", kept))
		return missingFinalizer(kept)
	})
	l.Eventually("all pods run", func() string { return l.NotRolledOut("web") + l.NotRolledOut("keeper") })
	l.Must(confrev.Stop())
	l.before = l.running()
}

// startConfrev starts confrev with the rights of the account that the release has now.
func (l *lifecycle) startConfrev() {
	l.Helper()
	l.Must(cluster.RenewToken(l.Ctx))
	l.Must(confrev.Start(l.Ctx))
	l.Must(cluster.WaitWebhook(l.Ctx))
}

// running returns what must not change: pods with their restarts, ReplicaSets, and the generations of Deployments.
func (l *lifecycle) running() map[string]string {
	l.Helper()
	all := map[string]string{}
	pods, deployments, sets := &corev1.PodList{}, &appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}
	l.List(pods)
	for _, pod := range pods.Items {
		restarts := int32(0)
		for _, status := range pod.Status.ContainerStatuses {
			restarts += status.RestartCount
		}
		all["pod "+pod.Name] = fmt.Sprintf("%s %d %s", pod.UID, restarts, pod.Status.Phase)
	}
	l.List(sets)
	for _, set := range sets.Items {
		if set.Labels["app"] == "barrier" {
			continue
		}
		all["replicaset "+set.Name] = string(set.UID)
	}
	l.List(deployments)
	for _, d := range deployments.Items {
		if d.Name == "barrier" {
			continue
		}
		all["deployment "+d.Name] = fmt.Sprintf("%s generation %d", d.UID, d.Generation)
	}
	return all
}

func (l *lifecycle) unchanged(after string) {
	l.Helper()
	if diff := cmp.Diff(l.before, l.running()); diff != "" {
		l.Errorf("after %s, something restarted (-before +after):\n%s", after, diff)
	}
}

// try runs Helm on the release, and returns its error.
func (l *lifecycle) try(verb string, args ...string) error {
	began := time.Now()
	_, err := cluster.Run(l.Ctx, "", l.helm, append([]string{verb, "confrev", "--namespace", env.Namespace}, args...)...)
	l.Logf("%s %s: %.1f s", l.helm, verb, time.Since(began).Seconds())
	return err
}

// do runs Helm on the release, which must restart nothing.
func (l *lifecycle) do(verb string, args ...string) {
	l.Helper()
	l.Must(l.try(verb, args...))
	l.unchanged(verb)
}

// rest returns what there is of the chart in the whole cluster, except others: lines of NAMESPACE/KIND/NAME.
func (l *lifecycle) rest() string {
	l.Helper()
	kinds := "deployments,services,serviceaccounts,secrets,configmaps,roles,rolebindings,jobs,pods,clusterroles,clusterrolebindings," +
		"mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings"
	if servesPolicies(l.T) {
		kinds += ",mutatingadmissionpolicies,mutatingadmissionpolicybindings"
	}
	const names = `--output=jsonpath={range .items[*]}{.metadata.namespace}/{.kind}/{.metadata.name}{"\n"}{end}`
	out, err := cluster.Kubectl(l.Ctx, "get", kinds, "--all-namespaces", names, "--selector=app.kubernetes.io/name in (confrev, confrev-release-sources)")
	l.Must(err)
	secrets, err := cluster.Kubectl(l.Ctx, "get", "secrets", "--all-namespaces", names, "--selector=owner=helm")
	l.Must(err)
	known := slices.Collect(strings.Lines(l.others))
	lines := slices.DeleteFunc(slices.Collect(strings.Lines(out+secrets)), func(line string) bool { return slices.Contains(known, line) })
	return strings.Join(lines, "")
}

// uninstalled shows what stays: nothing of the chart, and of users what they had. What the release's Job does lets the protected source go.
func (l *lifecycle) uninstalled() {
	l.Helper()
	hooks, err := cluster.Run(l.Ctx, "", "helm", "get", "hooks", "confrev", "--namespace", env.Namespace)
	l.Must(err)
	l.do("uninstall")
	// The pod of the release's Job goes after that.
	l.Eventually("nothing stays", l.rest)
	// A namespace that someone deletes now would hang. KWOK runs no containers, so the Job has done nothing here: what it runs does.
	l.Kubectl("delete", "configmap", "kept", "--wait=false")
	if l.Gone("kept") {
		l.Fatal("the protected source is not protected: this shows nothing")
	}
	l.runHook(hooks)
	l.waitGone("kept")
	l.unchanged("the release of sources")
}

// runHook runs, as a process, the command of the Job that follows the deletion of the release, with the Job's own account.
func (l *lifecycle) runHook(hooks string) {
	l.Helper()
	account, role, binding, job := &corev1.ServiceAccount{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}, &batchv1.Job{}
	objects := map[string]client.Object{"ServiceAccount": account, "ClusterRole": role, "ClusterRoleBinding": binding, "Job": job}
	for document := range strings.SplitSeq(hooks, "\n---") {
		var kind metav1.TypeMeta
		l.Must(yaml.Unmarshal([]byte(document), &kind))
		if object := objects[kind.Kind]; object != nil {
			l.Must(yaml.UnmarshalStrict([]byte(document), object))
		}
	}
	for _, object := range []client.Object{account, role, binding} {
		l.Must(cluster.Client.Create(l.Ctx, object))
		defer func() { l.Must(cluster.Client.Delete(l.Ctx, object)) }()
	}
	// The Job would be tried again.
	for _, rule := range role.Rules {
		l.Eventually("the rights of the Job", func() string { return l.lacks("system:serviceaccount:"+account.Namespace+":"+account.Name, rule) })
	}
	pod := job.Spec.Template.Spec
	kubeconfig, err := cluster.ServiceAccountKubeconfig(l.Ctx, env.Namespace, pod.ServiceAccountName)
	l.Must(err)
	out, err := exec.CommandContext(l.Ctx, binary, append(pod.Containers[0].Args, "--kubeconfig", kubeconfig)...).CombinedOutput()
	if want := "released configmap/kept in namespace " + l.NS; err != nil || !strings.Contains(string(out), want) {
		l.Fatalf("the Job's command: %v, want %q:\n%s", err, want, out)
	}
}

// notInstalledByHalves installs without the right to create policies, and where the Job of an uninstallation cannot run.
func (l *lifecycle) notInstalledByHalves() {
	l.Helper()
	name := l.NS + "-installer"
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"", "apps", "batch", "rbac.authorization.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations"}, Verbs: []string{"*"}},
	}
	env.Create(l.T, cluster.Client, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	env.Create(l.T, cluster.Client, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
	})
	l.Eventually("the installer has its rights", func() string {
		_, err := cluster.Kubectl(l.Ctx, "auth", "can-i", "create", "deployments", "--all-namespaces", "--as", name)
		return errorText(err)
	})
	err := l.try("install", append([]string{"charts/confrev", "--kube-as-user", name}, l.values...)...)
	l.refused(err, "failed pre-install", "an installation without the right to create policies")
	l.refused(err, "admissionpolicies", "an installation without the right to create policies")
	l.refused(err, `User "`+name+`" cannot`, "an installation without the right to create policies")
	if rest := l.rest(); strings.Count(rest, "\n") != 1 || !strings.HasPrefix(rest, env.Namespace+"/Secret/sh.helm.release") {
		l.Errorf("all that should be there is Helm's own note of the failure:\n%s", rest)
	}
	// Then an installation as that note permits it.
	l.Must(l.try("upgrade", slices.Concat([]string{"--install", "charts/confrev", "--set=nodeSelector.no=such,hooks.releaseSources.timeoutSeconds=3"}, l.values)...))
	err = l.try("uninstall")
	l.refused(err, "uninstallation completed with 1 error", "an uninstallation whose Job cannot run")
	l.refused(err, "confrev-release-sources", "an uninstallation whose Job cannot run")
	l.Eventually("a Job that could not run keeps nothing", l.rest)
	l.unchanged("an installation that failed")
}

// upgradedFromPrevious upgrades from the earlier chart, with values that a user set.
func (l *lifecycle) upgradedFromPrevious() {
	l.Helper()
	l.do("install", append([]string{env.PreviousChart}, l.values...)...)
	err := l.try("upgrade", "charts/confrev", "--reuse-values")
	l.refused(err, "upgrade with --reset-then-reuse-values in place of --reuse-values", "values of the earlier chart alone")
	l.do("upgrade", "charts/confrev", "--reset-then-reuse-values")
	l.is("the tree's chart", true)

	l.startConfrev()
	l.Barrier()
	l.unchanged("an upgrade, with confrev running again")
	l.Edit("web", "color", "B")
	l.WaitPinned("web", "web", "color", "B")
	l.Eventually("B is rolled out", func() string { return l.NotRolledOut("web") })
	l.waitPods(3)
	l.before = l.running()
	l.Must(confrev.Stop())
}

// waitPods waits until as many pods are left in all.
func (l *lifecycle) waitPods(count int) {
	l.Helper()
	l.Eventually("pods of the old revision are gone", func() string {
		pods := &corev1.PodList{}
		if l.List(pods); len(pods.Items) != count {
			return fmt.Sprintf("there are %d pods, want %d", len(pods.Items), count)
		}
		return ""
	})
}

// is checks which chart is installed, by how it writes its version. Values that the user set are there either way.
func (l *lifecycle) is(what string, newer bool) {
	l.Helper()
	d := &appsv1.Deployment{}
	l.Must(cluster.Client.Get(l.Ctx, client.ObjectKey{Namespace: env.Namespace, Name: "confrev"}, d))
	args := d.Spec.Template.Spec.Containers[0].Args
	if version := d.Labels["app.kubernetes.io/version"]; strings.HasPrefix(version, "v") != newer {
		l.Errorf("this is not %s, but of version %s", what, version)
	}
	if d.Spec.Template.Annotations["team"] != "blue" || !slices.Contains(args, "--log-level=warn") {
		l.Errorf("the user's values are not in %s: %s %s", what, d.Spec.Template.Annotations, args)
	}
}

// rolledBack goes back to the earlier chart and forth again.
func (l *lifecycle) rolledBack() {
	l.Helper()
	args := []string{"1"}
	if l.helm == "helm" {
		// Because of webhook.url, which includes the path that confrev wrote.
		args = append(args, "--force-conflicts")
	}
	l.do("rollback", args...)
	l.is("the earlier chart", false)
	l.do("upgrade", "charts/confrev", "--reset-then-reuse-values")
	l.is("the tree's chart", true)
	l.startConfrev()
	l.Barrier()
	l.unchanged("a rollback and another upgrade, with confrev running again")
}

// removedInOrder removes the workloads, then confrev: nothing is left of either.
func (l *lifecycle) removedInOrder() {
	l.Helper()
	l.Kubectl("delete", "deployments", "--all", "--wait=true")
	began := time.Now()
	l.Eventually("no revision is left", func() string {
		out := l.Kubectl("get", "configmaps,secrets", "--selector="+keys.Content, "--output=name")
		return strings.TrimSpace(out)
	})
	l.Logf("no revision was left after %.1f s", time.Since(began).Seconds())
	// Or else the garbage collector is still at work.
	l.Eventually("nothing of the workloads runs", func() string {
		if all := l.running(); len(all) > 0 {
			return fmt.Sprint(all)
		}
		return ""
	})
	l.Must(confrev.Stop())
	l.before = l.running()
	l.do("uninstall")
	// The pod of the release's Job goes after that.
	l.Eventually("nothing stays", l.rest)
}

// A chart whose pods never start, as with a wrong image, is an error of `helm --wait` and of doctor, and no one else waits for it. Not
// parallel.
func TestInstalledWithAWrongImage(t *testing.T) {
	withoutRelease(t)
	w := newWorld(t)
	const never = "confrev-with-a-wrong-image"
	w.keepUnready(never)
	values, err := cluster.Values(slices.Concat(chartValues, []string{"image.tag=no-such", `podAnnotations.confrev\.io/pins=configmap/x=` + never + "@1"})...)
	w.Must(err)
	for helm, want := range map[string]string{"helm3": "context deadline exceeded", "helm": "Deployment/confrev-system/confrev not ready"} {
		_, err := cluster.Run(w.Ctx, "", helm, slices.Concat([]string{
			"install", "confrev", "charts/confrev", "--namespace", env.Namespace, "--wait", "--timeout=20s",
		}, values, []string{"--set=replicas=2,hooks.preflight=false"})...)
		w.refused(err, want, helm)
		w.diagnosesNotReady()
		w.Create(configMap("of-"+helm, "color", "A"), deployment("tracks-"+helm, envFrom("of-"+helm)), deployment("plain-"+helm, gen.Untracked))
		w.Eventually("nothing waits for confrev", func() string { return w.NotRolledOut("tracks-"+helm) + w.NotRolledOut("plain-"+helm) })
		w.Must(uninstalled(w.Ctx))
	}
	w.Kubectl("delete", "deployments", "--all", "--wait=true")
}

// diagnosesNotReady checks what doctor says of a Deployment whose pods do not start.
func (w *world) diagnosesNotReady() {
	w.Helper()
	got := w.plugin("doctor")
	for _, want := range []string{"no replica is ready, so nothing is pinned and nothing advances", "describe deployment/confrev"} {
		if got.status != 3 || !strings.Contains(got.stdout, want) {
			w.Errorf("doctor does not say %q, status %d:\n%s%s", want, got.status, got.stdout, got.stderr)
		}
	}
}
