package controller

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
