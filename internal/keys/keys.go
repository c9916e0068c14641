// Package keys declares every label, annotation and field manager that confrev reads or writes, each in one place.
package keys

// Prefix is common to all of confrev's labels and annotations.
const Prefix = "confrev.io/"

// Annotations that users set on a workload.
const (
	// Track opts a workload in: "all", "none", or a list such as "configmap/app,secret/db". As a label of a namespace it opts in
	// all workloads in it.
	Track = Prefix + "track"
	// Owners is "true" if an ownerReference of a source to a workload opts the source in. It is set on the workload, or as a
	// label or annotation of its namespace.
	Owners = Prefix + "owners"
	// Settle overrides how long the workload's sources must be quiet before it advances, as a Go duration (rule 2).
	Settle = Prefix + "settle"
	// Mode is what confrev does for the workload: "revision", "restart" or "attach".
	Mode = Prefix + "mode"
	// Injection is where pins are applied: "admission" or "template".
	Injection = Prefix + "injection"
	// RestartOn lists further objects whose changes roll the workload.
	RestartOn = Prefix + "restart-on"
	// RotateBy is how a Rollout of Argo Rollouts gets a rotated credential: "rollout" or "restart-at" (policy rotate).
	RotateBy = Prefix + "rotate-by"
)

// Annotations that users set on a workload, on a source, or on a namespace for all sources in it. On a workload they may be labels too.
const (
	// Advance is when a pin may move to another revision: "auto", "on-deploy" or "manual" (rule 33).
	Advance = Prefix + "advance"
	// FreezeUntil is a time before which no pin moves (rule 34).
	FreezeUntil = Prefix + "freeze-until"
	// Window are the hours outside of which no pin moves (rule 34).
	Window = Prefix + "window"
	// Deploys is "include" if a deploy takes changes through the freeze and the window of the same object (rule 35).
	Deploys = Prefix + "deploys"
)

// Annotations that users set on a source, or on a namespace for all sources in it.
const (
	// Safety is "careful" for a preset of the others (rule 36).
	Safety = Prefix + "safety"
	// Steps are how many workloads a change reaches in each wave: "1,10%,50%" (rule 37).
	Steps = Prefix + "steps"
	// MaxRolling is how many workloads may be in the middle of a change: "5" or "10%" (rule 38).
	MaxRolling = Prefix + "max-rolling"
	// Bake is how long a workload must stay healthy before it vouches for a change, as a Go duration (rule 37).
	Bake = Prefix + "bake"
	// OnFailure is what happens when a change fails: "none", "stop", "undo" or "undo-all" (rule 40).
	OnFailure = Prefix + "on-failure"
	// StopAfter is how many failures it takes (rule 40).
	StopAfter = Prefix + "stop-after"
)

// After is an annotation that users set on a namespace: the namespace whose source of the same name has to vouch first. On a source, "none" makes
// it an exception (rule 44).
const After = Prefix + "after"

// Version is an annotation that users set on a source: sources of the same version, in namespaces that come one after the other, are one change
// (rule 44).
const Version = Prefix + "version"

// Wave is an annotation or label that users set on a workload: lower waves get a change first (rule 37).
const Wave = Prefix + "wave"

// Deadline is an annotation that users set on a workload: how long it may take a change without progress (rule 40).
const Deadline = Prefix + "deadline"

// Analysis is an annotation that users set on a workload, or on a namespace for all workloads in it: the AnalysisTemplates of Argo Rollouts
// that say whether a workload is well with a change (rule 43).
const Analysis = Prefix + "analysis"

// AnalysisOf is a label of the AnalysisRuns that confrev creates: the UID of their workload.
const AnalysisOf = Prefix + "analysis-of"

// Crashes is an annotation that users set on a workload: how many crashes of a container are a failure (rule 41).
const Crashes = Prefix + "crashes"

