// Package sink sends notices to events, metrics and the log. A further sink is a file in this package, and an entry in notice.Sinks
// in internal/operator/manager.go.
package sink

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
)

// maxNote is how many bytes a note may have.
const maxNote = notice.MaxText

// actions maps the reason of a notice to its event's action: what confrev did, or tried to do. For any other reason it is plan.
var actions = map[string]string{
	notice.Pinned: "Pin", notice.Unpinned: "Unpin", notice.RolledForward: "Advance", notice.RolledBack: "RollBack", notice.Held: "Hold",
	notice.Restarted: "Restart", notice.RevisionCreated: "CreateRevision", notice.RevisionRecreated: "RecreateRevision",
	notice.RevisionMissing: "RecreateRevision", notice.PauseEnded: "Resume", notice.NotRolledBack: "RollBack",
}

const plan = "Plan"

type eventSink struct{ recorder events.EventRecorder }

// Events returns a sink that records notices as Kubernetes events on the workload, the source, or both.
func Events(recorder events.EventRecorder) notice.Sink { return eventSink{recorder} }

func (s eventSink) Send(_ context.Context, n notice.Notice) {
	switch n.Reason {
	case notice.RevisionCreated:
		if n.SourceObject == nil {
			s.onWorkloads(n, nil)
			return
		}
		s.on(n.SourceObject, n.Object, n, n.Text)
	case notice.RevisionRecreated:
		if n.SourceObject != nil {
			s.on(n.SourceObject, n.Object, n, n.Text)
		}
		s.onWorkloads(n, n.SourceObject)
	case notice.Held:
		s.onWorkloads(n, n.SourceObject)
		if n.SourceObject != nil {
			s.on(n.SourceObject, n.Object, n, fmt.Sprintf("%s %s: %s", n.Kind, n.Object.GetName(), n.Text))
		}
	case notice.Pinned, notice.RolledForward, notice.RolledBack, notice.Restarted:
		s.onWorkloads(n, n.SourceObject)
	default:
		s.onWorkloads(n, reference(n))
	}
}

func (s eventSink) onWorkloads(n notice.Notice, related runtime.Object) {
	if n.Object != nil {
		s.on(n.Object, related, n, n.Text)
	}
	for _, user := range n.Users {
		s.on(user, related, n, n.Text)
	}
}

func (s eventSink) on(regarding, related runtime.Object, n notice.Notice, note string) {
	kind := corev1.EventTypeWarning
	if n.Normal {
		kind = corev1.EventTypeNormal
	}
	action, listed := actions[n.Reason]
	if !listed {
		action = plan
	}
	s.recorder.Eventf(regarding, related, kind, n.Reason, action, "%s", notice.Cut(note, maxNote))
}

// reference returns a reference to the source that a condition is about, whether or not the source exists. It is nil if the
// condition is about no source. The recorder takes events with the same reason about the same object for repetitions, whatever
// their notes say, unless their related objects differ.
func reference(n notice.Notice) runtime.Object {
	if n.Source == (pin.Source{}) {
		return nil
	}
	about := &corev1.ObjectReference{Kind: string(n.Source.Kind), Name: n.Source.Name, FieldPath: notice.Cut(n.Keys, maxNote)}
	switch {
	case n.Object != nil:
		about.Namespace = n.Object.GetNamespace()
	case len(n.Users) > 0:
		about.Namespace = n.Users[0].GetNamespace()
	}
	if slices.Contains(pin.Kinds, n.Source.Kind) {
		about.APIVersion, about.Kind = revision.GVK(n.Source.Kind).ToAPIVersionAndKind()
	}
	return about
}
