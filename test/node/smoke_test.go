//go:build node

package node

import (
	"fmt"
	"strings"
	"testing"
)

// The tests of this file are of the node itself, without confrev: what they hold is what the others stand on.

// After a reboot the same pods run again, with new containers, which read what there is then.
func TestPodsComeBackAfterTheNodeWasRestarted(t *testing.T) {
	w := newWorld(t)
	w.createSources()
	w.Create(deployment.with(2, fields{"replicas": int64(2)}).new(probe(everyWay)))
	before := w.waitPods(2)
	w.rebootNode(func() { w.editSources("green") })
	for _, pod := range before {
		pod = w.waitRestarted(pod)
		w.startedWithEverything("after the restart", pod, "green")
		w.checkReading("before it", w.startedWith(pod, "--previous"), everything("blue"))
	}
}

func TestContainersReadTheirConfigurationInEveryWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createSources()
	w.Create(deployment.new(probe(everyWay)))
	pod := w.waitPods(1)[0]
	if pod.Spec.NodeName != "real" {
		t.Errorf("the pod is on node %s", pod.Spec.NodeName)
	}
	w.startedWithEverything("at its start", pod, "blue")
}

// This is what confrev is for: without it, a container that is restarted in place, in a pod that was rolled out with the
// old configuration, reads the new one, as does a pod that replaces another, and volumes change even before.
func TestWithoutConfrevContainersReadSources(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createSources()
	w.Create(deployment.new(probe(everyWay)))
	pod := w.waitPods(1)[0]
	w.startedWithEverything("at its start", pod, "blue")
	w.editSources("green")
	for file := range everything("green").Files {
		if !strings.Contains(file, "subPath") { // the kubelet mounts these once
			w.waitReads(pod, file, "green")
		}
	}
	pod = w.restart(pod)
	w.checkReading("after the restart", w.startedWith(pod), everything("green"))
	w.Kubectl("delete", "pod", pod.Name)
	w.startedWithEverything("replaced", w.waitPods(1)[0], "green")
}

func TestAFaultyConfigurationShowsAsACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "mode", "crash"), deployment.new(probe(byEnv("configmap/app", "mode"))))
	w.Eventually("a container that failed", func() string {
		pods := w.pods()
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
	pod := probe()
	pod.NodeSelector, pod.Tolerations = nil, nil
	w.Create(deployment.with(8, fields{"replicas": int64(8)}).new(pod))
	for _, pod := range w.waitPods(8) {
		if pod.Spec.NodeName == "real" {
			t.Errorf("%s runs on the real node", pod.Name)
		}
	}
}
