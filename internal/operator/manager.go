package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"confrev.io/confrev/internal/account"
	"confrev.io/confrev/internal/authz"
	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/inflight"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/reconcile"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/trigger"
	"confrev.io/confrev/internal/version"
	"confrev.io/confrev/internal/webhook"
	"confrev.io/confrev/internal/workload"
)

// Run runs the controller until ctx ends.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	if err := options.Validate(); err != nil {
		return err
	}
	if err := supported(config); err != nil {
		return err
	}
	started := tuneMemory(os.Getenv)
	config = rest.CopyConfig(config)
	// The API server's own fairness protects it; a limit here that does not depend on its answers only makes one edit of a shared source slow.
	config.QPS = -1
	manager, err := newManager(config, options)
	if err != nil {
		return err
	}
	// Without authentication, anyone who can connect reads the metrics.
	states := reconcile.NewStates(options.MetricsSecure)
	if err := metrics.Registry.Register(states); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := manager.Add(returnMemory(lookAtMemory, started)); err != nil {
		return err
	}
	if options.Namespaced() {
		err = limit(manager, config, options, states)
	} else {
		err = setUp(ctx, manager, options, states)
	}
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

// supported returns an error if the API server is too old for what confrev relies on.
func supported(config *rest.Config) error {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	server, err := client.ServerVersion()
	if err != nil {
		return fmt.Errorf("ask the API server for its version: %w", err)
	}
	return version.Supports(server.GitVersion)
}

// newControllerManager returns a manager with the options that all managers have, besides others.
func newControllerManager(config *rest.Config, o Options, all ctrl.Options) (ctrl.Manager, error) {
	holders := o.holders()
	var manager ctrl.Manager
	all.Scheme = clientgoscheme.Scheme
	all.Cache.DefaultTransform, all.Cache.ReaderFailOnMissingInformer = compact(o.allKinds()), true
	all.Cache.NewInformer = holders.informers(o.Within(), func() (client.WithWatch, error) {
		return client.NewWithWatch(config, client.Options{HTTPClient: manager.GetHTTPClient(), Mapper: manager.GetRESTMapper(), Scheme: clientgoscheme.Scheme})
	})
	// Configured kinds and Argo Rollouts have no Go types here; they are cached anyway.
	all.Client = client.Options{Cache: &client.CacheOptions{Unstructured: true}}
	all.NewClient = func(config *rest.Config, options client.Options) (client.Client, error) {
		if options.Cache != nil {
			options.Cache.Reader = holderReader{options.Cache.Reader, holders}
		}
		return newDiscreet(config, options)
	}
	var err error
	manager, err = ctrl.NewManager(config, all)
	return manager, err
}

func (o Options) allKinds() []workload.Kind { return slices.Concat(workload.Standard(), o.Kinds) }

func (o Options) holders() holders { return holdersOf(o.allKinds()) }

func newManager(config *rest.Config, options Options) (ctrl.Manager, error) {
	if options.LeaderElect {
		config.Wrap((&fence{now: time.Now}).wrap)
	}
	// After the fence, so that it is asked when a request that waited is sent.
	config.Wrap((&inflight.Limit{Log: ctrl.Log.WithName("requests")}).Wrap)
	all := ctrl.Options{}
	all.LeaderElection, all.LeaderElectionID, all.LeaderElectionNamespace = options.LeaderElect, options.Lease(), options.Namespace
	all.LeaseDuration, all.RetryPeriod = new(leaseDuration), new(lookForLease)
	// The process ends right after the manager does, so a successor need not wait for the lease to run out.
	all.LeaderElectionReleaseOnCancel = true
	all.HealthProbeBindAddress, all.Metrics = options.HealthAddress, metricsServer(options)
	manager, err := newControllerManager(config, options, all)
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	return manager, errors.Join(
		manager.AddHealthzCheck("alive", healthz.Ping),
		manager.AddReadyzCheck("caches", cachesSynced(manager.GetCache())),
	)
}

