//go:build perf

package perf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// other is a controller that is measured in place of confrev, in the benchmarks that only use the API.
type other struct {
	command     string
	annotations map[string]string
	kubeconfig  string
}

const (
	// driver is the name of the account of another controller, by which its requests are known.
	driver = "bench-controller"
	// wholeTemplate stands for an annotation that is another whenever anything in a template is.
	wholeTemplate = "the whole template"
)

var (
	// driven is nil while confrev is measured.
	driven *other
	// rolled is the annotation of a template that shows that a change was rolled out.
	rolled = keys.Pins
)

// drive reads from the environment which other controller to measure, if any.
func drive(ctx context.Context) (err error) {
	command := os.Getenv("CONFREV_BENCH_CONTROLLER")
	if command == "" {
		return nil
	}
	o := &other{command: command, annotations: map[string]string{}}
	for pair := range strings.SplitSeq(os.Getenv("CONFREV_BENCH_ANNOTATIONS"), ",") {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return fmt.Errorf("CONFREV_BENCH_ANNOTATIONS: %q has no '=': say by which annotations a Deployment opts in (key=value,…)", pair)
		}
		o.annotations[key] = value
	}
	account := metav1.ObjectMeta{Namespace: env.Namespace, Name: driver}
	for _, obj := range []client.Object{&corev1.ServiceAccount{ObjectMeta: account}, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: driver}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: env.Namespace, Name: driver}},
	}} {
		if err := cluster.Client.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	o.kubeconfig, err = cluster.ServiceAccountKubeconfig(ctx, env.Namespace, driver)
	driven, rolled = o, wholeTemplate
	return err
}

// measuring returns the name of the controller that is measured.
func measuring() string {
	if driven == nil {
		return "confrev"
	}
	return filepath.Base(strings.Fields(driven.command)[0])
}

// optsIn makes a Deployment opt in to the controller that is measured.
func optsIn() (all []gen.DeploymentModifier) {
	if driven == nil {
		return []gen.DeploymentModifier{gen.Tracking("all")}
	}
	for key, value := range driven.annotations {
		all = append(all, gen.Annotated(key, value))
	}
	return all
}

// asked returns what the controller that is measured asked for since a mark, except for its lease.
func asked(since env.AuditMark) ([]env.Request, error) {
	if driven == nil {
		return cluster.ConfrevRequests(since)
	}
	user := "system:serviceaccount:" + env.Namespace + ":" + driver
	return cluster.Requests(since, func(r env.Request) bool { return r.User.Username == user && r.Object.Resource != "leases" })
}

// commanded is a controller that a command starts.
type commanded struct {
	w *world
	*other
	running *exec.Cmd
}

func (c *commanded) start(context.Context) error {
	log, err := os.OpenFile(c.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	c.running = exec.Command("sh", "-c", "exec "+c.command)
	c.running.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	c.running.Stdout, c.running.Stderr = log, log
	// The command has the file by then.
	return errors.Join(env.Start(c.running), log.Close())
}

func (c *commanded) log() string { return filepath.Join(cluster.Dir, driver+".log") }

func (c *commanded) kill() error {
	if err := c.running.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	// It was killed, so it ends with an error.
	_ = c.running.Wait()
	return nil
}

func (c *commanded) stop() { c.w.Must(c.kill()) }

// startOther starts the controller that is measured in place of confrev, and ends it with the benchmark. When it is ready, it does not say.
func (w *world) startOther() *process {
	w.Helper()
	c := &commanded{w: w, other: driven}
	p := &process{other: c, w: w, started: time.Now()}
	w.Must(c.start(w.Ctx))
	p.stop = sync.OnceFunc(func() {
		if err := c.kill(); err != nil {
			w.Errorf("end %s: %v", measuring(), err)
		}
	})
	w.Cleanup(p.stop)
	return p
}
