package env

import (
	"context"
	"os"

	corev1 "k8s.io/api/core/v1"
)

const (
	// RealNode makes Up start a real node in addition to KWOK's: a kubelet and containerd, whose containers really run.
	RealNode = "--real-node"
	// ProbeImage is the one image that the real node has for containers; hack/cluster/probe says what it does.
	ProbeImage = "confrev.io/probe:latest"
	// nodeKey is the key of the real node's label and taint.
	nodeKey = "confrev.io/node"
)

// OnRealNode makes a pod run on the real node, in the machine's network: the node has no other.
func OnRealNode(spec *corev1.PodSpec) {
	spec.HostNetwork = true
	spec.NodeSelector = map[string]string{nodeKey: "real"}
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: nodeKey, Operator: corev1.TolerationOpExists})
}

// NodeStop ends the real node's kubelet and all its containers, as a reboot does. To the API server, the node and its
// pods stay what they were.
func (c *Cluster) NodeStop(ctx context.Context) error {
	_, err := hackCluster(ctx, os.Stderr, "node", "stop", "--name", c.Name)
	return err
}

// NodeStart starts the real node again and waits until its kubelet is ready, which then starts the containers of the
// pods that it had.
func (c *Cluster) NodeStart(ctx context.Context) error {
	_, err := hackCluster(ctx, os.Stderr, "node", "start", "--name", c.Name)
	return err
}

// Logs returns what a pod's current container on the real node printed; args are those of kubectl logs, such as
// --previous.
func (c *Cluster) Logs(ctx context.Context, namespace, pod string, args ...string) (string, error) {
	return c.Kubectl(ctx, append([]string{"--namespace", namespace, "logs", pod}, args...)...)
}
