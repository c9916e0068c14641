//go:build perf

package perf

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/audit/collect"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

const (
	// auditedPods is how many pods an audit looks at, auditedWorkloads how many Deployments they belong to, each with a ConfigMap of its own.
	auditedPods      = 5000
	auditedWorkloads = 500
)

// BenchmarkAudit measures what an audit of 5,000 pods takes, and what it asks of the API server. The floor is kubectl getting the same
// pods. The pods are bound to no node, and their status is written as a kubelet writes it.
func BenchmarkAudit(b *testing.B) {
	w := newWorld(b)
	var owners []client.Object
	for i := range auditedWorkloads {
		name := fmt.Sprint("web-", i)
		d := untracked(name)
		d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name = name
		w.Must(w.TryCreate(configMap(name, "v")))
		w.Must(w.TryCreate(d))
		owners = append(owners, d)
	}
	w.many(auditedPods, creating, func(i int) error { return w.runningPod(fmt.Sprint("pod-", i), owners[i%auditedWorkloads]) })
	plugin, err := cluster.Build(w.Ctx, "kubectl-confrev", false)
	w.Must(err)
	kubectl, err := cluster.Tool(w.Ctx, "kubectl")
	w.Must(err)
	// Half of the pods are stale.
	for i := range auditedWorkloads / 2 {
		w.edit(fmt.Sprint("web-", i), "w")
	}
	w.checkAudit(plugin)
	t := newTable(b, fmt.Sprintf("%d pods, %d Deployments and ConfigMaps", auditedPods, auditedWorkloads), "median", "max", "requests", "LISTs")
	for b.Loop() {
		for _, command := range [][]string{
			{kubectl, "get", "pods", "--namespace", w.NS}, {plugin, "audit", "--namespace", w.NS}, {plugin, "audit", "-A"}, {plugin, "audit", "-A", "-o", "json"},
		} {
			var taken []time.Duration
			mark := w.mark()
			for range pluginRuns {
				taken = append(taken, w.timed(command...))
			}
			lists, all := w.askedBy(command[0], mark)
			line := strings.ReplaceAll(filepath.Base(command[0])+" "+strings.Join(command[1:], " "), w.NS, "NS")
			if s := measured(b, auditedPods); command[0] == kubectl {
				s.least(line, taken)
			} else {
				s.took(line, taken)
			}
			t.row(line, middle(taken), quantile(taken, 1),
				float64(all)/pluginRuns, float64(lists)/pluginRuns)
		}
	}
	t.print()
}

// checkAudit ends the benchmark if the audit does not find what there is: it would measure something else.
func (w *world) checkAudit(plugin string) {
	w.Helper()
	cmd := exec.CommandContext(w.Ctx, plugin, "audit", "--namespace", w.NS, "-o", "json")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
	out, err := cmd.Output()
	w.Must(err)
	var found collect.Audit
	w.Must(json.Unmarshal(out, &found))
	// Pods that started in the second of an edit are not known to be stale.
	if s := found.Summary; s.Pods != auditedPods || s.Workloads != auditedWorkloads || s.Stale+s.Unknown < auditedPods/2 || s.Stale < auditedPods/3 {
		w.Fatalf("the audit found %+v", s)
	}
}

// runningPod creates a pod of a Deployment and says that it runs.
func (w *world) runningPod(name string, owner client.Object) error {
	spec := gen.PodSpec(gen.EnvFrom("configmap/"+owner.GetName()), gen.Volume("configmap/"+owner.GetName()))
	for i := range 20 {
		spec.Containers[0].Env = append(spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: "a value of a usual length"})
	}
	// No scheduler has this name, so the pod stays where it is.
	spec.SchedulerName = "none"
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "volume-0", MountPath: "/etc/app"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": owner.GetName()},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, workload.Deployment.GVK)}}, Spec: *spec}
	if err := w.TryCreate(pod); err != nil {
		return err
	}
	now := metav1.Now()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "app", Ready: true, Image: "app:1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}}}}
	return cluster.Client.Status().Update(w.Ctx, pod)
}
