package revision

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/metadata"
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

// Denied reports whether an error is an answer that stays the same until someone changes something: a right is missing, a policy or webhook denies
// a write, a webhook that has to be asked does not answer, or the object is not valid. In a namespace that is being deleted, nothing is left to do.
func Denied(err error) bool {
	if _, ok := errors.AsType[*apierrors.StatusError](err); !ok || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) && !metadata.TestFailed(err) || ByAnother(err)
}

// unanswered are the words with which the API server says that a webhook did not answer.
const unanswered = "failed calling webhook "

// denials are the words with which the API server says that a webhook or a policy denied something, or did not answer. No name has a space in it.
var denials = []string{" denied the request", " denied request", unanswered}

// ByAnother reports whether an error is the API server's answer that a webhook or a policy denied something, or did not answer. What they say, and
// which reason they give, is up to them.
func ByAnother(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && slices.ContainsFunc(denials, func(words string) bool { return strings.Contains(status.ErrStatus.Message, words) })
}

// deniedForGood reports whether an error is Denied for another reason than that a webhook did not answer. That may pass within moments, so what needs
// a revision tries again sooner than after a refusal.
func deniedForGood(err error) bool {
	return Denied(err) && !strings.Contains(err.Error(), unanswered)
}

// ExplainDenial turns an error that is Denied into a TerminalError about an object.
func ExplainDenial(name string, err error) error {
	if _, refused := confinementRefusal(err); refused {
		return ExplainRefusal(err)
	}
	return notice.Terminal(notice.WriteRefused, "%s cannot be changed: %v; it stays as it is", name, err)
}

// RevisionRefused is the reason of a TerminalError about a source whose copy is denied.
const RevisionRefused = "RevisionRefused"

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
