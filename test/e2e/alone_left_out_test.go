//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// Rules 13 and 14: confrev starts again while it may not list Jobs, so CronJobs are left out. The revision that they share has only the anchor as its owner,
// and nothing that confrev watches shows that they use it. It stays, and so does what others no longer use, until confrev may list Jobs again.
// Not parallel: confrev's rights are changed.
func TestWhatALeftOutKindUsesStays(t *testing.T) {
	w := newWorld(t)
	w.Create(configMap("shared", "k", "A"))
	// More than the anchor would give way to.
	for i := range revision.MaxOwners/2 + 10 {
		w.Create(w.cronJobOf(fmt.Sprintf("job-%d", i), "shared"))
	}
	w.waitJobsPinned("shared", "A")
	w.Edit("shared", "k", "B")
	pinned := w.waitJobsPinned("shared", "B")
	w.Eventually("only the anchor owns it", func() string {
		made := &corev1.ConfigMap{}
		w.Must(w.Get(pinned, made))
		if owners := made.OwnerReferences; len(owners) != 1 || owners[0].Name != revision.AnchorName {
			return fmt.Sprint(len(owners), " owners")
		}
		return ""
	})

	stop(t)
	reinstallAfter(t)
	w.withoutRightTo("list", "batch", "jobs")
	start(t)
	w.Create(configMap("web", "color", "A"), deployment("web", envFrom("web"), gen.HistoryLimit(0)))
	unused := w.WaitPinned("web", "web", "color", "A").Revision
	w.editTo("B")
	// It was first seen later, so by then confrev would have deleted the other one too.
	w.logs(confrev, "may use it, so it stays\" controller=revision namespace="+w.NS+" revision=configmap/"+unused)
	for _, revision := range []string{pinned, unused} {
		if w.Gone(revision) {
			t.Errorf("%s was deleted, and CronJobs or their Jobs may use it", revision)
		}
	}

	w.Must(reinstall(t))
	w.waitGone(unused)
	w.Edit("shared", "k", "C")
	w.waitJobsPinned("shared", "C")
	w.waitGone(pinned)
}

// cronJobOf returns a suspended CronJob that takes its variables from a ConfigMap.
func (w *world) cronJobOf(name, source string) *unstructured.Unstructured {
	w.Helper()
	template := deployment(name, envFrom(source)).Spec.Template
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&template)
	w.Must(err)
	job := objectOf(workload.CronJob.GVK, name, aCronJob.spec(name, object))
	job.SetAnnotations(map[string]string{keys.Track: "all"})
	return job
}

// withoutRightTo removes a right of confrev's own account.
func (w *world) withoutRightTo(verb, group, resource string) {
	w.Helper()
	role := &rbacv1.ClusterRole{}
	w.Must(cluster.Client.Get(w.Ctx, client.ObjectKey{Name: "confrev"}, role))
	for i, rule := range role.Rules {
		if slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) {
			role.Rules[i].Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == verb })
		}
	}
	w.Must(cluster.Client.Update(w.Ctx, role))
	account := "system:serviceaccount:" + env.Namespace + ":confrev"
	w.Eventually("confrev may not "+verb+" "+resource, func() string {
		if w.lacks(account, rights(group, []string{resource}, verb)) == "" {
			return "it still may"
		}
		return ""
	})
}

// waitJobsPinned waits until all CronJobs are pinned to the revision of a source with this content, and returns its name.
func (w *world) waitJobsPinned(source, value string) string {
	w.Helper()
	want := revisionOf(configMap(source, "k", value))
	w.Eventually("all CronJobs are pinned to "+value, func() string {
		for _, job := range w.list(workload.CronJob.GVK) {
			if pins, err := workload.CronJob.Pins(&job); err != nil || pins[gen.Source("configmap/"+source)].Revision != want {
				return job.GetName() + " is not"
			}
		}
		return ""
	})
	return want
}