// readyPatience is how long a readiness check waits for the caches; the kubelet gives it a second in all.
const readyPatience = 300 * time.Millisecond

// cachesSynced returns a check that succeeds once the watches have caught up, on every replica: one that waits to lead must be ready, too.
func cachesSynced(c cache.Cache) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), readyPatience)
		defer cancel()
		if !c.WaitForCacheSync(ctx) {
			return errors.New("the caches have not caught up with the API server yet")
		}
		return nil
	}
}

// setUp adds everything to a manager that works in all namespaces.
func setUp(ctx context.Context, manager ctrl.Manager, o Options, states *reconcile.States) error {
	// Replicas that do not lead answer webhooks, so they need what else only the reconcilers would watch.
	if _, err := manager.GetCache().GetInformer(ctx, index.Namespace()); err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	gate := gate.NewGate(manager.GetAPIReader(), o.PolicyPrefix, time.Now)
	handler, err := addLoops(ctx, manager, o, gate, states)
	if err != nil {
		return err
	}
	if o.Injection == optin.Admission {
		if err := manager.AddReadyzCheck("policies", gate.Check); err != nil {
			return err
		}
	}
	server := webhook.Server{Options: o.Webhook, Namespace: o.Namespace, Prefix: o.PolicyPrefix, Workloads: handler, Gate: gate}
	return errors.Join(manager.Add(gate), server.AddTo(manager))
}

// addLoops adds the loops over workloads and revisions to a manager. It returns the handler of the workload webhook, which shares what they
// know.
func addLoops(ctx context.Context, manager ctrl.Manager, o Options, gate *gate.Gate, states *reconcile.States) (*webhook.Workloads, error) {
	if err := indexSources(ctx, manager, o); err != nil {
		return nil, err
	}
	kinds := &workload.Kinds{}
	kinds.Expect(o.allKinds()...)
	store := revision.NewStore(manager.GetClient(), manager.GetAPIReader(), manager.GetClient(), time.Now, kinds, o.RevisionsPerHour).Sparing(o.Grace)
	if !o.Secrets {
		store.WithoutSecrets()
	}
	backlog := &reconcile.Backlog{}
	recorder, err := newRecorder(ctx, manager, o.Within(), backlog)
	if err != nil {
		return nil, err
	}
	notices := notice.Sinks{sink.Events(recorder), sink.Metrics(), sink.Log()}
	accounts := account.New(manager.GetAPIReader(), time.Now)
	triggers := trigger.New(o.Triggers(), manager.GetClient(), manager.GetAPIReader())
	watched, err := newTriggerCache(manager, o)
	if err != nil {
		return nil, err
	}
	fleet := newFleet(manager, o)
	revisions := &reconcile.Revisions{
		Options: o.Options, Grace: o.Grace, Workers: o.Workers, Kinds: kinds, Client: manager.GetClient(), Live: manager.GetAPIReader(),
		Store: store, Fleet: fleet, Notices: notices, Now: time.Now,
	}
	if err := revisions.SetUp(manager); err != nil {
		return nil, fmt.Errorf("set up the reconciler of revisions: %w", err)
	}
	handler := &webhook.Workloads{Gate: gate, Notices: notices}
	engine := func(kind workload.Kind) *rollout.Engine {
		e := &rollout.Engine{
			Kind: kind, Kinds: kinds, Options: o.Options, Client: manager.GetClient(), Live: manager.GetAPIReader(),
			Whole: manager.GetAPIReader(), Store: store, Triggers: triggers, Accounts: accounts, Now: time.Now,
		}
		if !kind.Fixed {
			fleet.Add(e)
		}
		return e
	}
	conductor := &reconcile.Conductor{Fleet: fleet, Store: store, Notices: notices, States: states, Now: time.Now,
		Evictions: evictions(manager, o), Analyses: analyses(manager, o)}
	if err := conductor.SetUp(manager); err != nil {
		return nil, fmt.Errorf("set up the reconciler of spreading changes: %w", err)
	}
	assembly := &assembly{
		manager: manager, namespace: o.Within(), options: o, kinds: kinds, revisions: revisions, handler: handler,
		waiting: o.allKinds(), problems: map[schema.GroupVersionKind]string{}, indexed: map[string]bool{},
		workloads: func(kind workload.Kind) *reconcile.Workloads {
			return &reconcile.Workloads{Engine: engine(kind), RolloutsPerHour: o.RolloutsPerHour, Workers: o.Workers, Notices: notices, Gate: gate, States: states, Conductor: conductor, Backlog: backlog, Triggers: watched}
		},
	}
	conductor.Wake = assembly.wake
	if err := assembly.look(ctx); err != nil {
		return nil, err
	}
	handler.Add(engine(workload.StandAloneJob))
	return handler, manager.Add(assembly)
}

