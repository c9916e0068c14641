//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/audit"
	"confrev.io/confrev/internal/audit/collect"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// audited runs the audit and returns what it found.
func (w *world) audited(args ...string) collect.Audit {
	w.Helper()
	var found collect.Audit
	if status := w.pluginJSON(&found, append([]string{"audit"}, args...)...); status != 0 || found.Kind != "Audit" {
		w.Fatalf("status %d, %+v", status, found)
	}
	return found
}

// findingOf returns the finding of a reason about an object; nil if there is none.
func findingOf(found collect.Audit, reason audit.Reason, object string) *audit.Finding {
	i := slices.IndexFunc(found.Findings, func(f audit.Finding) bool { return f.Reason == reason && f.Object == object })
	if i < 0 {
		return nil
	}
	return &found.Findings[i]
}

// reading makes an untracked Deployment that takes all keys of a ConfigMap.
func reading(name, source string, options ...deploymentOption) *appsv1.Deployment {
	return deployment(name, append([]deploymentOption{gen.Untracked, envFrom(source)}, options...)...)
}

// ofKind makes an untracked workload of a kind with the template of a Deployment.
func ofKind(w *world, kind workload.Kind, d *appsv1.Deployment, spec map[string]any) client.Object {
	w.Helper()
	template, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&d.Spec.Template)
	w.Must(err)
	spec["template"] = template
	spec["selector"] = map[string]any{"matchLabels": map[string]any{"app": d.Name}}
	return objectOf(kind.GVK, d.Name, spec)
}

// Rules 24 to 27, for each kind, on a cluster where nothing is tracked.
func TestAuditFindsStalePods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bare := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bare", Labels: map[string]string{"app": "bare"}}, Spec: reading("bare", "app").Spec.Template.Spec}
	w.Create(configMap("app", "color", "A"), configMap("quiet", "color", "A"), configMap("gone", "color", "A"),
		reading("web", "app", gen.Replicas(2)), reading("still", "quiet"), reading("lost", "gone"), bare,
		ofKind(w, workload.StatefulSet, reading("db", "app"), map[string]any{"replicas": int64(1), "serviceName": "db"}),
		ofKind(w, workload.DaemonSet, reading("agent", "app"), map[string]any{}),
		ofKind(w, workload.Rollout, reading("api", "app"), map[string]any{"replicas": int64(1), "strategy": map[string]any{"canary": map[string]any{}}}))
	for name, pods := range map[string]int{"web": 2, "still": 1, "lost": 1, "bare": 1, "db": 1, "agent": 1, "api": 1} {
		w.Eventually(name+" runs", func() string {
			if all := w.Pods(name); len(all) < pods || !slices.ContainsFunc(all, func(p corev1.Pod) bool { return env.Ready(&p) }) {
				return fmt.Sprintf("%d pods", len(all))
			}
			return ""
		})
	}
	w.Kubectl("delete", "configmap", "gone")
	stale := map[string]string{
		"deployment/web": "kubectl rollout restart deployment/web -n " + w.NS, "statefulset/db": "kubectl rollout restart statefulset/db -n " + w.NS,
		"daemonset/agent": "kubectl rollout restart daemonset/agent -n " + w.NS, "rollout/api": "kubectl argo rollouts restart api -n " + w.NS,
		"pod/bare": "kubectl get pod bare -n " + w.NS + " -o yaml | kubectl replace --force -f -",
	}
	edit := 0
	w.Eventually("all that read it are stale", func() string {
		// Times have seconds: one of the edits is in a later one than the starts.
		edit++
		w.Edit("app", "color", fmt.Sprint("B", edit))
		found := w.audited()
		for object, fix := range stale {
			if f := findingOf(found, audit.StalePods, object); f == nil || f.Severity != audit.Warning || f.Fix != fix || f.Pods < 1 || !slices.Equal(f.Sources, []string{"configmap/app"}) {
				return fmt.Sprintf("%s: %+v", object, f)
			}
		}
		if f := findingOf(found, audit.StalePods, "deployment/web"); f.Pods != 2 {
			return fmt.Sprintf("%+v", f)
		}
		return ""
	})
	found := w.audited()
	for _, reason := range []audit.Reason{audit.StalePods, audit.SourceMissing} {
		if f := findingOf(found, reason, "deployment/still"); f != nil {
			t.Errorf("%+v", f)
		}
	}
	if f := findingOf(found, audit.SourceMissing, "deployment/lost"); f == nil || f.Pods != 1 || !strings.HasPrefix(f.Fix, "kubectl create configmap gone -n "+w.NS) {
		t.Errorf("%+v", f)
	}
	if got := w.plugin("audit", "--exit-code"); got.status != 3 || !strings.Contains(got.stdout, "StalePods") || got.stderr != "" {
		t.Errorf("%+v", got)
	}
	// The fix is a fix, if the new pods are not of the same second as the edit.
	w.AfterThisSecond()
	w.Kubectl("rollout", "restart", "deployment/web")
	w.Eventually("the restarted pods are not stale", func() string {
		found := w.audited()
		for _, reason := range []audit.Reason{audit.StalePods, audit.StalenessUnknown} {
			if f := findingOf(found, reason, "deployment/web"); f != nil {
				return f.Message
			}
		}
		return w.NotRolledOut("web")
	})
}