// Annotations by which people and pipelines steer how a change spreads, on its source (rule 39).
const (
	// Stop is the name of the revision that goes no further.
	Stop = Prefix + "stop"
	// Passed is a revision with its number and how many of its waves count as passed: "app-5f7d8c9b2k@3;wave=2".
	Passed = Prefix + "passed"
	// Resume is a revision with its number that continues although it failed, and how many of its stops that ends: "app-5f7d8c9b2k@3;stop=1".
	Resume = Prefix + "resume"
)

// Annotations that users set on a source.
const (
	// Policy is what may be done with the source: "revision", "rotate", "live" or "ignore".
	Policy = Prefix + "policy"
	// Attach lets mode attach make holders own the source, which is then deleted with the last of them.
	Attach = Prefix + "attach"
	// Protect keeps an attached source readable after its deletion, until no holder uses it.
	Protect = Prefix + "protect"
)

// ProtectFinalizer is on sources that ask for protection (rule 16).
const ProtectFinalizer = Prefix + "protect"

// Annotations that confrev writes on a workload.
const (
	// Pins, on the pod template, says which revision each source resolves to. Package pin reads and writes it.
	Pins = Prefix + "pins"
	// Hashes, on the pod template, has a hash for each object whose changes roll the workload although nothing is pinned (mode
	// restart). Package pin reads and writes it.
	Hashes = Prefix + "hashes"
	// Held, on the workload, notes which revisions it was rolled back from, in the form of Pins (rule 4).
	Held = Prefix + "held"
	// HeldHashes, on the workload, notes the same about objects that only restart it, in the form of Hashes. A source may be both
	// pinned and a reason to restart.
	HeldHashes = Prefix + "held-hashes"
	// Checksum, on the pod template, has a hash for each source of the same stream. Only `render --mode checksum` writes it.
	Checksum = Prefix + "checksum"
	// Advanced, on the workload, notes its latest advance to a source whose changes spread (spread.Advance).
	Advanced = Prefix + "advanced"
	// Paused, on the workload, says that confrev paused it when it was created, and what it waits for (rule 7).
	Paused = Prefix + "paused"
)

// Labels of a revision. The source carries Source too, so that one selector lists the group.
const (
	// Source is the source's name, shortened to the 63 characters of a label.
	Source = Prefix + "source"
	// Content is the version of the hash followed by the hash of the revision's content: "v1-…" (rule 8).
	Content = Prefix + "content"
)

// Annotations of a revision.
const (
	// SourceName is the source's full name.
	SourceName = Prefix + "source-name"
	// Number is the revision's number among its source's; the highest is current (rule 5).
	Number = Prefix + "number"
	// KeyDigests is a digest per key of the content, so that a change to unused keys is recognized without reading it (rule 3).
	KeyDigests = Prefix + "keys"
	// SourceVersion is "<uid>/<resourceVersion>" of the source when its content was last seen to be this revision's, so that
	// starting up reads only the sources that have changed since.
	SourceVersion = Prefix + "source-version"
	// Renewed is when an unowned revision was last about to be pinned (RFC 3339). The grace time of rule 13 counts from it, so
	// that the sweeper leaves a revision alone whose pin is being written.
	Renewed = Prefix + "renewed"
	// Propagation is how far the revision has spread, as far as that was decided (spread.Record).
	Propagation = Prefix + "propagation"
	// Anchor, on a ConfigMap, says that it owns the revisions of its namespace that have too many users to list (rule 14).
	Anchor = Prefix + "anchor"
	// Attached, on a source, says that confrev made its users own it (mode attach).
	Attached = Prefix + "attached"
	// ChangeCause is copied from the source, because users of `kubectl rollout history` expect it.
	ChangeCause = "kubernetes.io/change-cause"
)

// KeySecret is the name of the Secret that holds the key of a namespace's hashes (rule 22).
const KeySecret = "confrev-key"

// DistrustBefore is set by a person on the Secret of the webhooks' certificate authority. Authorities that were created before
// this time (RFC 3339) are dropped at once.
const DistrustBefore = Prefix + "distrust-before"

// FieldManager owns the fields that confrev writes.
const FieldManager = "confrev"
