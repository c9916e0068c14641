package gate

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var metricResolver = promauto.With(metrics.Registry).NewGaugeVec(prometheus.GaugeOpts{
	Name: "confrev_pod_admission",
	Help: "1 for what resolves pins when pods are created: policy or webhook, or none, in which case nothing is pinned; off if confrev is limited to single namespaces.",
}, []string{"by"})

func observe(by Resolver) {
	for _, other := range []Resolver{Policy, Webhook, None, Off} {
		metricResolver.WithLabelValues(string(other)).Set(0)
	}
	metricResolver.WithLabelValues(string(by)).Set(1)
}
