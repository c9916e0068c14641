// Package keys declares every label, annotation and field manager that confrev reads or writes, once.
package keys

// Prefix is common to all of confrev's labels and annotations.
const Prefix = "confrev.io/"

// Annotations that users set on a workload.
const (
	// Track opts a workload in: "all", "none", or a list such as "configmap/app,configmap/web".
	Track = Prefix + "track"
	// Settle overrides how long the workload's sources must be quiet before it advances, as a Go duration (rule 2).
	Settle = Prefix + "settle"
)

// Annotations that confrev writes on a workload.
const (
	// Pins, on the pod template, says which revision each source resolves to. Package pin reads and writes it.
	Pins = Prefix + "pins"
	// Held, on the workload, notes which revisions it was rolled back from, in the form of Pins (rule 4).
	Held = Prefix + "held"
)

// Labels of a revision. The source carries Source too, so that one selector lists the group.
const (
	// Source is the source's name, shortened to the 63 characters of a label.
	Source = Prefix + "source"
	// Content is the hash of the revision's content behind the version of the hash: "v1-…" (rule 8).
	Content = Prefix + "content"
)

// Annotations of a revision.
const (
	// SourceName is the source's whole name.
	SourceName = Prefix + "source-name"
	// Number is the revision's number among its source's; the highest is current (rule 5).
	Number = Prefix + "number"
	// KeyDigests is a digest per key of the content, so that a change of unused keys is told without reading it (rule 3).
	KeyDigests = Prefix + "keys"
	// SourceVersion is "<uid>/<resourceVersion>" of the source when its content was last seen to be this revision's,
	// so that starting up reads only the sources that changed since.
	SourceVersion = Prefix + "source-version"
	// Renewed is when an unowned revision was last about to be pinned (RFC 3339). The grace time of rule 13 counts from
	// it: it keeps the sweeper from a revision whose pin is being written.
	Renewed = Prefix + "renewed"
	// ChangeCause is copied from the source, for `kubectl rollout history` habits.
	ChangeCause = "kubernetes.io/change-cause"
)

// FieldManager owns the fields that confrev writes.
const FieldManager = "confrev"
