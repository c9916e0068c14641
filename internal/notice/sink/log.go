package sink

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
)

// lines maps the reason of a notice to its message in the log. Notices with other reasons are not logged: they are events, and
// that is where users look for them.
var lines = map[string]string{
	notice.Pinned: "pinned", notice.Unpinned: "unpinned", notice.RolledForward: "rolled forward", notice.RolledBack: "rolled back",
	notice.Held: "held", notice.Restarted: "restarted",
	notice.RevisionRecreated: "recreated a revision that vanished while in use",
	notice.RevisionMissing:   "a revision was deleted while in use and its content is lost",
}

type logSink struct{}

// Log returns a sink that writes notices to the context's logger. It leaves out their texts, because more people can read the log
// than the events of a namespace (rule 19).
func Log() notice.Sink { return logSink{} }

func (logSink) Send(ctx context.Context, n notice.Notice) {
	line, logged := lines[n.Reason]
	if !logged {
		return
	}
	logger := log.FromContext(ctx)
	if n.Object != nil {
		logger = logger.WithValues("kind", n.Kind, "namespace", n.Object.GetNamespace(), "name", n.Object.GetName())
	}
	if n.Source != (pin.Source{}) {
		logger = logger.WithValues("source", n.Source.String())
	}
	if n.From != (pin.Pin{}) || n.To != (pin.Pin{}) {
		logger = logger.WithValues("from", n.From.String(), "to", n.To.String())
	}
	if len(n.Pins) > 0 {
		logger = logger.WithValues("pins", n.Pins.String())
	}
	logger.Info(line)
}
