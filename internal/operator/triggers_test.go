package operator

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"confrev.io/confrev/internal/metadata"
)

// lists answers as an API server that has no ConfigMaps, and fails to list anything else.
func lists(w http.ResponseWriter, r *http.Request) {
	switch {
	case !strings.HasSuffix(r.URL.Path, "/configmaps"):
		w.WriteHeader(http.StatusInternalServerError)
	case r.URL.Query().Has("sendInitialEvents"):
		// It does not stream lists.
		w.WriteHeader(http.StatusBadRequest)
	case r.URL.Query().Has("watch"):
		<-r.Context().Done()
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"1"},"items":[]}`))
	}
}

// What confrev needs of every cluster must be there before it is ready. What the API server fails to list and only workloads name is no reason to wait.
func TestReadinessDoesNotWaitForWhatWorkloadsRestartOn(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(lists))
	defer server.Close()
	configMap, claim := corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(configMap, meta.RESTScopeNamespace)
	mapper.Add(claim, meta.RESTScopeNamespace)
	for name, test := range map[string]struct {
		needed, named schema.GroupVersionKind
		ready, synced bool
	}{
		"all can be listed":                          {configMap, configMap, true, true},
		"what a workload names cannot be listed":     {configMap, claim, true, false},
		"what every cluster serves cannot be listed": {claim, configMap, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			manager, err := newControllerManager(&rest.Config{Host: server.URL}, Options{}, ctrl.Options{
				HealthProbeBindAddress: "0", Metrics: metricsserver.Options{BindAddress: "0"},
				MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			triggers, err := newTriggerCache(manager, Options{})
			if err != nil {
				t.Fatal(err)
			}
			// The manager itself would start to record events, whose logger is the process's own: other tests replace it.
			ctx, stop := context.WithCancel(t.Context())
			var started sync.WaitGroup
			for _, c := range []cache.Cache{manager.GetCache(), triggers} {
				started.Go(func() {
					if err := c.Start(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			defer started.Wait()
			defer stop()
			watch := func(c cache.Cache, kind schema.GroupVersionKind) cache.Informer {
				informer, err := c.GetInformer(ctx, metadata.New(kind), cache.BlockUntilSynced(false))
				if err != nil {
					t.Fatal(err)
				}
				return informer
			}
			watch(manager.GetCache(), test.needed)
			named := watch(triggers, test.named)
			check := func() bool {
				return cachesSynced(manager.GetCache())((&http.Request{}).WithContext(ctx)) == nil
			}
			for began := time.Now(); time.Since(began) < time.Minute; {
				if check() == test.ready && named.HasSynced() == test.synced {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			if ready := check(); ready != test.ready || named.HasSynced() != test.synced {
				t.Errorf("ready: %v, what is named has been listed: %v", ready, named.HasSynced())
			}
		})
	}
}
