//go:build node

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/audit"
	"confrev.io/confrev/internal/audit/collect"
)

var plugin = sync.OnceValues(func() (string, error) {
	return cluster.Build(context.Background(), "kubectl-confrev", false)
})

// audited runs the audit and returns the reasons for which it reports each pod.
func (w *world) audited(args ...string) map[string][]audit.Reason {
	w.Helper()
	path, err := plugin()
	w.Must(err)
	cmd := exec.CommandContext(w.Ctx, path, append([]string{"audit", "--namespace", w.NS, "-o", "json"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
	out, err := cmd.Output()
	w.Must(err)
	var found collect.Audit
	w.Must(json.Unmarshal(out, &found))
	reasons := map[string][]audit.Reason{}
	for _, f := range found.Findings {
		name, _ := strings.CutPrefix(f.Object, "pod/")
		reasons[name] = append(reasons[name], f.Reason)
	}
	return reasons
}

// start creates a pod of its own, and waits until it runs.
func (w *world) start(name string, options ...option) corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: probe(options...)}
	w.Create(pod)
	w.Eventually(name+" runs", func() string { return w.notReady(name) })
	return *pod
}

// onlyInit makes what the container reads so far the reading of an init container, and leaves the container nothing.
func onlyInit(spec *corev1.PodSpec) {
	inInit(spec)
	spec.Containers[0].Env, spec.Containers[0].EnvFrom = nil, nil
}

// Rules 25 to 27, from a pod's point of view: what the audit says of each pod is what its container really got.
func TestAuditOfStalePods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "mode", "blue"), configMap("pair", "mode", "blue", "other", "blue"))
	w.AfterThisSecond()
	env := w.start("env", byEnv("configmap/app", "mode"), byEnvFrom("configmap/app"))
	part := w.start("part", bySubPath("configmap/app", "mode"))
	init := w.start("init", byEnv("configmap/app", "mode"), onlyInit)
	files := w.start("files", byVolume("configmap/app"))
	again := w.start("again", byEnv("configmap/app", "mode"))
	pair := w.start("pair", byEnvFrom("configmap/pair"))
	w.AfterThisSecond()
	if reasons := w.audited("--margin=0s"); len(reasons) > 0 {
		t.Errorf("before any change: %v", reasons)
	}

	w.Edit("app", "mode", "green")
	w.Kubectl("patch", "configmap/pair", "--type=json", "-p", `[{"op":"remove","path":"/data/other"}]`)
	w.waitReads(files, volumePath("configmap/app", "mode"), "green")
	// What starts within the second of the change is not known to be after it.
	w.AfterThisSecond()
	again = w.restart(again)
	young := w.start("young", byEnv("configmap/app", "mode"), bySubPath("configmap/app", "mode"))

	// What they really have.
	w.checkReading("again", w.startedWith(again), reading{Env: map[string]string{"CFG_ENV_mode": "green"}, Files: map[string]string{}})
	w.checkReading("env", w.last(env), reading{Env: map[string]string{"CFG_ENV_mode": "blue", "CFG_ENVFROM_mode": "blue"}, Files: map[string]string{}})
	w.checkReading("part", w.last(part), reading{Env: map[string]string{}, Files: map[string]string{subPath("configmap/app", "mode"): "blue"}})
	w.checkReading("init", w.startedWith(init, "--container=init"), reading{Env: map[string]string{"CFG_ENV_mode": "blue"}, Files: map[string]string{}})
	w.checkReading("young", w.startedWith(young), reading{Env: map[string]string{"CFG_ENV_mode": "green"}, Files: map[string]string{subPath("configmap/app", "mode"): "green"}})
	w.checkReading("pair", w.last(pair), reading{Env: map[string]string{"CFG_ENVFROM_mode": "blue", "CFG_ENVFROM_other": "blue"}, Files: map[string]string{}})

	for margin, ofAgain := range map[string][]audit.Reason{
		// It was restarted in place: only with time, or with a user who knows the kubelet, is it known to be after the change.
		"--margin=1h": {audit.StalenessUnknown}, "--margin=0s": nil,
	} {
		reasons := w.audited(margin)
		for pod, want := range map[string][]audit.Reason{
			"env": {audit.StalePods}, "part": {audit.StalePods}, "init": {audit.StalePods}, "files": {audit.FilesChanged},
			"young": nil, "pair": {audit.StalenessUnknown}, "again": ofAgain,
		} {
			if !slices.Equal(reasons[pod], want) {
				t.Errorf("%s: %s is reported as %v, want %v", margin, pod, reasons[pod], want)
			}
		}
	}
}

// last returns what a pod's container printed last.
func (w *world) last(pod corev1.Pod) reading {
	w.Helper()
	w.startedWith(pod)
	all, err := w.readings(pod.Name)
	w.Must(err)
	return all[len(all)-1]
}

// A container that starts while its source is edited has something between, often of the same second, and is never left out.
func TestAuditNeverLeavesOutAStaleContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "mode", "0"))
	pod := w.start("hasty", byEnv("configmap/app", "mode"))
	stale, edits := 0, 0
	for range 4 {
		// It is no matter if it fails: the container may end before the command does, and the command with it.
		if _, err := cluster.Kubectl(w.Ctx, "--namespace", w.NS, "exec", "hasty", "--", "/probe", "exit"); err != nil {
			t.Log(err)
		}
		w.Eventually("a restart during edits", func() string {
			edits++
			w.Edit("app", "mode", fmt.Sprint(edits))
			var now corev1.Pod
			w.Must(w.Get("hasty", &now))
			if restarts(now) <= restarts(pod) || now.Status.ContainerStatuses[0].State.Running == nil {
				return "it has not been restarted"
			}
			pod = now
			return ""
		})
		if got := w.startedWith(pod).Env["CFG_ENV_mode"]; got != fmt.Sprint(edits) {
			stale++
			if reasons := w.audited()["hasty"]; len(reasons) == 0 {
				t.Errorf("it has %q of %d edits, and is not reported", got, edits)
			}
		}
	}
	t.Logf("it was stale %d times of 4, after %d edits", stale, edits)
	if stale == 0 {
		t.Error("it always had the last edit: the test shows nothing")
	}
}
