package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"confrev.io/confrev/internal/admission"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// Options are what the command line says of the controller.
type Options struct {
	// Settle is how long a workload's sources must be quiet before it advances (rule 2).
	Settle time.Duration
	// Grace is how long a revision that nobody uses is kept (rule 13).
	Grace time.Duration
	// Workers is how many workloads, and how many revisions, are worked on at a time.
	Workers int
	// Namespace is confrev's own, which it never touches.
	Namespace string
	// LeaderElect makes several replicas agree on one that works.
	LeaderElect bool
	// PolicyPrefix is what the names of the chart's admission policies begin with.
	PolicyPrefix string
	// HealthAddress and MetricsAddress are where to serve; "0" serves nothing.
	HealthAddress, MetricsAddress string
}

// Validate tells what is wrong with the options, in the words of the command line's flags.
func (o Options) Validate() error {
	var problems []error
	if o.Settle < 0 {
		problems = append(problems, fmt.Errorf("--settle=%s: want 0 or more", o.Settle))
	}
	if o.Grace < revision.PinWindow {
		problems = append(problems, fmt.Errorf("--grace=%s: want %s or more", o.Grace, revision.PinWindow))
	}
	if o.Workers < 1 {
		problems = append(problems, fmt.Errorf("--workers=%d: want 1 or more", o.Workers))
	}
	if o.LeaderElect && o.Namespace == "" {
		problems = append(problems, errors.New("--leader-elect needs --namespace, where the lease is kept"))
	}
	return errors.Join(problems...)
}

// sourceKinds are the kinds of sources that are enabled.
func (o Options) sourceKinds() []pin.Kind { return []pin.Kind{pin.ConfigMap} }

func (o Options) enabled(kind pin.Kind) bool { return slices.Contains(o.sourceKinds(), kind) }

// excluded tells whether confrev keeps out of a namespace (rule 18).
func (o Options) excluded(namespace string) bool {
	return namespace == metav1.NamespaceSystem || namespace == o.Namespace
}

// Run runs the controller until ctx ends.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	if err := options.Validate(); err != nil {
		return err
	}
	manager, err := newManager(config, options)
	if err != nil {
		return err
	}
	if err := options.index(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	if err := options.setUp(manager); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func newManager(config *rest.Config, options Options) (ctrl.Manager, error) {
	config = rest.CopyConfig(config)
	// The API server's own fairness protects it; a limit here only makes one edit of a shared source slow.
	config.QPS = -1
	byObject := map[client.Object]cache.ByObject{}
	for _, kind := range options.sourceKinds() {
		byObject[revision.NewMetadata(kind)] = compacted(revision.Compact)
	}
	for _, kind := range workload.Kinds() {
		byObject[kind.New()] = compacted(kind.Compact)
		byObject[kind.Holder().New()] = compacted(kind.Holder().Compact)
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: clientgoscheme.Scheme,
		Cache:  cache.Options{ByObject: byObject, ReaderFailOnMissingInformer: true},

		LeaderElection:          options.LeaderElect,
		LeaderElectionID:        "confrev",
		LeaderElectionNamespace: options.Namespace,
		// The process ends right after the manager does, so a successor need not wait for the lease to run out.
		LeaderElectionReleaseOnCancel: true,

		HealthProbeBindAddress: options.HealthAddress,
		Metrics:                metricsserver.Options{BindAddress: options.MetricsAddress},
	})
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	return manager, errors.Join(
		manager.AddHealthzCheck("alive", healthz.Ping),
		manager.AddReadyzCheck("caches", cachesSynced(manager.GetCache())),
	)
}

func compacted(compact func(client.Object)) cache.ByObject {
	return cache.ByObject{Transform: func(obj any) (any, error) {
		if o, ok := obj.(client.Object); ok {
			compact(o)
		}
		return obj, nil
	}}
}

// workloadKinds are the API's kinds of workloads.
func workloadKinds(scheme *runtime.Scheme) ([]schema.GroupVersionKind, error) {
	var kinds []schema.GroupVersionKind
	for _, kind := range workload.Kinds() {
		gvk, err := apiutil.GVKForObject(kind.New(), scheme)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, gvk)
	}
	return kinds, nil
}

// setUp adds the reconcilers.
func (o Options) setUp(manager ctrl.Manager) error {
	kinds, err := workloadKinds(manager.GetScheme())
	if err != nil {
		return err
	}
	store := revision.NewStore(manager.GetClient(), manager.GetAPIReader(), manager.GetClient(), time.Now, kinds)
	gate := admission.NewGate(manager.GetAPIReader(), o.PolicyPrefix, time.Now)
	if err := errors.Join(manager.Add(gate), manager.AddReadyzCheck("policies", gate.Check)); err != nil {
		return err
	}
	recorder := &recorder{manager.GetEventRecorder("confrev")}
	for _, kind := range workload.Kinds() {
		workloads := &workloads{
			kind: kind, options: o, client: manager.GetClient(), store: store, events: recorder, gate: gate, now: time.Now,
			memory: newMemories(),
		}
		if err := workloads.setUp(manager); err != nil {
			return fmt.Errorf("set up the reconciler of %ss: %w", kind.Resource(), err)
		}
	}
	revisions := &revisions{
		options: o, client: manager.GetClient(), live: manager.GetAPIReader(), store: store, events: recorder,
		lost: newMemories(),
	}
	if err := revisions.setUp(manager); err != nil {
		return fmt.Errorf("set up the reconciler of revisions: %w", err)
	}
	return nil
}
