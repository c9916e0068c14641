//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/gen"
)

func TestPluginSetOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"), deployment("web", gen.Untracked, envFrom("app")))
	w.confrev("set", "owner", "configmap/app", "deployment/web", "--dry-run=server").says("configmap/app owned (server dry run)")
	var cm corev1.ConfigMap
	w.Must(json.Unmarshal([]byte(w.confrev("set", "owner", "cm/app", "deploy/web", "--dry-run=client", "-o", "json").says().stdout), &cm))
	if len(cm.OwnerReferences) != 1 {
		t.Errorf("it would have the owners %v", cm.OwnerReferences)
	}
	if track := w.Deployment("web").Annotations[keys.Track]; track != "" {
		t.Fatalf("a dry run lists %s", track)
	}
	w.confrev("set", "owner", "configmap/app", "deployment/web").says("configmap/app owned", "confrev.io/track of deployment/web: (nothing) -> configmap/app", "a rollout",
		"deleting deployment/web now deletes configmap/app too", "kubectl confrev set owner configmap/app deployment/web --remove")
	w.WaitPinned("web", "app", "v", "1")
	w.confrev("set", "owner", "configmap/app", "deployment/web").says("configmap/app unchanged")
	w.confrev("set", "owner", "configmap/app", "deployment/web", "--remove").says("configmap/app no longer owned\n", "deployment/web no longer owns it", "kubectl confrev untrack deployment/web configmap/app")
	w.Must(w.Get("app", &cm))
	cm = corev1.ConfigMap{}
	w.Must(w.Get("app", &cm))
	if len(cm.OwnerReferences) != 0 {
		t.Errorf("owners are left: %v", cm.OwnerReferences)
	}

	w.confrev("set", "owner", "configmap/app").fails(1, "want a source and a workload")
	w.confrev("set", "owner", "pod/app", "deployment/web").fails(1, "configmap/NAME or secret/NAME")
	w.confrev("set", "owner", "configmap/none", "deployment/web").fails(1, `configmaps "none" not found`)
	w.confrev("set", "owner", "configmap/app", "deployment/none").fails(1, `deployments.apps "none" not found`)
	w.confrev("set", "owner", "configmap/app", "deployment/web", w.unreachable()).fails(1, "cannot reach the API server")
	w.confrev("set", "owner", "configmap/app", "deployment/web", w.account("reader",
		rights("apps", []string{"deployments"}, "get"), rights("", []string{"configmaps"}, "get"))).fails(1, "forbidden", "cannot update")
	w.examples("", nil, "set", "owner")
}

// What opts the workload in already stays as it is; a workload that opted out is refused, and nothing is written.
func TestPluginSetOwnerLeavesWhatIsTracked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"))
	for name, test := range map[string]struct{ track, owners, want string }{
		"listed": {"configmap/other", "", "configmap/app,configmap/other"}, "all": {"all", "", "all"}, "consents": {"", "true", ""}, "out": {"none", "true", "none"},
	} {
		options := []deploymentOption{gen.Untracked, envFrom("app")}
		for key, value := range map[string]string{keys.Track: test.track, keys.Owners: test.owners} {
			if value != "" {
				options = append(options, gen.Annotated(key, value))
			}
		}
		w.Create(deployment(name, options...))
		if name == "out" {
			w.confrev("set", "owner", "configmap/app", "deployment/out").fails(1, "deployment/out is opted out of everything", "kubectl confrev track deployment/out configmap/app")
			w.confrev("create", "configmap", "new", "--owner=deployment/out").fails(1, "deployment/out is opted out of everything")
		} else {
			w.confrev("set", "owner", "configmap/app", "deployment/"+name).says("configmap/app owned")
		}
		if got := w.Deployment(name).Annotations[keys.Track]; got != test.want {
			t.Errorf("%s: %s is %q, want %q", name, keys.Track, got, test.want)
		}
	}
	var cm corev1.ConfigMap
	w.Must(w.Get("app", &cm))
	if len(cm.OwnerReferences) != 3 || !w.Gone("new") {
		t.Errorf("it has the owners %v", cm.OwnerReferences)
	}
	// A namespace that opts all in: a list would narrow that.
	w.Kubectl("label", "namespace", w.NS, keys.Track+"=all")
	w.Create(deployment("inherits", gen.Untracked, envFrom("app")))
	w.confrev("set", "owner", "configmap/app", "deployment/inherits").says("configmap/app owned")
	if got := w.Deployment("inherits").Annotations[keys.Track]; got != "" {
		t.Errorf("%s is %q", keys.Track, got)
	}
}

func TestPluginCreateWithOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(deployment("web", gen.Untracked, envFrom("app")))
	dir := t.TempDir()
	w.writeFile(dir, "config.yml", "level: info\n")
	got := w.runIn(dir, "", "kubectl", "confrev", "create", "configmap", "app", "--from-file=config.yml", "--from-literal=v=1", "--owner", "deployment/web")
	if got.status != 0 || !strings.Contains(got.stdout, "configmap/app created") || !strings.Contains(got.stdout, "deleting deployment/web now deletes configmap/app too") {
		t.Fatalf("status %d\n%s%s", got.status, got.stdout, got.stderr)
	}
	var cm corev1.ConfigMap
	w.Must(w.Get("app", &cm))
	if cm.Data["config.yml"] != "level: info\n" || len(cm.OwnerReferences) != 1 {
		t.Errorf("it has %v and the owners %v", cm.Data, cm.OwnerReferences)
	}
	w.WaitPinned("web", "app", "v", "1")
	w.confrev("create", "configmap", "app", "--owner=deployment/web").fails(1, `configmaps "app" already exists`)
	if got := w.Deployment("web").Annotations[keys.Track]; got != "configmap/app" {
		t.Errorf("%s is %q", keys.Track, got)
	}
	out := w.confrev("create", "secret", "generic", "db", "--type=example.com/x", "--from-literal=k=v", "--owner=deployment/web", "--dry-run=client", "-o", "json").says().stdout
	var secret corev1.Secret
	w.Must(json.Unmarshal([]byte(out), &secret))
	if secret.Type != "example.com/x" || len(secret.OwnerReferences) != 1 || secret.Kind != "Secret" {
		t.Errorf("it would create\n%s", out)
	}
	w.confrev("create", "configmap", "plain", "--from-literal=k=v").says("configmap/plain created\n")

	w.confrev("create", "configmap", "app", "--owner=deployment/web").fails(1, `configmaps "app" already exists`)
	w.confrev("create", "configmap", "new", "--owner=deployment/none").fails(1, `deployments.apps "none" not found`)
	w.confrev("create", "configmap", "new", "--from-file=/nonexistent").fails(1, "no such file")
	w.confrev("create", "configmap").fails(1, "NAME is required")
	w.confrev("create", "configmap", "new", w.unreachable()).fails(1, "cannot reach the API server")
	w.confrev("create", "secret", "generic", "new", w.account("stranger")).fails(1, "forbidden", "cannot create")
	w.examples(dir, nil, "create", "configmap")
	w.examples(dir, nil, "create", "secret", "generic")
	w.Kubectl("delete", "configmap/app", "secret/db")
	w.examples(dir, nil, "create")
	w.examples(dir, nil, "create", "secret")
}

func TestPluginSetVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "v", "1"), deployment("web"))
	add := []string{"set", "volume", "deployment/web", "-t", "configmap", "--configmap-name=app", "--mount-path=/etc/app"}
	var would appsv1.Deployment
	w.Must(json.Unmarshal([]byte(w.confrev(append(add, "--dry-run=client", "-o", "json")...).says().stdout), &would))
	if len(would.Spec.Template.Spec.Volumes) != 1 {
		t.Errorf("it would have the volumes %v", would.Spec.Template.Spec.Volumes)
	}
	w.confrev(add...).says("deployment.apps/web volumes updated", "rolls out now")
	w.WaitPinned("web", "app", "v", "1")
	w.confrev(add...).says("unchanged", "mounted there already")
	w.confrev("set", "volume", "deployment/web", "-t", "emptydir", "--name=tmp", "--mount-path=/tmp", "--containers=app", "--read-only").says("updated")
	w.confrev("set", "volume", "deployment/web").says("deployment/web\n", "configmap/app as app\n", "mounted at /etc/app in app\n",
		"emptydir as tmp\n", "mounted at /tmp in app, read-only\n")
	w.confrev("set", "volume", "deployment/web", "--remove", "--name=app").says("updated")
	spec := w.Deployment("web").Spec.Template.Spec
	if len(spec.Volumes) != 1 || spec.Volumes[0].Name != "tmp" || len(spec.Containers[0].VolumeMounts) != 1 {
		t.Errorf("left are %v and %v", spec.Volumes, spec.Containers[0].VolumeMounts)
	}

	w.confrev("set", "volume").fails(1, "no workload given")
	w.confrev("set", "volume", "deployment/none").fails(1, `deployments.apps "none" not found`)
	w.confrev("set", "volume", "deployment/web", "-t", "nfs", "--mount-path=/x").fails(1, "--type=nfs: want configmap")
	w.confrev("set", "volume", "deployment/web", "-t", "secret", "--mount-path=/x").fails(1, "needs --secret-name")
	w.confrev("set", "volume", "deployment/web", "-t", "emptydir", "--mount-path=x").fails(1, "want an absolute path")
	w.confrev("set", "volume", "deployment/web", "--remove", "--name=none").fails(1, "deployment/web: it has no volume none")
	w.confrev("set", "volume", "deployment/web", "--remove", "--name=tmp", "--containers=app").fails(1, "--remove and --containers exclude each other")
	w.confrev("set", "volume", "deployment/web", "--sub-path=v").fails(1, "no --type is given")
	w.confrev("set", "volume", "deployment/web", w.unreachable()).fails(1, "cannot reach the API server")
	w.confrev("set", "volume", "deployment/web", "--remove", "--name=tmp", w.account("reader", rights("apps", []string{"deployments"}, "get"))).
		fails(1, "forbidden", "cannot patch")
	w.examples("", nil, "set", "volume")
	w.examples("", nil, "set")
	w.confrev("set", "nothing").fails(1, `unknown command "nothing"`)
}
