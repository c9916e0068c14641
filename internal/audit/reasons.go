package audit

import "confrev.io/confrev/internal/pin"

// Reason is one word for what was found.
type Reason string

// The reasons. docs/audit.md has a row for each of them.
const (
	StalePods           Reason = "StalePods"
	SourceMissing       Reason = "SourceMissing"
	SharedDuringRollout Reason = "SharedDuringRollout"
	NothingRestarts     Reason = "NothingRestarts"
	FilesChanged        Reason = "FilesChanged"
	StalenessUnknown    Reason = "StalenessUnknown"
	UnusedCopies        Reason = "UnusedCopies"
	ChecksumAnnotation  Reason = "ChecksumAnnotation"
	ReloaderAnnotation  Reason = "ReloaderAnnotation"
	WaveAnnotation      Reason = "WaveAnnotation"
	HashedNames         Reason = "HashedNames"
)

// Reasons lists all reasons, in the order in which they are shown.
var Reasons = []Reason{StalePods, SourceMissing, SharedDuringRollout, NothingRestarts, FilesChanged, StalenessUnknown, UnusedCopies,
	ChecksumAnnotation, ReloaderAnnotation, WaveAnnotation, HashedNames}

// explanations say what each reason means to someone who has never heard of confrev.
var explanations = map[Reason]string{
	StalePods: "These pods started before the last recorded change to a ConfigMap or Secret that containers read only when they start. " +
		"The fix replaces the pods now.",
	SourceMissing: "These pods run, but what they were started with no longer exists. A pod that is replaced or restarted does not start.",
	SharedDuringRollout: "During this rollout, old and new pods read the same object. If it changes, old pods get the new content whenever they restart, " +
		"and rolling back does not bring the old content back.",
	NothingRestarts: "No change to these ConfigMaps and Secrets restarts the pods. With confrev's controller, the fix makes each change a rollout, " +
		"and a rollback brings the old content back.",
	FilesChanged: "The files of these pods were updated while they ran. A program that reads files only at its start still has the old content. " +
		"The fix replaces the pods.",
	StalenessUnknown: "Whether these pods have the present content cannot be known from outside. The fix replaces the pods, which settles it.",
	UnusedCopies: "No pod, no workload, no history and nothing else that was looked at names these copies. A program that reads through the API, " +
		"or an object of another kind, may still use them. The command searches for them; it deletes nothing.",
	ChecksumAnnotation: "A checksum in the pod template restarts the pods when the deploy tool changes the configuration. An edit of the live object " +
		"does not. Mode revision fits: it also covers edits, and keeps old content for old pods and rollbacks. The annotation may stay.",
	ReloaderAnnotation: "Reloader's annotations restart the pods on a change, if Reloader runs. confrev can follow them (docs/compat.md). " +
		"Mode revision fits: it also keeps old content for old pods and rollbacks.",
	WaveAnnotation: "Wave's annotations restart the pods on a change, if Wave runs. confrev can follow them (docs/compat.md). " +
		"Mode revision fits: it also keeps old content for old pods and rollbacks.",
	HashedNames: "Names with a hash, such as kustomize's, or with a random end, such as Pulumi's: each deploy has its own object. " +
		"Mode attach fits: old objects are deleted with the last ReplicaSet that names them. Have the deploy tool set both annotations.",
}

// Explain returns what a reason means.
func (r Reason) Explain() string { return explanations[r] }

// severity returns the severity of a finding about pods.
func (r Reason) severity(about subject) Severity {
	switch r {
	case FilesChanged, StalenessUnknown:
		return Unknown
	case StalePods:
		// A Job ends with what it started with.
		if about.workload != nil && about.workload.Kind.RunsJobs() {
			return Info
		}
	}
	return Warning
}

// kindName returns a kind of sources as people write it.
func kindName(kind pin.Kind) string {
	if kind == pin.Secret {
		return "Secret"
	}
	return "ConfigMap"
}
