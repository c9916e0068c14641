//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// patience bounds every wait for something that must happen.
const patience = env.Patience

// world is a namespace of its own for one test, and what a user does in it.
type world struct {
	*testing.T
	env.World
}

// namespacePrefix begins the names of the tests' own namespaces.
const namespacePrefix = "e2e-"

// newWorld creates a namespace, and deletes what runs in it when the test ends. The namespace stays for as long as the cluster does: deleting
// one takes the control plane a hundred requests, and with a thousand tests on a busy machine, those that are about the deletion of a
// namespace waited in its queue for minutes.
func newWorld(t *testing.T) *world {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: namespacePrefix}}
	if err := cluster.Client.Create(t.Context(), ns); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	t.Cleanup(func() {
		for _, kind := range runningKinds {
			// The test's own context has ended.
			if err := deleteAll(context.Background(), kind, ns.Name); err != nil {
				t.Errorf("delete what runs in namespace %s: %v", ns.Name, err)
			}
		}
	})
	return worldIn(t, ns.Name)
}

// deleteAll deletes all objects of a kind in a namespace, each by a request of its own: one for all of them takes as long as all of them, and the API
// server ends it after a minute. The namespace may be gone, and not every cluster has Rollouts.
func deleteAll(ctx context.Context, kind schema.GroupVersionKind, namespace string) error {
	all := metadata.NewList(kind)
	if err := cluster.Client.List(ctx, all, client.InNamespace(namespace)); err != nil {
		if meta.IsNoMatchError(err) {
			return nil
		}
		return err
	}
	for i := range all.Items {
		err := cluster.Client.Delete(ctx, &all.Items[i], client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// runningKinds are the kinds of what runs in a namespace, owners first, so that nothing is created again.
var runningKinds = []schema.GroupVersionKind{
	{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}, {Group: "argoproj.io", Version: "v1alpha1", Kind: "AnalysisRun"},
	appsv1.SchemeGroupVersion.WithKind("Deployment"), appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"), batchv1.SchemeGroupVersion.WithKind("CronJob"),
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), batchv1.SchemeGroupVersion.WithKind("Job"), corev1.SchemeGroupVersion.WithKind("Pod"),
}

// worldIn returns a world in a namespace that exists.
func worldIn(t *testing.T, namespace string) *world {
	return &world{t, cluster.WorldIn(t, namespace)}
}

// kubectlEdit runs kubectl edit with a command of the shell as the editor.
func (w *world) kubectlEdit(editor string, objects ...string) error {
	_, err := cluster.RunEnv(w.Ctx, []string{"KUBE_EDITOR=" + editor}, "", "kubectl", append([]string{"--namespace", w.NS, "edit"}, objects...)...)
	return err
}

// rolloutRevision returns the number by which `kubectl rollout undo --to-revision` knows the template with a pin.
func (w *world) rolloutRevision(deployment string, pinned pin.Pin) string {
	w.Helper()
	for _, rs := range w.ReplicaSets(deployment) {
		if strings.HasSuffix(rs.Spec.Template.Annotations[keys.Pins], "="+pinned.String()) {
			return rs.Annotations["deployment.kubernetes.io/revision"]
		}
	}
	w.Fatalf("no ReplicaSet of %s is pinned to %s", deployment, pinned)
	return ""
}

// configMap makes a ConfigMap of key, value, key, value, ….
func configMap(name string, data ...string) *corev1.ConfigMap {
	return gen.Unsaved(gen.ConfigMap(name, gen.Data(data...)))
}

// secret makes a Secret of key, value, key, value, ….
func secret(name string, kind corev1.SecretType, data ...string) *corev1.Secret {
	s := gen.Unsaved(gen.Secret(name, kind, nil))
	s.StringData = gen.Data(data...)
	return s
}

// deploymentOption changes a Deployment that is about to be created.
type deploymentOption = gen.DeploymentModifier

// quota creates a ResourceQuota, and waits until it counts: until then, the API server refuses what it limits for another reason.
func (w *world) quota(name, hard string) {
	w.Helper()
	w.Kubectl("create", "quota", name, "--hard="+hard)
	w.Eventually("quota "+name+" counts", func() string {
		quota := &corev1.ResourceQuota{}
		if w.Must(w.Get(name, quota)); len(quota.Status.Used) == 0 {
			return "not yet"
		}
		return ""
	})
}

// deployment makes a tracked Deployment with one container.
func deployment(name string, options ...deploymentOption) *appsv1.Deployment {
	atOnce := gen.Template(func(spec *corev1.PodSpec) { spec.TerminationGracePeriodSeconds = new(int64(0)) })
	first := []deploymentOption{gen.Tracking("all"), gen.Replicas(1), atOnce}
	return gen.Unsaved(gen.Deployment(name, append(first, options...)...))
}

// envFrom takes all keys of ConfigMaps.
func envFrom(sources ...string) deploymentOption {
	var all []gen.PodSpecModifier
	for _, source := range sources {
		all = append(all, gen.EnvFrom("configmap/"+source))
	}
	return gen.Template(all...)
}

// envKey takes one key of a ConfigMap.
func envKey(source, key string, optional bool) deploymentOption {
	return gen.Template(gen.Env("configmap/"+source, key, gen.Optional(optional)))
}

// volume mounts a ConfigMap.
func volume(source string) deploymentOption { return gen.Template(gen.Volume("configmap/" + source)) }

func (w *world) writeFile(dir, name, text string) string {
	w.Helper()
	path := filepath.Join(dir, name)
	w.Must(os.WriteFile(path, []byte(text), 0o600))
	return path
}
