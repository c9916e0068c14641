package operator

import (
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// newTriggerCache adds to a manager a cache of the objects on which workloads restart. It is not the manager's own, for which readiness and every loop
// wait: the API server may fail to list what a workload names, because of a conversion webhook or an API server behind it, and no one else must wait for that.
func newTriggerCache(manager ctrl.Manager, o Options) (cache.Cache, error) {
	options := cache.Options{HTTPClient: manager.GetHTTPClient(), Scheme: manager.GetScheme(), Mapper: manager.GetRESTMapper(), DefaultTransform: compact(nil)}
	if within := o.Within(); within != "" {
		options.DefaultNamespaces = map[string]cache.Config{within: {}}
	}
	c, err := cache.New(manager.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("set up the cache of what workloads restart on: %w", err)
	}
	return c, manager.Add(c)
}