// A key that is removed leaves no time, and yet no pod that has it is taken for a fresh one (rule 26).
func TestAuditNoticesARemovedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A", "level", "1"))
	// The pod is written at least two seconds after the ConfigMap.
	w.AfterThisSecond()
	w.AfterThisSecond()
	w.Create(reading("web", "app"))
	w.Eventually("web runs", func() string { return w.NotRolledOut("web") })
	if f := findingOf(w.audited(), audit.StalenessUnknown, "deployment/web"); f != nil {
		t.Errorf("before the removal: %+v", f)
	}
	before := managedTimes(w, "app")
	w.Kubectl("patch", "configmap/app", "--type=json", "-p", `[{"op":"remove","path":"/data/level"}]`)
	if after := managedTimes(w, "app"); after != before {
		t.Fatalf("the API server notes %s now, and not %s: rule 26 is wrong", after, before)
	}
	if f := findingOf(w.audited(), audit.StalenessUnknown, "deployment/web"); f == nil || !strings.Contains(f.Message, "a key is removed") {
		t.Errorf("after the removal: %+v", f)
	}
}

func managedTimes(w *world, name string) string {
	w.Helper()
	return w.Kubectl("get", "configmap", name, "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].time}")
}

// Rules 28 to 31.
func TestAuditFindsWhatOtherToolsDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	slow := func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 599 }
	checksum := func(d *appsv1.Deployment) { d.Spec.Template.Annotations = map[string]string{"checksum/config": "0"} }
	w.Create(configMap("app", "color", "A"), configMap("web-9cd6bc84mc", "color", "A"), configMap("web-7cd6bc84mc", "color", "B"),
		configMap("old-7cd6bc84mc", "color", "B"),
		reading("canary", "app", slow), reading("helm", "app", checksum), reading("files", "app"),
		reading("reloaded", "app", gen.Annotated("reloader.stakater.com/auto", "true")),
		reading("waved", "app", gen.Annotated("wave.pusher.com/update-on-config-change", "true")),
		reading("kustomized", "web-9cd6bc84mc"), deployment("tracked", envFrom("app")))
	w.WaitPinned("tracked", "app", "color", "A")
	for _, name := range []string{"canary", "kustomized"} {
		w.Eventually(name+" has a pod", func() string {
			if len(w.Pods(name)) == 0 {
				return "none"
			}
			return ""
		})
	}
	w.Kubectl("patch", "deployment/canary", "--type=json", "-p", `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"app:2"}]`)
	// Its first ReplicaSet still names the copy that the next deploy left.
	w.Kubectl("patch", "deployment/kustomized", "--type=json", "-p", `[{"op":"replace","path":"/spec/template/spec/containers/0/envFrom/0/configMapRef/name","value":"web-7cd6bc84mc"}]`)
	var found collect.Audit
	w.Eventually("a rollout with old and new pods", func() string {
		found = w.audited()
		if f := findingOf(found, audit.SharedDuringRollout, "deployment/canary"); f == nil || f.Pods != 2 || f.Fix != "kubectl confrev track deployment/canary -n "+w.NS {
			return fmt.Sprintf("%+v", f)
		}
		return ""
	})
	for _, want := range []struct {
		reason   audit.Reason
		object   string
		severity audit.Severity
		fix      string
	}{
		{audit.NothingRestarts, "deployment/files", audit.Warning, "kubectl confrev track deployment/files -n " + w.NS},
		{audit.ChecksumAnnotation, "deployment/helm", audit.Info, "kubectl confrev track deployment/helm -n " + w.NS},
		{audit.ReloaderAnnotation, "deployment/reloaded", audit.Info, "kubectl confrev track deployment/reloaded -n " + w.NS},
		{audit.WaveAnnotation, "deployment/waved", audit.Info, "kubectl confrev track deployment/waved -n " + w.NS},
		{audit.HashedNames, "deployment/kustomized", audit.Info, "kubectl annotate deployment/kustomized -n " + w.NS + " confrev.io/mode=attach"},
		{audit.UnusedCopies, "configmap/old-*", audit.Warning, "grep -w -e old-7cd6bc84mc"},
	} {
		if f := findingOf(found, want.reason, want.object); f == nil || f.Severity != want.severity || !strings.Contains(f.Fix, want.fix) {
			t.Errorf("%s of %s: %+v", want.reason, want.object, f)
		}
	}
	for _, f := range found.Findings {
		switch {
		case f.Object == "deployment/tracked":
			t.Errorf("confrev follows it: %+v", f)
		case f.Reason == audit.UnusedCopies && f.Object != "configmap/old-*":
			t.Errorf("a ReplicaSet names it: %+v", f)
		case f.Reason == audit.NothingRestarts && !slices.Contains([]string{"deployment/files", "deployment/canary"}, f.Object):
			t.Errorf("%+v", f)
		}
	}
	page := w.pluginPrints("audit", "-o", "markdown")
	for _, want := range []string{"# Configuration audit\n", "\n## NothingRestarts\n", "| Warning | " + w.NS + " | deployment/files |", "`kubectl confrev track deployment/files -n " + w.NS + "`"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	// The command for unused copies runs, and finds nothing but the copy itself.
	search := findingOf(found, audit.UnusedCopies, "configmap/old-*").Fix
	if got := w.runIn("", "", "sh", "-c", search); !strings.Contains(got.stdout, "name: old-7cd6bc84mc") {
		t.Errorf("%s: %+v", search, got)
	}
	w.examples(t.TempDir(), []int{0, 3, 4}, "audit")
}

