package audit

import (
	"fmt"
	"time"

	"confrev.io/confrev/internal/podspec"
)

// second is the resolution of the API's times.
const second = time.Second

// verdict is what is known about one read of one container.
type verdict struct {
	// reason is empty if no change is recorded since the container started.
	reason Reason
	// why completes "it cannot be known, because".
	why string
}

// judgePods compares when containers started with when what they read last changed (rules 25 to 27).
func (a *auditor) judgePods() {
	for i := range a.Pods {
		pod := &a.Pods[i]
		if !pod.Live {
			continue
		}
		a.summary.Pods++
		about := a.subject(pod)
		found := map[Reason]bool{}
		for _, read := range pod.Reads {
			v := a.judge(pod, read)
			if v.reason == "" {
				continue
			}
			found[v.reason] = true
			a.findings.add(v.reason, about, pod, read, v.why)
		}
		a.summary.count(found, len(pod.Reads) > 0)
	}
}

// judge returns what is known about one read. It never returns less than is true: what cannot be known has a reason too.
func (a *auditor) judge(pod *Pod, read podspec.Read) verdict {
	started, runs := pod.starts[read.Container]
	if !runs {
		// It reads when it starts.
		return verdict{}
	}
	if a.Hidden[read.Kind] {
		return verdict{StalenessUnknown, fmt.Sprintf("you may not list %ss", kindName(read.Kind))}
	}
	source := a.sources[Ref{pod.Namespace, read.Source}]
	switch {
	case source == nil && read.Optional:
		return verdict{StalenessUnknown, "it does not exist, and whether it did when the pod started is not recorded"}
	case source == nil:
		return verdict{reason: SourceMissing}
	case source.Revision:
		// Its name is a hash of its content.
		return verdict{}
	case started.at.IsZero():
		return verdict{StalenessUnknown, "the pod's status does not say when its containers started"}
	}
	changed, why := source.changed(read.Keys)
	switch {
	case started.at.Before(changed):
		return beforeChange(source, read, started)
	case why != "":
		return verdict{StalenessUnknown, why}
	case a.tooClose(pod, source, started, changed):
		return verdict{StalenessUnknown, fmt.Sprintf("a container started at most %s after the change, in a pod that is no younger than the change: "+
			"it may have read the content from before", a.Margin)}
	case a.writtenUnrecorded(source, started):
		return verdict{StalenessUnknown, "it was written at a time that its managed fields do not record, as when a key is removed"}
	case a.mayBeCached(pod, source):
		return verdict{StalenessUnknown, "it is immutable and was recreated while pods of the node used it: the kubelet may serve the old content"}
	}
	return verdict{}
}

// tooClose reports whether a container that started after a change may have read the content from before (rule 27).
func (a *auditor) tooClose(pod *Pod, source *Source, started start, changed time.Time) bool {
	if pod.Created.After(changed) {
		// The kubelet gets a source for a pod when it learns of the pod.
		return false
	}
	if !changed.After(source.Created) && a.isFirst(pod, source) {
		return false
	}
	return !started.at.After(changed.Add(a.Margin))
}

// isFirst reports whether there was no object of a source's name before it: its name has a hash of its content, or the pod's workload
// is no older than the source.
func (a *auditor) isFirst(pod *Pod, source *Source) bool {
	if _, made, _ := baseOf(source.Name, source.autonamed); made == hashed {
		return true
	}
	w := a.workloadOf(pod)
	return w != nil && !w.Created.Before(source.Created)
}

// beforeChange judges a container that started before the change.
func beforeChange(source *Source, read podspec.Read, started start) verdict {
	// The kubelet does not update files of an immutable source.
	if read.Way == podspec.File && !started.ended && !source.Immutable {
		return verdict{reason: FilesChanged}
	}
	return verdict{reason: StalePods}
}

// writtenUnrecorded reports whether a source may have been written since a container started, by a write that left no time. The
// API server notes no time when a client only removes keys that another client wrote (rule 26).
func (a *auditor) writtenUnrecorded(source *Source, started start) bool {
	from, until, bounded := a.clock.bounds(source.version)
	if !from.After(source.recorded().Add(second)) {
		// The last write is the one that is recorded.
		return false
	}
	return !bounded || !started.at.After(until.Add(a.Margin))
}

// mayBeCached reports whether the kubelet may serve another content than the API server: it never reads an immutable object again
// while some pod of the node uses its name (kubernetes#119733).
func (a *auditor) mayBeCached(pod *Pod, source *Source) bool {
	oldest, known := a.oldest[onNode{source.Ref, pod.Node}]
	return source.Immutable && known && oldest.Before(source.Created)
}
