package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// judgeRollout finds sources that old and new pods of a rollout share (rule 28).
func (a *auditor) judgeRollout(w *Workload) {
	if w.Kind.RunsJobs() {
		return
	}
	readers := map[pin.Source]map[string]int{}
	for _, pod := range a.pods[w] {
		for _, source := range sourcesOf(pod.Reads) {
			if readers[source] == nil {
				readers[source] = map[string]int{}
			}
			readers[source][pod.Generation]++
		}
	}
	var shared []pin.Source
	most := 0
	for source, generations := range readers {
		found := a.sources[Ref{w.Namespace, source}]
		if len(generations) < 2 || a.fixed(w.Namespace, source) || found != nil && found.Never != "" {
			continue
		}
		shared = append(shared, source)
		count := 0
		for _, n := range generations {
			count += n
		}
		most = max(most, count)
	}
	if len(shared) == 0 {
		return
	}
	slices.SortFunc(shared, pin.Source.Compare)
	a.findings.others = append(a.findings.others, Finding{
		Severity: Warning, Reason: SharedDuringRollout, Namespace: w.Namespace, Object: w.String(), Sources: texts(shared), Pods: most, Fix: w.track(),
		Message: fmt.Sprintf("a rollout is in progress, and old and new pods read the same %s", strings.Join(texts(shared), ", ")),
	})
}

// judgeRestarts finds workloads that no change to their sources would restart (rule 29).
func (a *auditor) judgeRestarts(w *Workload) {
	if w.Kind.RunsJobs() || w.LendsTemplate || w.hasChecksum() {
		return
	}
	atStart := false
	left := map[pin.Source]bool{}
	for _, read := range w.reads() {
		if a.restarts(w, read.Source) {
			continue
		}
		left[read.Source] = true
		atStart = atStart || read.Way != podspec.File
	}
	if len(left) == 0 {
		return
	}
	sources := keysOf(left, pin.Source.Compare)
	found := Finding{
		Severity: Warning, Reason: NothingRestarts, Namespace: w.Namespace, Object: w.String(), Sources: texts(sources), Pods: a.counted(w), Fix: w.track(),
		Message: "no change to these restarts its pods: " + strings.Join(texts(sources), ", "),
	}
	if !atStart {
		found.Severity = Info
		found.Message += ". The kubelet updates their files; a program that reads them only at its start does not notice"
	}
	if found.Pods == 0 {
		found.Severity = Info
	}
	a.findings.others = append(a.findings.others, found)
}

// restarts reports whether a change to a source restarts a workload, or is not made in place, or must not restart anything.
func (a *auditor) restarts(w *Workload, source pin.Source) bool {
	found := a.sources[Ref{w.Namespace, source}]
	if a.fixed(w.Namespace, source) || found != nil && found.Never != "" {
		return true
	}
	track := w.Config.Track
	if track.None() || track.Tracks(source) || track.Owners() && found != nil && w.owns(found) {
		return true
	}
	if slices.ContainsFunc(w.Config.RestartOn, func(t optin.Trigger) bool { return t.String() == source.String() }) {
		return true
	}
	// Malformed ones follow nothing.
	pins, _ := pin.Parse(w.Template.Annotations[keys.Pins])
	hashes, _ := pin.ParseHashes(w.Template.Annotations[keys.Hashes])
	_, pinned := pins[source]
	_, followed := hashes[source]
	return pinned || followed || len(having(w.allAnnotations(), isReloader)) > 0
}

// owns reports whether a source belongs to a workload, or to the object whose template it uses.
func (w *Workload) owns(source *Source) bool {
	return slices.ContainsFunc(source.owners, func(owner types.UID) bool { return owner == w.UID || owner == w.Lender })
}

// fixed reports whether a source is not changed in place: its content has its own name.
func (a *auditor) fixed(namespace string, source pin.Source) bool {
	found := a.sources[Ref{namespace, source}]
	_, _, certain := baseOf(source.Name, found != nil && found.autonamed)
	return certain || found != nil && (found.Immutable || found.Revision)
}

