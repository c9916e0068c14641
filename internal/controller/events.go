package controller

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
)

// The reasons of events. Each is said after the write that it speaks of.
const (
	reasonPinned         = "Pinned"
	reasonRolledForward  = "RolledForward"
	reasonRolledBack     = "RolledBack"
	reasonHeld           = "Held"
	reasonCreated        = "RevisionCreated"
	reasonRecreated      = "RevisionRecreated"
	reasonRevisionLost   = "RevisionMissing"
	reasonSourceMissing  = "SourceMissing"
	reasonKeyMissing     = "KeyMissing"
	reasonMalformedPins  = "MalformedPins"
	reasonNotReferenced  = "NotReferenced"
	reasonKindNotEnabled = "KindNotEnabled"
	reasonTooComplex     = "TooManyReferences"
	reasonRestarted      = "Restarted"
	reasonUnpinned       = "Unpinned"
	reasonNoTemplate     = "NoPodTemplate"
	reasonForbidden      = "RestartOnForbidden"
	reasonReverted       = "Reverted"
	reasonSecretsLimited = "SecretsLimited"
	reasonNotKept        = "PinsNotKept"
	reasonPaused         = "Paused"
	reasonPauseEnded     = "PauseEnded"
	reasonWaiting        = "WaitingToAdvance"
	reasonOwnerIgnored   = "OwnerIgnored"
	reasonKeyLost        = "KeyLost"

	reasonPoliciesMissing = "PoliciesNotReady"
)

// maxNote is the longest note that the API server takes of an event.
const maxNote = 1024

// recorder sends events.
type recorder struct{ events.EventRecorder }

// warning is a condition that the user should know of.
type warning struct {
	reason string
	note   string
	// about is the source that it is about, if it is about one; keys are those of its data, if it is about some.
	about pin.Source
	keys  string
	// notice is true when nothing is wrong: somebody asked for it to be so.
	notice bool
}

func (r *recorder) normal(regarding client.Object, related runtime.Object, reason, action, note string) {
	r.Eventf(regarding, related, corev1.EventTypeNormal, reason, action, "%s", shortened(note))
}

func (r *recorder) warn(regarding client.Object, w warning, action string) {
	kind := corev1.EventTypeWarning
	if w.notice {
		kind = corev1.EventTypeNormal
	}
	r.Eventf(regarding, w.related(regarding.GetNamespace()), kind, w.reason, action, "%s", shortened(w.note))
}

// is reports whether two warnings would be one event.
func (w warning) is(other warning) bool {
	return w.reason == other.reason && w.about == other.about && w.keys == other.keys
}

// related names what a warning is about, whether or not that exists. Events of one reason about one object are repetitions of the first
// to whoever records them, whatever their notes say, unless they are related to different things. It is nil where there is nothing to
// name, and a plain nil: an interface that holds one would be taken for an object.
func (w warning) related(namespace string) runtime.Object {
	if w.about == (pin.Source{}) {
		return nil
	}
	about := &corev1.ObjectReference{Kind: string(w.about.Kind), Namespace: namespace, Name: w.about.Name, FieldPath: w.keys}
	if slices.Contains(pin.Kinds, w.about.Kind) {
		about.APIVersion, about.Kind = revision.GVK(w.about.Kind).ToAPIVersionAndKind()
	}
	return about
}

func shortened(note string) string { return cut(note, maxNote) }

// cut gives a text that is no longer than so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	// The cut may fall within a character.
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// warnings gives what the user should know of a plan, but for what is said of writes. frozen tells whether pods have
// revisions to go on with.
func warnings(p plan.Plan, frozen bool) []warning {
	var all []warning
	for _, d := range p.Decisions {
		keep := ""
		if frozen && d.From != (pin.Pin{}) {
			keep = fmt.Sprintf("; pods keep using its revision %s", d.From)
		}
		switch d.Verdict {
		case plan.SourceMissing:
			all = append(all, warning{reason: reasonSourceMissing, about: d.Source, note: missingSource(d, keep)})
		case plan.KeyMissing:
			all = append(all, warning{reason: reasonKeyMissing, about: d.Source, keys: cut(strings.Join(d.Keys, ","), maxNote), note: missingKeys(d, keep)})
		case plan.Waiting:
			all = append(all, warning{reason: reasonWaiting, about: d.Source, notice: true, note: fmt.Sprintf(
				"%s changed; the annotation %s of the workload says when it rolls out", d.Source, keys.Advance)})
		}
	}
	return all
}

func missingSource(d plan.Decision, keep string) string {
	switch {
	case keep != "":
		return fmt.Sprintf("%s does not exist any more%s", d.Source, keep)
	case d.From != pin.Pin{}:
		return fmt.Sprintf("%s does not exist any more", d.Source)
	}
	return fmt.Sprintf("%s does not exist; new pods cannot start until it is created", d.Source)
}

func missingKeys(d plan.Decision, keep string) string {
	if keep == "" {
		return fmt.Sprintf("%s lacks %q, which a container requires; the workload goes on once it has it", d.Source, d.Keys)
	}
	return fmt.Sprintf("%s lacks %q, which a container requires%s", d.Source, d.Keys, keep)
}

// warn says what has not been said before, on the workload.
func (r *workloads) warn(obj client.Object, known *memory, all []warning) {
	for _, w := range known.news(all) {
		r.events.warn(obj, w, "Plan")
		if !w.notice {
			metricWarnings.WithLabelValues(w.reason).Inc()
		}
	}
}
