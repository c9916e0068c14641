package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var admissionDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "confrev_admission_duration_seconds",
	Help:    "Time to answer a request to the workload webhook, by the result: patched, unchanged, or error.",
	Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
}, []string{"workload", "result"})

func init() { metrics.Registry.MustRegister(admissionDuration) }
