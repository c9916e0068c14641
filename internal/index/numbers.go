package index

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
)

// sample is how many of those that pin a revision are read first. As a rule, each of them shows its number. Thousands may pin it: to read all of them for
// each workload would cost n² of n workloads.
const sample = 8

// HighestNumber returns the highest number with which a template or a holder of a namespace pins a revision of a source. It stops as soon as it has found
// enough.
func HighestNumber(ctx context.Context, reader client.Reader, kinds *workload.Kinds, namespace string, source pin.Source, revision string, enough int64,
) (highest int64, err error) {
	value := pin.Source{Kind: source.Kind, Name: revision}.String()
	count := func(list func() client.ObjectList, pins func(client.Object) string) error {
		for _, limit := range []int64{sample, 0} {
			if highest >= enough {
				return nil
			}
			found, err := List(ctx, reader, list(), namespace, ByPin, value, client.Limit(limit))
			if err != nil {
				return err
			}
			for _, obj := range found {
				set, err := pin.Parse(pins(obj))
				if err == nil && set[source].Revision == revision {
					highest = max(highest, set[source].Number)
				}
			}
			if len(found) < sample {
				return nil // these were all
			}
		}
		return nil
	}
	for _, kind := range kinds.All() {
		if err := count(kind.NewList, kind.PinsText); err != nil {
			return 0, err
		}
	}
	for _, holder := range kinds.Holders() {
		if err := count(holder.NewList, func(obj client.Object) string { return holder.Facts(obj).Pins }); err != nil {
			return 0, err
		}
	}
	return highest, nil
}
