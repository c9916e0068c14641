package controller

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
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
	r.Eventf(regarding, nil, kind, w.reason, action, "%s", shortened(w.note))
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
			all = append(all, warning{reason: reasonSourceMissing, note: missingSource(d, keep)})
		case plan.KeyMissing:
			all = append(all, warning{reason: reasonKeyMissing, note: missingKeys(d, keep)})
		case plan.Waiting:
			all = append(all, warning{reason: reasonWaiting, notice: true, note: fmt.Sprintf(
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
