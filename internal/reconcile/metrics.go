package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The metrics, served together with controller-runtime's own.
var (
	register = promauto.With(metrics.Registry)

	metricDeleted = register.NewCounter(prometheus.CounterOpts{
		Name: "confrev_revisions_deleted_total",
		Help: "Unused revisions deleted by confrev. Most are deleted by Kubernetes' garbage collector, which this does not count.",
	})
	metricOwners = register.NewCounter(prometheus.CounterOpts{
		Name: "confrev_owners_attached_total", Help: "Owners attached to revisions.",
	})
	metricPlan = register.NewHistogram(prometheus.HistogramOpts{
		Name: "confrev_plan_duration_seconds", Help: "Time to observe a workload's sources and to plan.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8),
	})
	metricLatency = register.NewHistogram(prometheus.HistogramOpts{
		Name:    "confrev_change_to_pin_seconds",
		Help:    "Time from noticing a source's change to having written the pin, the settle time included.",
		Buckets: prometheus.ExponentialBuckets(0.01, 2, 14),
	})
	metricWorkloads = prometheus.NewDesc("confrev_workloads", "Workloads that opted in, by how far they are with their sources and, if they wait, what for.",
		[]string{"namespace", "workload", "state", "reason"}, nil)
)
