package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var admissionDuration = promauto.With(metrics.Registry).NewHistogramVec(prometheus.HistogramOpts{
	Name:    "confrev_admission_duration_seconds",
	Help:    "Time to answer a request to the workload webhook, by the result: patched, unchanged, or error.",
	Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
}, []string{"workload", "result"})
