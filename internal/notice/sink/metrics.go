package sink

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"confrev.io/confrev/internal/notice"
)

var (
	advances = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "confrev_advances_total", Help: "Pins moved to the current revision of their source.",
	}, []string{"workload"})
	pinned = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "confrev_pinned_total", Help: "Pins added to templates that had none for that source.",
	}, []string{"workload"})
	holds = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "confrev_holds_total", Help: "Times that a workload was found rolled back from the current revision of a source.",
	}, []string{"workload"})
	restarts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "confrev_restarts_total", Help: "Workloads rolled out because something changed that they are not pinned to.",
	}, []string{"workload"})
	created = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "confrev_revisions_created_total", Help: "Revisions created.",
	})
	recreated = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "confrev_revisions_recreated_total", Help: "Revisions that vanished while in use and were created again.",
	})
	warnings = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "confrev_warnings_total", Help: "Warning events, by their reason.",
	}, []string{"reason"})
)

func init() {
	metrics.Registry.MustRegister(advances, pinned, holds, restarts, created, recreated, warnings)
}

type metricSink struct{}

// Metrics returns a sink that counts notices. Its metrics are served together with controller-runtime's own.
func Metrics() notice.Sink { return metricSink{} }

func (metricSink) Send(_ context.Context, n notice.Notice) {
	if !n.Normal {
		warnings.WithLabelValues(n.Reason).Inc()
		return
	}
	switch n.Reason {
	case notice.Pinned:
		pinned.WithLabelValues(n.Kind).Inc()
	case notice.RolledForward:
		advances.WithLabelValues(n.Kind).Inc()
	case notice.Held:
		holds.WithLabelValues(n.Kind).Inc()
	case notice.Restarted:
		restarts.WithLabelValues(n.Kind).Inc()
	case notice.RevisionCreated:
		created.Inc()
	case notice.RevisionRecreated:
		recreated.Inc()
	}
}
