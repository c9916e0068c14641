package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/reconcile"
	"confrev.io/confrev/internal/revision"
)

// namespaces runs the loops in single namespaces (rule 23). Each namespace has a manager of its own, so that one that does not exist, or
// that confrev may not read, keeps none of the others waiting, and can come and go: its Roles are deleted with it.
type namespaces struct {
	manager ctrl.Manager
	config  *rest.Config
	options Options
	gate    *gate.Gate
	states  *reconcile.States

	mu sync.Mutex
	// leads is true while this replica leads. The others run no loops.
	leads bool
	// handled are the namespaces whose loops run, problems why the loops of others do not.
	handled  map[string]bool
	problems map[string]string
}

// lookForNamespace is how often to look whether confrev may read a namespace by now, or still may.
const lookForNamespace = 10 * time.Second

// off is what takes rights in the whole cluster, and is off without them.
var off = []string{
	"admission policies and webhooks: names of revisions are written into pod templates, and a deploy and its configuration are two rollouts",
	"guards: anyone who may delete ConfigMaps may delete revisions in use",
	"confinement of confrev's own account",
	"Jobs that no CronJob creates",
	"labels of namespaces, and the annotation confrev.io/protect",
	"confrev.io/restart-on for objects that are in no namespace",
}

var errNoAdmission = errors.New("confrev is limited to single namespaces, where nothing resolves pins when pods are created; " +
	"remove the annotation confrev.io/injection, or set it to template")

// limit makes a manager run the loops in the namespaces of the options only.
func limit(manager ctrl.Manager, config *rest.Config, o Options, states *reconcile.States) error {
	n := &namespaces{
		manager: manager, config: config, options: o, gate: gate.NewShut(errNoAdmission), states: states,
		handled: map[string]bool{}, problems: map[string]string{},
	}
	manager.GetLogger().Info("limited to single namespaces", "namespaces", o.WatchNamespaces, "off", off)
	return errors.Join(manager.Add(n), manager.AddReadyzCheck("namespaces", n.check))
}

// Start runs the loops of all namespaces until ctx ends.
func (n *namespaces) Start(ctx context.Context) error {
	n.mu.Lock()
	n.leads = true
	n.mu.Unlock()
	var group sync.WaitGroup
	for _, namespace := range n.options.WatchNamespaces {
		group.Go(func() { n.keep(ctx, namespace) })
	}
	group.Wait()
	return nil
}

// keep runs the loops of a namespace whenever confrev may read it, until ctx ends.
func (n *namespaces) keep(ctx context.Context, namespace string) {
	for ctx.Err() == nil {
		problem := n.obstacle(ctx, namespace)
		if problem == "" {
			if err := n.run(ctx, namespace); err != nil {
				problem = err.Error()
			}
		}
		n.note(ctx, namespace, problem)
		if problem != "" {
			wait(ctx, lookForNamespace)
		}
	}
}

// obstacle returns why confrev cannot work in a namespace; empty if it can. Kinds of workloads that are missing, or that it may not read, are
// none: each is left out on its own.
func (n *namespaces) obstacle(ctx context.Context, namespace string) string {
	for _, kind := range n.options.SourceKinds() {
		err := n.manager.GetAPIReader().List(ctx, revision.NewMetadataList(kind), client.InNamespace(namespace), client.Limit(1))
		if apierrors.IsForbidden(err) {
			return fmt.Sprintf("it does not exist, or confrev may not list its %ss; upgrade the chart once it exists", kind)
		}
		if err != nil {
			return fmt.Sprintf("list %ss: %v", kind, err)
		}
	}
	return ""
}

// run runs the loops of a namespace until ctx ends or confrev may not read it any more.
func (n *namespaces) run(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	o := n.options
	o.WatchNamespaces = []string{namespace}
	loops, err := n.newLoops(o, namespace)
	if err != nil {
		return err
	}
	if _, err := addLoops(ctx, loops, o, n.gate, n.states); err != nil {
		return err
	}
	// It starts when the caches have caught up.
	started := manager.RunnableFunc(func(ctx context.Context) error {
		n.setHandled(namespace, true)
		log.FromContext(ctx).Info("a namespace is handled from now on", "namespace", namespace)
		for ctx.Err() == nil {
			wait(ctx, lookForNamespace)
			if n.lost(ctx, namespace) {
				cancel()
			}
		}
		return nil
	})
	if err := loops.Add(started); err != nil {
		return err
	}
	defer func() {
		n.setHandled(namespace, false)
		n.states.Forget(namespace)
	}()
	return loops.Start(ctx)
}

func (n *namespaces) newLoops(o Options, namespace string) (ctrl.Manager, error) {
	all := ctrl.Options{}
	all.Cache.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	all.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return n.manager.GetRESTMapper(), nil }
	// The controllers of all namespaces have the same names, and are counted together: metrics name no namespaces.
	all.Controller = config.Controller{SkipNameValidation: new(true)}
	all.HealthProbeBindAddress, all.Metrics = "0", metricsserver.Options{BindAddress: "0"}
	loops, err := newControllerManager(n.config, o, all)
	if err != nil {
		return nil, fmt.Errorf("set up for namespace %s: %w", namespace, err)
	}
	return loops, nil
}

// lost reports whether confrev may not read a namespace any more. Any other failure may pass.
func (n *namespaces) lost(ctx context.Context, namespace string) bool {
	err := n.manager.GetAPIReader().List(ctx, revision.NewMetadataList(n.options.SourceKinds()[0]), client.InNamespace(namespace), client.Limit(1))
	return apierrors.IsForbidden(err)
}

// note remembers why a namespace is not handled, and logs it once.
func (n *namespaces) note(ctx context.Context, namespace, problem string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.problems[namespace]
	if n.problems[namespace] = problem; problem != "" && problem != before {
		log.FromContext(ctx).Info("a namespace is not handled for now", "namespace", namespace, "because", problem)
	}
	n.measure()
}

func (n *namespaces) setHandled(namespace string, handled bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handled[namespace] = handled
	if handled {
		n.problems[namespace] = ""
	}
	n.measure()
}

// measure updates the metrics. The caller holds the lock.
func (n *namespaces) measure() {
	var handled, unreadable float64
	for _, namespace := range n.options.WatchNamespaces {
		switch {
		case n.handled[namespace]:
			handled++
		case n.problems[namespace] != "":
			unreadable++
		}
	}
	metricNamespaces.WithLabelValues(namespacesHandled).Set(handled)
	metricNamespaces.WithLabelValues(namespacesUnreadable).Set(unreadable)
}

// check returns an error while this replica is not ready. A namespace that cannot be handled does not make the others wait, unless there are none.
func (n *namespaces) check(*http.Request) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var syncing, problems []string
	for _, namespace := range n.options.WatchNamespaces {
		switch {
		case n.handled[namespace]:
		case n.problems[namespace] != "":
			problems = append(problems, namespace+": "+n.problems[namespace])
		default:
			syncing = append(syncing, namespace)
		}
	}
	switch {
	case !n.leads:
		return nil
	case len(syncing) > 0:
		return fmt.Errorf("the caches of %s have not caught up with the API server yet", strings.Join(syncing, ", "))
	case len(problems) == len(n.options.WatchNamespaces):
		return fmt.Errorf("no namespace is handled: %s", strings.Join(problems, "; "))
	}
	return nil
}

// wait waits for a duration, or until ctx ends.
func wait(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}
