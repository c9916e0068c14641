package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"confrev.io/confrev/internal/authz"
)

// The metrics, served together with controller-runtime's own.
var (
	metricDeleted = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "confrev_revisions_deleted_total",
		Help: "Unused revisions deleted by confrev. Most are deleted by Kubernetes' garbage collector, which this does not count.",
	})
	metricOwners = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "confrev_owners_attached_total", Help: "Owners attached to revisions.",
	})
	metricPlan = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "confrev_plan_duration_seconds", Help: "Time to observe a workload's sources and to plan.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
	})
	metricAdmission = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "confrev_admission_duration_seconds",
		Help:    "Time to answer a request of the workload webhook, by what came of it: patched, unchanged, or error.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
	}, []string{"workload", "result"})
	metricLatency = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "confrev_change_to_pin_seconds",
		Help:    "Time from noticing a source's change to having written the pin, the settle time included.",
		Buckets: prometheus.ExponentialBuckets(0.01, 2, 14),
	})
)

func init() {
	metrics.Registry.MustRegister(metricDeleted, metricOwners, metricPlan, metricLatency, metricAdmission)
}

// readyPatience is how long a readiness check waits for the caches; the kubelet gives it a second in all.
const readyPatience = 300 * time.Millisecond

// cachesSynced is ready when the watches have caught up, on every replica: one that waits to lead must be ready to.
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

// metrics says how to serve them.
func (o Options) metrics() metricsserver.Options {
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
