package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
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

// SourceHistory has the revisions of one source, in ascending order of their numbers.
type SourceHistory struct {
	Namespace string          `json:"namespace"`
	Source    string          `json:"source"`
	Revisions []RevisionEntry `json:"revisions"`

	of pin.Source
}

// Metadata returns the name of a revision of the source as an object of its kind.
func (h SourceHistory) Metadata(entry RevisionEntry) *metav1.PartialObjectMetadata {
	return revision.Metadata(revision.Ref{Kind: h.of.Kind, Namespace: h.Namespace, Name: entry.Name})
}

// RevisionEntry is one revision.
type RevisionEntry struct {
	RevisionName `json:",inline"`
	Created      metav1.Time `json:"created"`
	// Current is true if it has the source's present content.
	Current bool `json:"current"`
	// Workloads have it in their templates or in those of their holders; Holders are the latter.
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

// History returns the revisions of sources, and of those that workloads are pinned to. With sizes it reads the revisions' content too.
func (v *View) History(ctx context.Context, objects []Object, sizes bool) (*HistoryList, error) {
	sources, err := v.sourcesOf(ctx, objects)
	if err != nil {
		return nil, err
	}
	list := &HistoryList{TypeMeta: typeMeta("HistoryList"), Items: []SourceHistory{}}
	for _, source := range sources {
		history, err := v.history(ctx, source)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, history)
	}
	list.Notes = v.Notes
	if sizes {
		err = v.measure(ctx, list)
	}
	return list, err
}

// sourcesOf returns the sources that were named, and those of the workloads that were named, each once.
func (v *View) sourcesOf(ctx context.Context, objects []Object) ([]pin.Source, error) {
	var all []pin.Source
	for _, o := range objects {
		if source, ok := o.Source(); ok {
			if err := v.known(source, o); err != nil {
				return nil, err
			}
			all = append(all, source)
			continue
		}
		found, err := v.findWorkload(o)
		if err != nil {
			return nil, err
		}
		look, err := v.Assess(ctx, found.Kind, found.Workload)
		if err != nil {
			return nil, err
		}
		all = append(all, look.Template.Sources()...)
		for _, d := range look.Pins.Decisions {
			all = append(all, d.Source)
		}
	}
	slices.SortFunc(all, pin.Source.Compare)
	return slices.Compact(all), nil
}

// known returns an error for a source that neither exists nor ever had a revision, or that the user may not see.
func (v *View) known(source pin.Source, o Object) error {
	if err := v.Snapshot.Refused(revision.GVK(source.Kind)); err != nil {
		return err
	}
	for _, obj := range v.Snapshot.Sources(source.Kind) {
		if obj.GetNamespace() != v.namespace {
			continue
		}
		if obj.GetName() == source.Name && revision.IsRevision(obj) {
			return fmt.Errorf("%s is itself a revision; its source is %s", source, revision.SourceOf(source.Kind, obj))
		}
		if obj.GetName() == source.Name || revision.IsRevision(obj) && revision.SourceOf(source.Kind, obj) == source {
			return nil
		}
	}
	return apierrors.NewNotFound(o.Resource, o.Name)
}

// measure reads the sizes of the revisions: one LIST of each kind.
func (v *View) measure(ctx context.Context, list *HistoryList) error {
	names := map[pin.Kind][]string{}
	for _, h := range list.Items {
		names[h.of.Kind] = append(names[h.of.Kind], content.SourceLabel(h.of.Name))
	}
	for kind, labeled := range names {
		wanted, err := labels.NewRequirement(keys.Source, selection.In, labeled)
		if err != nil {
			return err
		}
		sizes, err := v.sizes(ctx, kind, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*wanted)})
		if err != nil {
			return err
		}
		for _, h := range list.Items {
			for i := range h.Revisions {
				if h.of.Kind == kind {
					h.Revisions[i].Bytes = sizes[h.Revisions[i].Name]
				}
			}
		}
	}
	return nil
}

// sizes returns the bytes of keys and values, by the names of the objects.
func (v *View) sizes(ctx context.Context, kind pin.Kind, selector client.ListOption) (map[string]int, error) {
	list := client.ObjectList(&corev1.ConfigMapList{})
	if kind == pin.Secret {
		list = &corev1.SecretList{}
	}
	if err := v.live.List(ctx, list, client.InNamespace(v.namespace), selector); err != nil {
		return nil, err
	}
	all, err := index.Items(list)
	sizes := map[string]int{}
	for _, obj := range all {
		read := revision.ContentOf(obj)
		for _, values := range []map[string][]byte{read.Data, read.BinaryData} {
			for key, value := range values {
				sizes[obj.GetName()] += len(key) + len(value)
			}
		}
	}
	return sizes, err
}

// unreadable are the reasons for which the hashes of Secrets cannot be compared.
var unreadable = []string{revision.KeyUnreadable, revision.KeyHidden}

func (v *View) history(ctx context.Context, source pin.Source) (SourceHistory, error) {
	history := SourceHistory{Namespace: v.namespace, Source: source.String(), of: source, Revisions: []RevisionEntry{}}
	seen, err := v.Observe(ctx, v.namespace, source)
	if terminal, ok := errors.AsType[*notice.TerminalError](err); ok && slices.Contains(unreadable, terminal.Reason) {
		// The revisions are still known, but not which of them is current.
		v.note("%s", terminal.Text)
		seen.Revisions, err = v.Labelled(v.namespace, source), nil
	}
	if err != nil {
		return history, err
	}
	pods := v.podsByRevision()
	slices.SortFunc(seen.Revisions, func(a, b plan.Revision) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name))
	})
	before := content.Digests{}
	for _, r := range seen.Revisions {
		text := pin.Source{Kind: source.Kind, Name: r.Name}
		entry := RevisionEntry{
			RevisionName: RevisionName{r.Name, r.Number}, Current: r.Hash == seen.Hash,
			Changes: Compare(before, r.Digests), Pods: pods[text],
		}
		before = r.Digests
		if meta, exists := v.metadataOf(v.namespace, text); exists {
			entry.Created, entry.ChangeCause = meta.CreationTimestamp, meta.Annotations[keys.ChangeCause]
		}
		pinners, err := v.PinnersOf(ctx, v.namespace, text)
		if err != nil {
			return history, err
		}
		entry.addUsers(v, pinners)
		history.Revisions = append(history.Revisions, entry)
	}
	return history, nil
}

// podsByRevision counts the pods of the namespace by the revisions that they carry.
func (v *View) podsByRevision() map[pin.Source]int {
	counts := map[pin.Source]int{}
	for _, pod := range v.Snapshot.Objects(snapshot.Pod) {
		pins, _ := pin.Parse(pod.GetAnnotations()[keys.Pins])
		for source, p := range pins {
			counts[pin.Source{Kind: source.Kind, Name: p.Revision}]++
		}
	}
	return counts
}

// addUsers adds the workloads and holders that pin a revision, and the workloads of the holders.
func (e *RevisionEntry) addUsers(v *View, pinners []client.Object) {
	workloads, holders := map[string]bool{}, map[string]bool{}
	for _, obj := range pinners {
		name := resourceName(workload.GVKOf(obj).Kind, obj.GetName())
		if slices.ContainsFunc(v.Kinds, func(k workload.Kind) bool { return k.GVK == workload.GVKOf(obj) }) {
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

// Compare compares two contents by their digests. All keys of the first are added.
func Compare(before, after content.Digests) Changes {
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
