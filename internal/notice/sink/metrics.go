package sink

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"confrev.io/confrev/internal/notice"
)

var register = promauto.With(metrics.Registry)

// byWorkload has the counters of notices by the kind of their workload, totals those of notices that may have none.
var (
	byWorkload = map[string]*prometheus.CounterVec{
		notice.RolledForward: perWorkload(prometheus.CounterOpts{Name: "confrev_advances_total", Help: "Pins moved to the current revision of their source."}),
		notice.Pinned:        perWorkload(prometheus.CounterOpts{Name: "confrev_pinned_total", Help: "Pins added to templates that had none for that source."}),
		notice.Held: perWorkload(prometheus.CounterOpts{
			Name: "confrev_holds_total", Help: "Times that a workload was found rolled back from the current revision of a source."}),
		notice.Restarted: perWorkload(prometheus.CounterOpts{
			Name: "confrev_restarts_total", Help: "Workloads rolled out because something changed that they are not pinned to."}),
	}
	totals = map[string]prometheus.Counter{
		notice.RevisionCreated: register.NewCounter(prometheus.CounterOpts{Name: "confrev_revisions_created_total", Help: "Revisions created."}),
		notice.RevisionRecreated: register.NewCounter(prometheus.CounterOpts{
			Name: "confrev_revisions_recreated_total", Help: "Revisions that vanished while in use and were created again."}),
	}
	warnings = register.NewCounterVec(prometheus.CounterOpts{Name: "confrev_warnings_total", Help: "Warning events, by their reason."}, []string{"reason"})
)

// eventsDropped counts, among the warnings, events that were not sent since too many waited.
const eventsDropped = "EventsDropped"

func perWorkload(o prometheus.CounterOpts) *prometheus.CounterVec {
	return register.NewCounterVec(o, []string{"workload"})
}

type metricSink struct{}

// alerted are the reasons that the chart's alerts ask for.
var alerted = []string{notice.RevisionMissing, notice.Reverted, notice.ChangeFailed}

// Metrics returns a sink that counts notices. Its metrics are served together with controller-runtime's own.
func Metrics() notice.Sink {
	for _, reason := range alerted {
		// A counter that appears with its first event has not increased, as Prometheus sees it, and no alert would fire.
		warnings.WithLabelValues(reason)
	}
	return metricSink{}
}

func (metricSink) Send(_ context.Context, n notice.Notice) {
	if !n.Normal {
		warnings.WithLabelValues(n.Reason).Inc()
		return
	}
	if counter, counted := byWorkload[n.Reason]; counted {
		counter.WithLabelValues(n.Kind).Inc()
	}
	if counter, counted := totals[n.Reason]; counted {
		counter.Inc()
	}
}