// newFleet returns a Fleet that looks at pods if the options say so.
func newFleet(manager ctrl.Manager, o Options) *fleet.Fleet {
	f := fleet.New(manager.GetClient(), time.Now)
	f.Configure(o.Defaults(), manager.GetClient())
	f.RememberFrom(manager.Elected())
	if o.FailFast {
		f.ExaminePods(manager.GetAPIReader())
	}
	if o.Analysis {
		f.ReadAnalyses(manager.GetAPIReader())
	}
	return f
}

// analyses returns what makes and reads AnalysisRuns; nil unless the options say so. Nothing of them is cached.
func analyses(manager ctrl.Manager, o Options) reconcile.Analyses {
	if !o.Analysis {
		return nil
	}
	return struct {
		client.Reader
		client.Writer
	}{manager.GetAPIReader(), manager.GetClient()}
}

// evictions returns what evicts pods; nil unless the options say so.
func evictions(manager ctrl.Manager, o Options) client.SubResourceWriter {
	if !o.EvictStuckPods {
		return nil
	}
	return manager.GetClient().SubResource("eviction")
}

func metricsServer(o Options) metricsserver.Options {
	served := metricsserver.Options{BindAddress: o.MetricsAddress}
	if !o.MetricsSecure {
		return served
	}
	served.SecureServing, served.CertDir = true, o.MetricsCertDir
	// HTTP/2 lets one connection begin and drop requests without end.
	served.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	served.FilterProvider = func(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
		api, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: clientgoscheme.Scheme})
		if err != nil {
			return nil, fmt.Errorf("set up who may get metrics: %w", err)
		}
		guard := &authz.Guard{API: api, Now: time.Now}
		return func(_ logr.Logger, next http.Handler) (http.Handler, error) { return guard.Handler(next), nil }, nil
	}
	return served
}

// compact drops what confrev does not need of everything that goes into the cache, whatever its kind: kinds come while
// confrev runs.
func compact(kinds []workload.Kind) toolscache.TransformFunc {
	byKind, holders := map[schema.GroupVersionKind]func(client.Object){}, holdersOf(kinds)
	for _, kind := range kinds {
		byKind[kind.GVK] = kind.Compact
	}
	return func(obj any) (any, error) {
		if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
			if !holders.has(meta.GroupVersionKind()) {
				compactMetadata(meta)
				metadata.Share(meta)
			}
			return obj, nil
		}
		if o, ok := obj.(client.Object); ok {
			if compact := byKind[workload.GVKOf(o)]; compact != nil {
				compact(o)
			}
		}
		return obj, nil
	}
}

// compactMetadata drops what confrev does not need of an object of which it knows the metadata only.
func compactMetadata(meta *metav1.PartialObjectMetadata) {
	switch meta.Kind {
	case "ConfigMap", "Secret":
		revision.Compact(meta)
	case "Namespace":
		meta.Labels, meta.Annotations = optin.Kept(meta.Labels, optin.NamespaceLabelKeys...), optin.Kept(meta.Annotations, optin.NamespaceKeys...)
		meta.ManagedFields = nil
	default:
		meta.Labels, meta.Annotations, meta.ManagedFields = nil, nil, nil
	}
}
