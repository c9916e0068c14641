//go:build node

package node

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The tests of this file are of the node itself, without confrev: what they hold is what the others stand on.

// createSources creates what everyWay reads.
func (w *world) createSources() {
	w.Helper()
	w.create(configMap("app", "mode", "blue"), secret("db", "password", "s1"))
}

// everyWay reads these sources in every way in which a pod can.
func everyWay() []option {
	return []option{
		byVolume("configmap/app"), byVolume("secret/db"), byProjected("configmap/app", "secret/db"),
		byEnv("CFG_MODE", "configmap/app", "mode"), byEnvFrom("secret/db"),
	}
}

// wantReading is what a container reads in every way.
func wantReading(mode string) reading {
	return reading{
		Env: map[string]string{"CFG_MODE": mode, "CFG_ALL_password": "s1"},
		Files: map[string]string{
			volumePath("configmap/app", "mode"): mode,
			volumePath("secret/db", "password"): "s1",
			projectedPath("mode"):               mode,
			projectedPath("password"):           "s1",
		},
	}
}

func (w *world) checkReading(what string, got, want reading) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// After a reboot the same pods run again, with new containers, which read what there is then.
func TestPodsComeBackAfterTheNodeWasRestarted(t *testing.T) {
	w := newWorld(t)
	w.createSources()
	w.create(probe("web", append(everyWay(), replicas(2))...))
	before := w.waitPods("web", 2)
	w.rebootNode(func() { w.edit("app", "mode", "green") })
	for _, pod := range before {
		pod = w.waitRestarted(pod)
		w.checkReading("after the restart", w.startedWith(pod), wantReading("green"))
		w.checkReading("before it", w.previouslyStartedWith(pod), wantReading("blue"))
	}
}

func TestContainersReadTheirConfigurationInEveryWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createSources()
	w.create(probe("web", everyWay()...))
	pod := w.waitPods("web", 1)[0]
	if pod.Spec.NodeName != "real" {
		t.Errorf("the pod is on node %s", pod.Spec.NodeName)
	}
	w.checkReading("at its start", w.startedWith(pod), wantReading("blue"))
}

// This is what confrev is for: without it, a container that is restarted in place, in a pod that was rolled out with the
// old configuration, reads the new one, and its volumes change under it even before.
func TestARestartInPlaceReadsWhatTheSourceSaysNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createSources()
	w.create(probe("web", everyWay()...))
	pod := w.waitPods("web", 1)[0]
	w.checkReading("at its start", w.startedWith(pod), wantReading("blue"))
	w.edit("app", "mode", "green")
	w.waitReads(pod, volumePath("configmap/app", "mode"), "green")
	w.waitReads(pod, projectedPath("mode"), "green")
	pod = w.restart(pod)
	w.checkReading("after the restart", w.startedWith(pod), wantReading("green"))
}

func TestAFaultyConfigurationShowsAsACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(configMap("app", "mode", "crash"), probe("web", byEnv("CFG_MODE", "configmap/app", "mode")))
	w.eventually("a container that failed", func() string {
		pods := w.pods("web")
		if len(pods) != 1 || len(pods[0].Status.ContainerStatuses) != 1 {
			return "no container yet"
		}
		status := pods[0].Status.ContainerStatuses[0]
		if end := status.LastTerminationState.Terminated; end == nil || end.ExitCode != 1 {
			return fmt.Sprintf("its status is %v", status)
		}
		return ""
	})
}

func TestOtherPodsStayAwayFromTheRealNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// More than KWOK's nodes are, so that the scheduler would spread them over the real one too.
	d := probe("web", replicas(8))
	spec := &d.Spec.Template.Spec
	spec.NodeSelector, spec.Tolerations = nil, nil
	w.create(d)
	for _, pod := range w.waitPods("web", 8) {
		if pod.Spec.NodeName == "real" {
			t.Errorf("%s runs on the real node", pod.Name)
		}
	}
}
