package operator

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	namespacesHandled    = "handled"
	namespacesUnreadable = "unreadable"
)

var metricNamespaces = promauto.With(metrics.Registry).NewGaugeVec(prometheus.GaugeOpts{
	Name: "confrev_watched_namespaces",
	Help: "Namespaces of --watch-namespaces: handled, or unreadable, because they do not exist or confrev has no rights in them. Of the leader only.",
}, []string{"state"})
