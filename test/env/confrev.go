package env

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// serviceAccount is the one of the chart.
const serviceAccount = "confrev"

// Build builds one of the commands as 'make build' and releases do, or with the race detector, whose findings end it, and returns the
// binary's path. It is where CONFREV_TEST_BINARIES says, if several runs at a time are to share it.
func (c *Cluster) Build(ctx context.Context, command string, race bool) (string, error) {
	flag, cgo := "-ldflags=-s -w", "0"
	if race {
		flag, cgo = "-race", "1"
	}
	path := filepath.Join(cmp.Or(os.Getenv("CONFREV_TEST_BINARIES"), c.Dir), command)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, flag, "./cmd/"+command)
	cmd.Dir = Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", command, err, out)
	}
	return path, nil
}

// Confrev is confrev running as a process.
type Confrev struct {
	// Log is the file that it logs to, all runs in one.
	Log string
	// Metrics is the URL of its metrics, Webhook that of its webhooks, without a path.
	Metrics, Webhook string

	binary  string
	args    []string
	health  string
	process *exec.Cmd
	ended   chan error
}

// Confrev prepares confrev to run with the rights of the chart's ServiceAccount. It does not start it. name tells it, and
// its log, from others in the same run.
func (c *Cluster) Confrev(ctx context.Context, name, binary string, args ...string) (*Confrev, error) {
	return c.ConfrevOf(ctx, Namespace, name, binary, args...)
}

// ConfrevOf does what Confrev does for the release in another namespace.
func (c *Cluster) ConfrevOf(ctx context.Context, namespace, name, binary string, args ...string) (*Confrev, error) {
	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, namespace, serviceAccount)
	if err != nil {
		return nil, err
	}
	var addresses [3]string
	for i := range addresses {
		if addresses[i], err = FreeAddress(); err != nil {
			return nil, err
		}
	}
	if c.relay != nil {
		c.relay.add(addresses[2])
	}
	return &Confrev{
		Log:     filepath.Join(c.Dir, name+".log"),
		Metrics: "http://" + addresses[1] + "/metrics",
		Webhook: "https://" + addresses[2],
		binary:  binary,
		health:  "http://" + addresses[0] + "/readyz",
		args: append([]string{
			"--kubeconfig", kubeconfig, "--namespace", namespace, "--log-level", "debug",
			"--health-probe-bind-address", addresses[0], "--metrics-bind-address", addresses[1],
			"--webhook-bind-address", addresses[2], "--webhook-dns-names", WebhookHost,
		}, args...),
	}, nil
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of a ServiceAccount in a namespace of the chart's, over an earlier one. A token ends
// with its account.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, account string) (path string, err error) {
	// Longer than any run.
	token, err := c.Kubectl(ctx, "--namespace", namespace, "create", "token", account, "--duration=24h")
	if err != nil {
		return "", fmt.Errorf("get a token of ServiceAccount %s: %w", account, err)
	}
	path = filepath.Join(c.Dir, namespace+"-"+account+".kubeconfig")
	err = c.WriteKubeconfig(path, func(config *clientcmdapi.Config, current *clientcmdapi.Context) {
		config.AuthInfos = map[string]*clientcmdapi.AuthInfo{current.AuthInfo: {Token: strings.TrimSpace(token)}}
	})
	if err != nil || c.Proxy == nil {
		return path, err
	}
	return path, c.Proxy.Kubeconfig(path, path)
}

// RenewToken replaces confrev's token with one of the chart's ServiceAccount as it is now, for its next start.
func (c *Cluster) RenewToken(ctx context.Context) error {
	_, err := c.ServiceAccountKubeconfig(ctx, Namespace, serviceAccount)
	return err
}

// StartConfrev installs the chart with these values, builds confrev, starts it with these flags, and waits until it pins.
func (c *Cluster) StartConfrev(ctx context.Context, values []string, flags ...string) (*Confrev, error) {
	if err := c.Install(ctx, values...); err != nil {
		return nil, err
	}
	binary, err := c.Build(ctx, "confrev", false)
	if err != nil {
		return nil, err
	}
	confrev, err := c.Confrev(ctx, "confrev", binary, flags...)
	if err != nil {
		return nil, err
	}
	if err := confrev.Start(ctx); err != nil {
		return nil, err
	}
	return confrev, c.WaitWebhook(ctx)
}

// Start starts confrev and waits until it is ready.
func (c *Confrev) Start(ctx context.Context) error {
	if err := c.Launch(); err != nil {
		return err
	}
	if err := c.WaitReady(ctx); err != nil {
		// It would continue to pin in everyone else's tests.
		return errors.Join(err, c.Kill())
	}
	return nil
}

// Launch starts confrev.
func (c *Confrev) Launch() error {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// Not bound to a context: it outlives the test that restarts it, but not the process of the tests.
	c.process = exec.Command(c.binary, c.args...)
	c.process.Stdout, c.process.Stderr = log, log
	if err := Start(c.process); err != nil {
		return errors.Join(err, log.Close())
	}
	c.ended = make(chan error, 1)
	go func() { c.ended <- errors.Join(c.process.Wait(), log.Close()) }()
	return nil
}

// WaitReady waits until confrev says that it is ready, and that pins would be resolved.
func (c *Confrev) WaitReady(ctx context.Context) error {
	var missing error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, Patience, true, func(ctx context.Context) (bool, error) {
		if c.Ended() {
			return false, fmt.Errorf("confrev ended before it was ready: %w", c.wait())
		}
		missing = c.missing(ctx)
		return missing == nil, nil
	})
	if err != nil {
		return fmt.Errorf("confrev is not ready (log: %s): %w", c.Log, errors.Join(err, missing))
	}
	return nil
}

// missing returns what confrev lacks to be ready and to pin.
func (c *Confrev) missing(ctx context.Context) error {
	if _, err := get(ctx, c.health); err != nil {
		return err
	}
	by, err := c.PodAdmission(ctx)
	if err == nil && by == "none" {
		err = errors.New("nothing resolves pins")
	}
	return err
}

// PID returns the process's id.
func (c *Confrev) PID() int { return c.process.Process.Pid }

// Stop ends confrev as Kubernetes would, and waits for it to end well.
func (c *Confrev) Stop() error {
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return c.wait()
}

// wait waits for confrev's end, and returns how it ended, as often as it is asked.
func (c *Confrev) wait() error {
	err := <-c.ended
	c.ended <- err
	return err
}

// Ended reports whether confrev does not run.
func (c *Confrev) Ended() bool { return len(c.ended) > 0 }

// Kill ends confrev at once (SIGKILL) and waits until it is gone.
func (c *Confrev) Kill() error {
	if err := c.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	var exit *exec.ExitError
	if err := c.wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}