// allAnnotations returns the annotations of a workload and of its template.
func (w *Workload) allAnnotations() map[string]string {
	all := maps.Clone(w.Annotations)
	if all == nil {
		all = map[string]string{}
	}
	if w.Template != nil {
		maps.Copy(all, w.Template.Annotations)
	}
	return all
}

func (w *Workload) hasChecksum() bool {
	return w.Template != nil && slices.ContainsFunc(slices.Collect(maps.Keys(w.Template.Annotations)), isChecksum)
}

// follows reports whether confrev already follows a workload.
func (w *Workload) follows() bool {
	return w.Annotations[keys.Track] != "" || w.Annotations[keys.Mode] != "" || w.Annotations[keys.RestartOn] != "" ||
		w.Template != nil && (w.Template.Annotations[keys.Pins] != "" || w.Template.Annotations[keys.Hashes] != "")
}

// judgePatterns finds what other tools do for a workload, and which mode of confrev fits (rule 30).
func (a *auditor) judgePatterns(w *Workload) {
	if w.LendsTemplate || w.Template == nil || w.follows() {
		return
	}
	sources := sourcesOf(w.reads())
	found := func(reason Reason, sources []pin.Source, fix, format string, args ...any) {
		a.findings.others = append(a.findings.others, Finding{
			Severity: Info, Reason: reason, Namespace: w.Namespace, Object: w.String(), Sources: texts(sources), Pods: a.counted(w), Fix: fix,
			Message: fmt.Sprintf(format, args...),
		})
	}
	if checksums := having(w.Template.Annotations, isChecksum); len(checksums) > 0 && len(sources) > 0 {
		found(ChecksumAnnotation, sources, w.track(), "its template has %s: mode revision fits", strings.Join(checksums, ", "))
	}
	if annotations := having(w.allAnnotations(), isReloader); len(annotations) > 0 {
		found(ReloaderAnnotation, sources, w.track(), "it has %s: mode revision fits, or mode restart with --compat=reloader", strings.Join(annotations, ", "))
	}
	if annotations := having(w.allAnnotations(), isWave); len(annotations) > 0 {
		found(WaveAnnotation, sources, w.track(), "it has %s: mode revision fits, or mode restart with --compat=wave", strings.Join(annotations, ", "))
	}
	var copies []pin.Source
	styles := map[style]bool{}
	for _, source := range sources {
		known := a.sources[Ref{w.Namespace, source}]
		_, made, certain := baseOf(source.Name, known != nil && known.autonamed)
		if certain && (known == nil || !known.Revision) {
			copies, styles[made] = append(copies, source), true
		}
	}
	if len(copies) > 0 {
		found(HashedNames, copies, w.attach(copies), "the names of %s end in %s: mode attach fits", strings.Join(texts(copies), ", "),
			strings.Join(texts(keysOf(styles, func(a, b style) int { return strings.Compare(string(a), string(b)) })), " or "))
	}
}

// having returns the keys of annotations that are of a kind, sorted.
func having(annotations map[string]string, kind func(string) bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(annotations)), func(key string) bool { return !kind(key) })
}

// track returns the command that opts a workload in, in mode revision.
func (w *Workload) track() string {
	return fmt.Sprintf("kubectl confrev track %s -n %s", w, w.Namespace)
}

// attach returns the commands that opt a workload and sources in, in mode attach.
func (w *Workload) attach(sources []pin.Source) string {
	commands := []string{fmt.Sprintf("kubectl annotate %s -n %s %s=attach", w, w.Namespace, keys.Mode)}
	for _, source := range sources {
		commands = append(commands, fmt.Sprintf("kubectl annotate %s -n %s %s=true", source, w.Namespace, keys.Attach))
	}
	return strings.Join(commands, "\n")
}

// sourcesOf returns the sources of reads, each once, sorted.
func sourcesOf(reads []podspec.Read) []pin.Source {
	var sources []pin.Source
	for _, read := range reads {
		sources = append(sources, read.Source)
	}
	slices.SortFunc(sources, pin.Source.Compare)
	return slices.Compact(sources)
}
