package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"confrev.io/confrev/internal/reconcile"
	"confrev.io/confrev/internal/workload"
)

// Run runs the controller until ctx ends.
func Run(ctx context.Context, config *rest.Config, options reconcile.Options) error {
	if err := options.Validate(); err != nil {
		return err
	}
	manager, err := newManager(config, options)
	if err != nil {
		return err
	}
	if err := reconcile.SetUp(ctx, manager, options); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func newManager(config *rest.Config, options reconcile.Options) (ctrl.Manager, error) {
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
