package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/snapshot"
	"confrev.io/confrev/internal/workload"
)

// HistoryList is what `history` prints as JSON and YAML.
type HistoryList struct {
	metav1.TypeMeta `json:",inline"`
	Items           []SourceHistory `json:"items"`
	Notes           []string        `json:"notes,omitempty"`
}

// SourceHistory has the revisions of one source, from the lowest number on.
type SourceHistory struct {
	Namespace string          `json:"namespace"`
	Source    string          `json:"source"`
	Revisions []RevisionEntry `json:"revisions"`

	source pin.Source
}

// RevisionEntry is one revision.
type RevisionEntry struct {
	RevisionName `json:",inline"`
	Created      metav1.Time `json:"created"`
	// Current is true when it has the source's present content.
	Current bool `json:"current"`
	// Workloads have it in their templates or in those of their holders; Holders are these.
	Workloads []string `json:"workloads,omitempty"`
	Holders   []string `json:"holders,omitempty"`
	Pods      int      `json:"pods"`
	// Bytes is the size of its content: keys and values.
	Bytes       int     `json:"bytes"`
	Changes     Changes `json:"changes"`
	ChangeCause string  `json:"changeCause,omitempty"`
}

// Changes are the keys in which a revision differs from the one before.
type Changes struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

type historyReport struct {
	list  HistoryList
	notes []string
}

// history looks at the revisions of one source.
func (s *scope) history(ctx context.Context, source pin.Source) (SourceHistory, error) {
	history := SourceHistory{Namespace: s.namespace, Source: source.String(), source: source, Revisions: []RevisionEntry{}}
	seen, err := s.Observe(ctx, s.namespace, source)
	if terminal, ok := errors.AsType[*revision.TerminalError](err); ok && terminal.Reason == revision.KeyUnreadable {
		// The revisions are known all the same, but not which of them is current.
		s.notes = append(s.notes, terminal.Message)
		seen.Revisions, err = s.Labelled(s.namespace, source), nil
	}
	if err != nil {
		return history, err
	}
	about := map[string]client.Object{}
	for _, obj := range s.Snapshot.Sources(source.Kind) {
		if obj.GetNamespace() == s.namespace {
			about[obj.GetName()] = obj
		}
	}
	pods := s.podsByRevision()
	slices.SortFunc(seen.Revisions, func(a, b plan.Revision) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name))
	})
	before := content.Digests{}
	for _, r := range seen.Revisions {
		text := pin.Source{Kind: source.Kind, Name: r.Name}
		entry := RevisionEntry{
			RevisionName: RevisionName{r.Name, r.Number}, Current: r.Hash == seen.Hash,
			Changes: changes(before, r.Digests), Pods: pods[text],
		}
		before = r.Digests
		if obj := about[r.Name]; obj != nil {
			entry.Created, entry.ChangeCause = obj.GetCreationTimestamp(), obj.GetAnnotations()[keys.ChangeCause]
		}
		pinners, err := s.PinnersOf(ctx, s.namespace, text)
		if err != nil {
			return history, err
		}
		entry.addUsers(s, pinners)
		history.Revisions = append(history.Revisions, entry)
	}
	return history, nil
}

// podsByRevision counts the pods of the namespace by the revisions that they carry.
func (s *scope) podsByRevision() map[pin.Source]int {
	counts := map[pin.Source]int{}
	for _, pod := range s.Snapshot.Objects(snapshot.Pod) {
		pins, _ := pin.Parse(pod.GetAnnotations()[keys.Pins])
		for source, p := range pins {
			counts[pin.Source{Kind: source.Kind, Name: p.Revision}]++
		}
	}
	return counts
}

