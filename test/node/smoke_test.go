//go:build node

package node

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
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

// However a node ends, its network ends with it, and no route of the machine leads there any more. It can be started again.
func TestNothingIsLeftOfTheNetworkOfANodeThatWasKilled(t *testing.T) {
	w := newWorld(t)
	w.Create(configMap("app", "mode", "blue"), deployment.new(probe(byVolume("configmap/app"))))
	before := w.waitPods(1)[0]
	var api discoveryv1.EndpointSlice
	w.Must(cluster.Client.Get(w.Ctx, types.NamespacedName{Namespace: "default", Name: "kubernetes"}, &api))
	machine := api.Endpoints[0].Addresses[0]
	if !hasAddress(t, machine) {
		t.Errorf("while the node runs, the machine does not have the address %s, at which pods find the API server", machine)
	}
	if before.Status.PodIP == before.Status.HostIP {
		t.Errorf("the pod has its node's address, %s", before.Status.PodIP)
	}
	pid, err := cluster.NodePID()
	w.Must(err)
	w.Must(syscall.Kill(pid, syscall.SIGKILL))
	// Whatever happens, the other tests need the node.
	defer func() { w.Must(cluster.Node(context.WithoutCancel(w.Ctx), "start")) }()
	w.Eventually("the end of the node's network", func() string {
		if hasAddress(t, machine) {
			return "the machine still has its end of the link, and with that its routes"
		}
		return ""
	})
}

func hasAddress(t *testing.T, address string) bool {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(all, func(a net.Addr) bool { return strings.HasPrefix(a.String(), address+"/") })
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
