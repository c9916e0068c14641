package revision

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/notice"
)

// ConfinementRefused is the reason of a TerminalError about a write that the policy for confrev's own account refused.
const ConfinementRefused = "ConfinementRefused"

// ExplainRefusal turns a refusal by the policy that confines confrev's own account into a TerminalError that names the fields,
// and returns any other error as it is. confrev itself writes nothing that the policy refuses, so another admission webhook must
// have changed further fields in confrev's request.
func ExplainRefusal(err error) error {
	fields, refused := confinementRefusal(err)
	if !refused {
		return err
	}
	return notice.Terminal(ConfinementRefused, "the policy that confines confrev's own account refused one of its writes: %s. If another admission webhook changes such "+
		"fields in every request, list them in the chart's value selfConfinement.tolerate", fields)
}

// confinementRefusal returns the policy's message, which names fields and never values.
func confinementRefusal(err error) (said string, refused bool) {
	if !apierrors.IsForbidden(err) {
		return "", false
	}
	_, policy, found := strings.Cut(err.Error(), "ValidatingAdmissionPolicy '")
	name, after, _ := strings.Cut(policy, "'")
	_, said, denied := strings.Cut(after, "denied request: ")
	return said, found && denied && strings.Contains(name, "-confine-")
}

// NeverCopied is the reason of a TerminalError about a source that confrev never copies (rule 10).
const NeverCopied = "NeverCopied"

// TooBig is the reason of a TerminalError about a source that is too big to be copied, or has too many keys (rule 11).
const TooBig = "TooBig"

// changedError is the error that what was observed has changed. The caller observes it again.
type changedError struct{ what string }

func (e *changedError) Error() string { return e.what + " changed meanwhile; looking again" }

// NewChanged returns an error that satisfies IsChanged: an object changed between reading and writing. The format is for its name.
func NewChanged(format string, args ...any) error { return &changedError{fmt.Sprintf(format, args...)} }

// IsChanged reports whether an error only says that an object changed between reading and writing.
func IsChanged(err error) bool {
	_, ok := errors.AsType[*changedError](err)
	_, gone := Gone(err)
	return ok || gone
}

// goneError is the error that a revision was not found that the caller has seen, or has read of. The caller may observe it again, unless nothing
// but this revision will do.
type goneError struct{ Ref }

func (e *goneError) Error() string {
	return fmt.Sprintf("revision %s no longer exists, or is not proven to be one; looking again", e.Ref)
}

// Gone returns the revision that an error says is gone.
func Gone(err error) (Ref, bool) {
	if gone, ok := errors.AsType[*goneError](err); ok {
		return gone.Ref, true
	}
	return Ref{}, false
}

// ignoreChanged drops an error that satisfies IsChanged: a cached object is gone or was replaced, and its event is on the way.
func ignoreChanged(err error) error {
	if IsChanged(err) {
		return nil
	}
	return err
}

// tooBig reports whether an object was refused because it is too big: by the API server, or by etcd, whose refusals the API
// server reports by their text and without a reason.
func tooBig(err error) bool {
	if err == nil || apierrors.IsRequestEntityTooLargeError(err) {
		return err != nil
	}
	return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && strings.Contains(err.Error(), "etcdserver: request is too large")
}