// addUsers adds the workloads and holders that pin a revision, and the workloads of the holders.
func (e *RevisionEntry) addUsers(s *scope, pinners []client.Object) {
	workloads, holders := map[string]bool{}, map[string]bool{}
	for _, obj := range pinners {
		name := resourceName(workload.GVKOf(obj).Kind, obj.GetName())
		if slices.ContainsFunc(s.Kinds, func(k workload.Kind) bool { return k.GVK == workload.GVKOf(obj) }) {
			workloads[name] = true
			continue
		}
		holders[name] = true
		if owner := metav1.GetControllerOf(obj); owner != nil {
			workloads[resourceName(owner.Kind, owner.Name)] = true
		}
	}
	e.Workloads, e.Holders = slices.Sorted(maps.Keys(workloads)), slices.Sorted(maps.Keys(holders))
}

func resourceName(kind, name string) string { return strings.ToLower(kind) + "/" + name }

// changes compares two contents by their digests. All keys of the first are added.
func changes(before, after content.Digests) Changes {
	var c Changes
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if old, was := before[key]; !was {
			c.Added = append(c.Added, key)
		} else if old != after[key] {
			c.Changed = append(c.Changed, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, is := after[key]; !is {
			c.Removed = append(c.Removed, key)
		}
	}
	return c
}

// shownKeys is how many keys of a kind of change a line shows.
const shownKeys = 3

// String gives the changes in a line: "+added -removed ~changed".
func (c Changes) String() string {
	var parts []string
	add := func(sign string, keys []string) {
		for i, key := range keys {
			if i == shownKeys {
				parts = append(parts, fmt.Sprintf("%s%d more", sign, len(keys)-shownKeys))
				break
			}
			parts = append(parts, sign+key)
		}
	}
	add("+", c.Added)
	add("-", c.Removed)
	add("~", c.Changed)
	return orDash(strings.Join(parts, " "))
}

func (h *SourceHistory) setSizes(contents map[string]content.Content) {
	for i := range h.Revisions {
		c := contents[h.Revisions[i].Name]
		for key, value := range c.Data {
			h.Revisions[i].Bytes += len(key) + len(value)
		}
		for key, value := range c.BinaryData {
			h.Revisions[i].Bytes += len(key) + len(value)
		}
	}
}

func (r *historyReport) empty() bool {
	return !slices.ContainsFunc(r.list.Items, func(h SourceHistory) bool { return len(h.Revisions) > 0 })
}

func (r *historyReport) object() any {
	r.list.TypeMeta = metav1.TypeMeta{APIVersion: outputVersion, Kind: "HistoryList"}
	r.list.Notes = r.notes
	if r.list.Items == nil {
		r.list.Items = []SourceHistory{}
	}
	return &r.list
}

func (r *historyReport) named() []runtime.Object {
	var all []runtime.Object
	for _, h := range r.list.Items {
		for _, entry := range h.Revisions {
			all = append(all, revision.Metadata(revision.Ref{Kind: h.source.Kind, Namespace: h.Namespace, Name: entry.Name}))
		}
	}
	return all
}

func (r *historyReport) table() *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: columns(
		[]string{"Source", "Number", "Current", "Age", "Used By", "Pods", "Changes", "Change-Cause"}, "Revision", "Bytes", "Held By")}
	for _, h := range r.list.Items {
		for _, e := range h.Revisions {
			current := ""
			if e.Current {
				current = "*"
			}
			table.Rows = append(table.Rows, row(h.Namespace, h.Source, fmt.Sprint(e.Number), orDash(current),
				duration.HumanDuration(time.Since(e.Created.Time)), few(e.Workloads), fmt.Sprint(e.Pods), e.Changes.String(), orDash(e.ChangeCause),
				e.Name, fmt.Sprint(e.Bytes), few(e.Holders)))
		}
	}
	return table
}

// few shows the first names of many.
func few(names []string) string {
	if len(names) > shownKeys {
		return strings.Join(names[:shownKeys], ",") + fmt.Sprintf(",+%d more", len(names)-shownKeys)
	}
	return orDash(strings.Join(names, ","))
}
