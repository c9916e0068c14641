// Package env is the ground that tests, benchmarks and the demo stand on: a real control plane of hack/cluster, the
// chart installed by the real Helm, and confrev running as a process with the chart's ServiceAccount and rights (KWOK
// runs no containers), so that a missing right shows.
package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Namespace is where the chart is installed.
const Namespace = "confrev-system"

const (
	// ArgoRollouts makes Up start the real controller of Argo Rollouts too.
	ArgoRollouts = "--argo-rollouts"
	// RealNode makes Up start a real node in addition to KWOK's: a kubelet and containerd, whose containers really run.
	RealNode = "--real-node"
	// ProbeImage is the one image that the real node has for containers; hack/cluster/probe says what it does.
	ProbeImage = "confrev.io/probe:latest"
)

// Kubernetes makes Up start a control plane of that version, such as 1.35.
func Kubernetes(version string) string { return "--kubernetes=" + version }

// Root returns the folder of the repository, which the working directory of the first call is in: a binary built with -trimpath does not
// know where its source is.
var Root = sync.OnceValue(func() string {
	start, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module confrev.io/confrev\n") {
			return dir
		}
		if dir == filepath.Dir(dir) {
			panic("not in confrev's repository: " + start)
		}
	}
})

// Cluster is a running control plane, seen as its admin.
type Cluster struct {
	Name       string
	Kubeconfig string
	// AuditLog is the file in which the API server notes every request.
	AuditLog string
	Config   *rest.Config
	// Client reads and writes without a cache.
	Client client.Client
	// Dir is for what belongs to this run: binaries, logs, kubeconfigs.
	Dir string

	tools sync.Map
	// Proxy, if there is one, is what confrev talks to instead of the API server.
	Proxy interface {
		// Kubeconfig writes a kubeconfig with the proxy as its server.
		Kubeconfig(from, to string) error
	}
	// WebhookURL is where the API server finds the webhooks. Without one, Install makes a relay that stands for the Service
	// of all the confrevs that run, for as long as this process lives.
	WebhookURL string
	relay      *relay
}

// Up starts the named cluster, or uses the one that runs, and says on progress what it does. It takes flags of
// hack/cluster's verb up, such as RealNode.
func Up(ctx context.Context, name string, progress *os.File, flags ...string) (*Cluster, error) {
	// What it prints tells a person what to do next; that is not for those who read ours.
	if _, err := hackCluster(ctx, progress, append([]string{"up", "--name", name}, flags...)...); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "confrev-"+name+"-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Name: name, Dir: dir}
	var errs [2]error
	c.Kubeconfig, errs[0] = hackCluster(ctx, os.Stderr, "kubeconfig", "--name", name)
	c.AuditLog, errs[1] = hackCluster(ctx, os.Stderr, "audit-log", "--name", name)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return nil, err
	}
	c.Config.QPS = -1
	// Else controller-runtime complains, with a stack trace, that no one reads the log of the client.
	log.SetLogger(logr.Discard())
	c.Client, err = client.New(c.Config, client.Options{Scheme: clientgoscheme.Scheme})
	return c, err
}

// Discard removes what belongs to this run: binaries of hundreds of megabytes, and logs that show nothing when nothing failed.
func (c *Cluster) Discard() error { return os.RemoveAll(c.Dir) }

