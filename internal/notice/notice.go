// Package notice is what happened, or is wrong, as data. The code that finds out creates a Notice; sinks (internal/notice/sink) turn it into
// events, metrics and lines of the log. It imports no client, no clock and no sink, so that the pure core can use it too.
package notice

import (
	"context"
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

// Notice is one thing that happened, or one condition that the user should know of. Only Reason and Text are always set.
type Notice struct {
	Reason string
	// Text is for the user. It repeats no content of any object (rule 19).
	Text string
	// Normal is true when nothing is wrong; otherwise it is a warning.
	Normal bool
	// Object is the workload that it is about, and Kind how kubectl names its kind: "deployment".
	Object Object
	Kind   string
	// Users are workloads that it is about where no single one made it happen.
	Users []Object
	// Source is the source that it is about, and Keys are those of its data, if it is about some. SourceObject is the source itself;
	// nil where it does not exist or is not known.
	Source       pin.Source
	Keys         string
	SourceObject Object
	// From and To are the pins between which Source moved. A hash is never one of them.
	From, To pin.Pin
	// Pins are those that the template lost, when it lost all of them.
	Pins pin.Set
}

// Sink takes notices. Each is sent after the write that it is about, if it is about one.
type Sink interface {
	Send(ctx context.Context, n Notice)
}

// Sinks are several sinks as one.
type Sinks []Sink

// Send sends a notice to all of them.
func (s Sinks) Send(ctx context.Context, n Notice) {
	for _, sink := range s {
		sink.Send(ctx, n)
	}
}

// Cut returns a text that is no longer than that many bytes.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	// The cut may fall within a character.
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}
