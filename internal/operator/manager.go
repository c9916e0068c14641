package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"confrev.io/confrev/internal/account"
	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/reconcile"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/webhook"
	"confrev.io/confrev/internal/workload"
)

// Run runs the controller until ctx ends.
func Run(ctx context.Context, config *rest.Config, options Options) error {
	if err := options.Validate(); err != nil {
		return err
	}
	manager, err := newManager(config, options)
	if err != nil {
		return err
	}
	if err := setUp(ctx, manager, options); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func newManager(config *rest.Config, options Options) (ctrl.Manager, error) {
	config = rest.CopyConfig(config)
	// The API server's own fairness protects it; a limit here only makes one edit of a shared source slow.
	config.QPS = -1
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: clientgoscheme.Scheme,
		Cache:  cache.Options{DefaultTransform: compact(slices.Concat(workload.Standard(), options.Kinds)), ReaderFailOnMissingInformer: true},
		// Configured kinds and Argo Rollouts have no Go types here; they are cached anyway.
		Client:    client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		NewClient: newDiscreet,

		LeaderElection:          options.LeaderElect,
		LeaderElectionID:        "confrev",
		LeaderElectionNamespace: options.Namespace,
		// The process ends right after the manager does, so a successor need not wait for the lease to run out.
		LeaderElectionReleaseOnCancel: true,

		HealthProbeBindAddress: options.HealthAddress,
		Metrics:                metricsServer(options),
	})
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

// setUp adds the reconcilers, the gate and the webhooks to a manager.
func setUp(ctx context.Context, manager ctrl.Manager, o Options) error {
	for _, kind := range o.SourceKinds() {
		err := manager.GetFieldIndexer().IndexField(ctx, revision.NewMetadata(kind), revision.BySource, revision.IndexBySource(kind))
		if err != nil {
			return fmt.Errorf("index %ss: %w", kind, err)
		}
	}
	// Replicas that do not lead answer webhooks, so they need what else only the reconcilers would watch.
	if _, err := manager.GetCache().GetInformer(ctx, index.Namespace()); err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	gate := gate.NewGate(manager.GetAPIReader(), o.PolicyPrefix, time.Now)
	kinds := &workload.Kinds{}
	store := revision.NewStore(manager.GetClient(), manager.GetAPIReader(), manager.GetClient(), time.Now, kinds, o.RevisionsPerHour)
	if !o.Secrets {
		store.WithoutSecrets()
	}
	notices := notice.Sinks{sink.Events(manager.GetEventRecorder("confrev")), sink.Metrics(), sink.Log()}
	accounts := account.New(manager.GetAPIReader(), time.Now)
	triggers := rollout.NewTriggers(o.Options, manager.GetClient(), manager.GetAPIReader())
	revisions := &reconcile.Revisions{
		Options: o.Options, Grace: o.Grace, Workers: o.Workers, Kinds: kinds, Client: manager.GetClient(), Live: manager.GetAPIReader(),
		Store: store, Notices: notices, Now: time.Now,
	}
	if err := revisions.SetUp(manager); err != nil {
		return fmt.Errorf("set up the reconciler of revisions: %w", err)
	}
	handler := &webhook.Workloads{Gate: gate, Notices: notices, Elected: manager.Elected()}
	engine := func(kind workload.Kind) *rollout.Engine {
		return &rollout.Engine{
			Kind: kind, Kinds: kinds, Options: o.Options, Client: manager.GetClient(), Live: manager.GetAPIReader(),
			Whole: manager.GetAPIReader(), Store: store, Triggers: triggers, Accounts: accounts, Now: time.Now,
		}
	}
	assembly := &assembly{
		manager: manager, options: o, kinds: kinds, revisions: revisions, handler: handler,
		waiting: slices.Concat(workload.Standard(), o.Kinds), problems: map[schema.GroupVersionKind]string{},
		indexed: map[string]bool{},
		workloads: func(kind workload.Kind) *reconcile.Workloads {
			return &reconcile.Workloads{Engine: engine(kind), RolloutsPerHour: o.RolloutsPerHour, Workers: o.Workers, Notices: notices, Gate: gate}
		},
	}
	if err := assembly.look(ctx); err != nil {
		return err
	}
	handler.Add(engine(workload.StandAloneJob))
	if o.Injection == optin.Admission {
		if err := manager.AddReadyzCheck("policies", gate.Check); err != nil {
			return err
		}
	}
	server := webhook.Server{Options: o.Webhook, Namespace: o.Namespace, Prefix: o.PolicyPrefix, Workloads: handler, Gate: gate}
	return errors.Join(manager.Add(gate), manager.Add(assembly), server.AddTo(manager))
}