// Rule 24: it only gets and lists, says what the user may not see, and takes nothing of that for fine.
func TestAuditNeedsFewRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A"), secret("db", corev1.SecretTypeOpaque, "password", "example"), reading("web", "app"),
		reading("vault", "app", gen.Template(gen.Env("secret/db", "password"))), configMap("old-7cd6bc84mc", "color", "B"))
	for _, name := range []string{"web", "vault"} {
		w.Eventually(name+" runs", func() string { return w.NotRolledOut(name) })
	}
	viewer := w.account("viewer", rights("", []string{"pods", "configmaps", "serviceaccounts"}, "list"),
		rights("apps", []string{"deployments", "statefulsets", "daemonsets", "replicasets", "controllerrevisions"}, "list"),
		rights("batch", []string{"jobs", "cronjobs"}, "list"), rights("networking.k8s.io", []string{"ingresses"}, "list"),
		rights("argoproj.io", []string{"rollouts"}, "list"))
	mark, err := cluster.AuditNow()
	w.Must(err)
	found := w.audited(viewer, "--margin=0s")
	if f := findingOf(found, audit.StalenessUnknown, "deployment/vault"); f == nil || f.Pods != 1 || !strings.Contains(f.Message, "you may not list Secrets") {
		t.Errorf("%+v", f)
	}
	if found.Summary.Secrets != -1 || !slices.ContainsFunc(found.Notes, func(n string) bool { return strings.HasPrefix(n, "you may not list secrets") }) {
		t.Errorf("%+v, %q", found.Summary, found.Notes)
	}
	if f := findingOf(found, audit.UnusedCopies, "configmap/old-*"); f == nil || f.Severity != audit.Warning {
		t.Errorf("all that may use it may be seen: %+v", f)
	}
	requests, err := cluster.Requests(mark, func(r env.Request) bool {
		return r.Impersonated.Username != "" && r.Object.Namespace == w.NS && strings.HasPrefix(r.UserAgent, "kubectl-confrev/")
	})
	w.Must(err)
	if len(requests) < 10 {
		t.Errorf("found only the requests %v: the test reads the log wrongly", requests)
	}
	for _, r := range requests {
		// The RoleBinding says where confrev is.
		if r.Verb != "get" && r.Verb != "list" || r.Verb == "get" && !slices.Contains([]string{"namespaces", "rolebindings"}, r.Object.Resource) {
			t.Errorf("it asked: %s", r)
		}
	}
	if got := w.plugin("audit", "--exit-code", viewer); got.status != 3 {
		t.Errorf("%+v", got)
	}

	// What docs/audit.md says about the ClusterRole view.
	w.Create(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "view"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "onlooker", Namespace: w.NS}}})
	onlooker := "system:serviceaccount:" + w.NS + ":onlooker"
	w.Eventually("the rights of view", func() string { return w.lacks(onlooker, rights("", []string{"pods"}, "list")) })
	notes := w.audited("--as=" + onlooker).Notes
	if len(notes) != 2 || !strings.Contains(notes[0], "list rollouts") || !strings.Contains(notes[1], "list secrets") {
		t.Errorf("with the ClusterRole view: %q", notes)
	}

	some := w.account("some", rights("apps", []string{"deployments"}, "list"), rights("", []string{"pods"}, "list"))
	found = w.audited(some)
	if f := findingOf(found, audit.StalenessUnknown, "deployment/web"); f != nil {
		t.Errorf("without ReplicaSets it is not known whose pods they are: %+v", f)
	}
	if f := findingOf(found, audit.NothingRestarts, "deployment/web"); f == nil || f.Pods != -1 {
		t.Errorf("without ReplicaSets it is not known how many pods it has: %+v", f)
	}
	if found.Summary.Unknown != 2 || found.Summary.Unchanged != 0 || found.Summary.ConfigMaps != -1 {
		t.Errorf("a user who sees no sources: %+v", found.Summary)
	}
	blind := w.account("blind", rights("apps", []string{"deployments"}, "list"), rights("", []string{"configmaps"}, "list"))
	found = w.audited(blind)
	if f := findingOf(found, audit.UnusedCopies, "configmap/old-*"); f == nil || f.Severity != audit.Unknown || found.Summary.Pods != -1 {
		t.Errorf("a user who may not see pods: %+v, %+v", f, found.Summary)
	}
	w.pluginFails(1, "audit one namespace instead, with -n NAMESPACE", "audit", "-A", viewer)
	w.pluginFails(1, "cannot list resource", "audit", w.account("nothing"))
	w.pluginFails(1, "cannot reach the API server", "audit", w.unreachable())
	w.pluginFails(1, "less than zero", "audit", "--margin=-1s")
	w.pluginFails(1, `unknown command "web"`, "audit", "web")
}

// Nothing is reported of a namespace without configuration, and that is not called a proof.
func TestAuditOfAnEmptyNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.plugin("audit", "--exit-code"); got.status != 0 || !strings.Contains(got.stdout, "Nothing was found, as far as you may see. That is no proof") {
		t.Errorf("%+v", got)
	}
	some := w.account("some", rights("apps", []string{"deployments"}, "list"))
	if got := w.plugin("audit", "--exit-code", some); got.status != 4 || !strings.Contains(got.stderr, "note: you may not list pods") {
		t.Errorf("what may not be seen is not fine: %+v", got)
	}
}