// Exit ends the process of a package's tests with their exit status, or with an error of their set-up, or because a confrev recovered from a panic. If
// all went well, it removes what belongs to the run.
func (c *Cluster) Exit(code int, err error) {
	// There is no cluster if it could not be started.
	if c != nil {
		err = errors.Join(err, c.Panics())
	}
	if err == nil && code == 0 {
		err = c.Discard()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Node stops or starts the real node. To stop it ends its kubelet and all its containers, as a reboot does; to the API server, the node
// and its pods stay what they were. To start it waits until the kubelet is ready, which then starts the containers of the pods that
// it had. The other verbs take arguments: import images, kill containers.
func (c *Cluster) Node(ctx context.Context, verb string, args ...string) error {
	_, err := hackCluster(ctx, os.Stderr, append([]string{"node", verb, "--name", c.Name}, args...)...)
	return err
}

// NodePID returns the id of the real node's first process, with which all others end.
func (c *Cluster) NodePID() (int, error) { return c.pid("node") }

// pid returns the id of a process of the cluster.
func (c *Cluster) pid(process string) (int, error) {
	content, err := os.ReadFile(filepath.Join(filepath.Dir(c.Kubeconfig), "pids", process+".pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// KillProcess ends a process of the control plane at once (SIGKILL): kube-apiserver, etcd.
func (c *Cluster) KillProcess(process string) error {
	pid, err := c.pid(process)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// SuspendProcess stops a process of the control plane until resume is called.
func (c *Cluster) SuspendProcess(process string) (resume func() error, err error) {
	pid, err := c.pid(process)
	if err != nil {
		return nil, err
	}
	if err := Suspend(pid); err != nil {
		return nil, errors.Join(err, Resume(pid))
	}
	return func() error { return Resume(pid) }, nil
}

// Revive starts the processes of the control plane again that have ended, and waits until the API server is ready.
func (c *Cluster) Revive(ctx context.Context, progress *os.File) error {
	_, err := hackCluster(ctx, progress, "up", "--name", c.Name)
	return err
}

// OnRealNode makes a pod run on the real node. The key is that of its label and taint.
func OnRealNode(spec *corev1.PodSpec) {
	const key = "confrev.io/node"
	spec.NodeSelector = map[string]string{key: "real"}
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
}

// Down stops the named cluster and removes it. It is fine if there is none.
func Down(ctx context.Context, name string, progress *os.File) error {
	_, err := hackCluster(ctx, progress, "down", "--name", name)
	return err
}

// hackCluster runs a verb of hack/cluster and returns what it prints.
func hackCluster(ctx context.Context, progress *os.File, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "-C", "hack/cluster", "."}, args...)...)
	cmd.Dir, cmd.Stderr = Root(), progress
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("hack/cluster %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Tool returns the path of a tool that hack/cluster builds: kubectl, helm.
func (c *Cluster) Tool(ctx context.Context, name string) (string, error) {
	if path, ok := c.tools.Load(name); ok {
		return path.(string), nil
	}
	path, err := hackCluster(ctx, os.Stderr, "path", name)
	if err == nil {
		c.tools.Store(name, path)
	}
	return path, err
}

// Run runs a tool against the cluster, with input on its standard input, and returns what it printed on standard output.
// An error has what it printed on standard error.
func (c *Cluster) Run(ctx context.Context, input, tool string, args ...string) (string, error) {
	return c.RunEnv(ctx, nil, input, tool, args...)
}

// RunEnv does what Run does, with variables of the environment, in the form "NAME=value", in addition to its own.
func (c *Cluster) RunEnv(ctx context.Context, variables []string, input, tool string, args ...string) (string, error) {
	path, err := c.Tool(ctx, tool)
	if err != nil {
		return "", err
	}
	if tool == "kubectl" && args[0] != "confrev" {
		// By itself, kubectl gives up when the OpenAPI document takes longer than 32 seconds, as it may on a busy machine just after a
		// CustomResourceDefinition has changed. It takes no flags in front of a plugin's name.
		args = append([]string{"--request-timeout=5m"}, args...)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "HELM_CACHE_HOME="+c.Dir, "HELM_CONFIG_HOME="+c.Dir, "HELM_DATA_HOME="+c.Dir)
	cmd.Env = append(cmd.Env, variables...)
	cmd.Dir = Root()
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	err = Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", tool, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// WriteKubeconfig writes the admin's kubeconfig to another file, with a change to it or its current context.
func (c *Cluster) WriteKubeconfig(path string, change func(config *clientcmdapi.Config, current *clientcmdapi.Context)) error {
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		return err
	}
	change(config, config.Contexts[config.CurrentContext])
	return clientcmd.WriteToFile(*config, path)
}

// Kubectl runs kubectl as the admin.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.Run(ctx, "", "kubectl", args...)
}

// WaitEstablished waits until the API server serves CustomResourceDefinitions, which the arguments name as for kubectl wait.
func (c *Cluster) WaitEstablished(ctx context.Context, args ...string) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := c.Kubectl(ctx, append([]string{"wait", "--for=condition=Established", "--timeout=2m"}, args...)...)
		// kubectl wait fails at once if an object has no conditions yet.
		if err != nil && strings.Contains(err.Error(), "conditions accessor error") {
			return false, nil
		}
		return err == nil, err
	})
}

// Values returns Helm's flags for installing the chart without pods of its own, with further values, in the form "name=value".
func (c *Cluster) Values(set ...string) ([]string, error) {
	if c.WebhookURL == "" {
		relay, err := newRelay()
		if err != nil {
			return nil, err
		}
		c.relay, c.WebhookURL = relay, relay.url()
	}
	var flags []string
	for _, s := range append([]string{"replicas=0", "webhook.url=" + c.WebhookURL}, set...) {
		flags = append(flags, "--set", s)
	}
	return flags, nil
}

// Install installs the chart, or brings the installed one up to this tree, without pods of its own.
func (c *Cluster) Install(ctx context.Context, set ...string) error {
	values, err := c.Values(set...)
	if err != nil {
		return err
	}
	// The relay of an earlier run had another address, in a URL whose path confrev wrote, so there are conflicts.
	args := append([]string{"upgrade", "--install", "confrev", "charts/confrev", "--namespace", Namespace, "--create-namespace", "--wait", "--force-conflicts"}, values...)
	_, err = c.Run(ctx, "", "helm", args...)
	return err
}
