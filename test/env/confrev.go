package env

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serviceAccount is the one of the chart.
const serviceAccount = "confrev"

// tokenSeconds is longer than any run.
const tokenSeconds = 24 * 3600

// Build builds confrev and returns the binary's path. With race it has the race detector, whose findings end it.
func (c *Cluster) Build(ctx context.Context, race bool) (string, error) {
	if race {
		return c.build(ctx, "confrev", "-race")
	}
	return c.build(ctx, "confrev", stripped)
}

// stripped is how 'make build' and releases build.
const stripped = "-ldflags=-s -w"

// BuildPlugin builds kubectl-confrev and returns the binary's path.
func (c *Cluster) BuildPlugin(ctx context.Context) (string, error) {
	return c.build(ctx, "kubectl-confrev", stripped)
}

// build builds a command, unless it is already where CONFREV_TEST_BINARIES says, for several runs at a time.
func (c *Cluster) build(ctx context.Context, command string, flags ...string) (string, error) {
	path := filepath.Join(cmp.Or(os.Getenv("CONFREV_TEST_BINARIES"), c.Dir), command)
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-o", path}, flags, []string{"./cmd/" + command})...)
	cmd.Dir = Root()
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
	kubeconfig, err := c.serviceAccountKubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	var addresses [3]string
	for i := range addresses {
		if addresses[i], err = freeAddress(); err != nil {
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
			"--kubeconfig", kubeconfig, "--namespace", Namespace, "--log-level", "debug",
			"--health-probe-bind-address", addresses[0], "--metrics-bind-address", addresses[1],
			"--webhook-bind-address", addresses[2], "--webhook-dns-names", WebhookHost,
		}, args...),
	}, nil
}

// serviceAccountKubeconfig writes a kubeconfig with a token of the chart's ServiceAccount.
func (c *Cluster) serviceAccountKubeconfig(ctx context.Context) (string, error) {
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: serviceAccount}}
	if err := c.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("get a token of the chart's ServiceAccount: %w", err)
	}
	admin, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters = admin.Clusters
	config.AuthInfos["confrev"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["confrev"] = &clientcmdapi.Context{Cluster: admin.Contexts[admin.CurrentContext].Cluster, AuthInfo: "confrev"}
	config.CurrentContext = "confrev"
	path := filepath.Join(c.Dir, "confrev.kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// startTimeout bounds how long confrev may take to become ready.
const startTimeout = 60 * time.Second

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
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		missing := c.missing(ctx)
		if missing == nil {
			return nil
		}
		select {
		case err := <-c.ended:
			c.ended <- err
			return fmt.Errorf("confrev ended before it was ready (log: %s): %w", c.Log, err)
		case <-ctx.Done():
			return fmt.Errorf("confrev is not ready (log: %s): %w", c.Log, missing)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// missing returns what confrev lacks to be ready and to pin.
func (c *Confrev) missing(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.health, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", c.health, response.Status)
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

// Delete deletes objects and takes it well when they are gone already.
func (c *Cluster) Delete(ctx context.Context, objects ...client.Object) error {
	var errs []error
	for _, obj := range objects {
		errs = append(errs, client.IgnoreNotFound(c.Client.Delete(ctx, obj)))
	}
	return errors.Join(errs...)
}
