// Package notice describes, as data, what happened or what is wrong. The code that finds out creates a Notice, and sinks
// (internal/notice/sink) turn it into events, metrics and log lines. The package must not import a client, a clock or a sink, so
// that the pure core can use it too.
package notice

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"confrev.io/confrev/internal/pin"
)

// Object is an object of the API, as far as a notice is about it.
type Object interface {
	metav1.Object
	runtime.Object
}

// Notice is one thing that happened, or one condition that the user should know about. Only Reason and Text are always set.
type Notice struct {
	Reason string
	// Text is a sentence for the user. It never contains the content of an object (rule 19).
	Text string
	// Normal is true if nothing is wrong; otherwise the notice is a warning.
	Normal bool
	// Object is the workload that the notice is about, and Kind is kubectl's name for its kind: "deployment".
	Object Object
	Kind   string
	// Users are the workloads that the notice is about if no single one caused it.
	Users []Object
	// Source is the source that the notice is about, and Keys lists the keys of its data that the notice is about. SourceObject is
	// the source itself; it is nil if the source does not exist or is not known.
	Source       pin.Source
	Keys         string
	SourceObject Object
	// From and To are the pins between which Source moved. A hash is never one of them.
	From, To pin.Pin
	// Pins are the pins that were removed from the template, if all of them were.
	Pins pin.Set
}

// Warning returns a notice that something is wrong, about a source unless that is zero.
func Warning(reason string, source pin.Source, format string, args ...any) Notice {
	return Notice{Reason: reason, Source: source, Text: fmt.Sprintf(format, args...)}
}

// TerminalError is a notice as an error that retrying does not fix, because the user must change something.
type TerminalError struct{ Notice }

func (e *TerminalError) Error() string { return e.Text }

// About returns the error's notice, as one about a source.
func (e *TerminalError) About(source pin.Source) Notice {
	n := e.Notice
	n.Source = source
	return n
}

// Terminal returns a TerminalError.
func Terminal(reason, format string, args ...any) error {
	return &TerminalError{Warning(reason, pin.Source{}, format, args...)}
}

// Sink receives notices. A notice about a write is sent after that write.
type Sink interface {
	Send(ctx context.Context, n Notice)
}

// Sinks combines several sinks into one.
type Sinks []Sink

// Send sends a notice to all of them.
func (s Sinks) Send(ctx context.Context, n Notice) {
	for _, sink := range s {
		sink.Send(ctx, n)
	}
}

// Cut returns a text, shortened to most bytes if it is longer.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	// The cut may fall within a character.
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}
