package rollout

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
)

// credit lowers the numbers of revisions to what there is evidence of (rule 5): the pins that this workload knows of, and those
// of other workloads and holders. Anyone who may create ConfigMaps can make a copy of a revision with any number, and a high one
// would use up the numbers that there are. Only who may change workloads can pin.
func (r *Engine) credit(ctx context.Context, seen *observed, source pin.Source, revisions []plan.Revision) error {
	current := seen.sources[source].Name
	for i := range revisions {
		made := &revisions[i]
		if made.Name == current || made.Number <= seen.numberOf(source, made.Name) {
			continue
		}
		if made.Hash == seen.sources[source].Hash {
			// Another copy of the present content is not newer than it.
			made.Number = seen.numberOf(source, made.Name)
			continue
		}
		shown, err := r.pinnedNumber(ctx, revision.Ref{Kind: source.Kind, Namespace: seen.namespace, Name: made.Name}, source, made.Number)
		if err != nil {
			return err
		}
		made.Number = min(made.Number, max(shown, seen.numberOf(source, made.Name)))
	}
	return nil
}

// numberOf returns the highest number that the workload itself knows of a revision.
func (seen *observed) numberOf(source pin.Source, name string) int64 {
	note := seen.pins.Held[source]
	sets := []pin.Set{seen.pins.Pins, {source: note.From}, {source: note.On}}
	for _, holder := range seen.pins.Holders {
		sets = append(sets, holder.Pins)
	}
	var highest int64
	for _, set := range sets {
		if p := set[source]; p.Revision == name {
			highest = max(highest, p.Number)
		}
	}
	return highest
}

// pinnedNumber returns the highest number with which a template or a holder pins a revision; it looks no further than enough.
func (r *Engine) pinnedNumber(ctx context.Context, ref revision.Ref, source pin.Source, enough int64) (int64, error) {
	var highest int64
	count := func(into client.ObjectList, pins func(client.Object) string) error {
		if highest >= enough {
			return nil
		}
		found, err := index.List(ctx, r.Client, into, ref.Namespace, index.ByPin, ref.Text())
		if err != nil {
			return err
		}
		for _, obj := range found {
			set, err := pin.Parse(pins(obj))
			if err == nil && set[source].Revision == ref.Name {
				highest = max(highest, set[source].Number)
			}
		}
		return nil
	}
	for _, kind := range r.Kinds.All() {
		if err := count(kind.NewList(), kind.PinsText); err != nil {
			return 0, err
		}
	}
	for _, holder := range r.Kinds.Holders() {
		if err := count(holder.NewList(), func(obj client.Object) string { return holder.Facts(obj).Pins }); err != nil {
			return 0, err
		}
	}
	return highest, nil
}
