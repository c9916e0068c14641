package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// Track is what a workload's annotation confrev.io/track asks for. The zero Track tracks nothing.
type Track struct {
	all     bool
	sources []pin.Source
}

// ParseTrack reads the annotation: "all", "none" or "" for nothing, or a list such as "configmap/app,configmap/web".
// With an error it tracks what it could read, so that one slip does not stop the rest.
func ParseTrack(text string) (Track, error) {
	switch strings.TrimSpace(text) {
	case "", "none":
		return Track{}, nil
	case "all":
		return Track{all: true}, nil
	}
	var track Track
	var problems []error
	for item := range strings.SplitSeq(text, ",") {
		source, err := pin.ParseSource(strings.TrimSpace(item))
		if err != nil {
			problems = append(problems, err)
			continue
		}
		track.sources = append(track.sources, source)
	}
	if len(problems) > 0 {
		return track, fmt.Errorf(`want "all", "none" or a list of sources: %w`, errors.Join(problems...))
	}
	return track, nil
}

// Enabled tells whether anything is tracked at all.
func (t Track) Enabled() bool { return t.all || len(t.sources) > 0 }

// Select gives the tracked ones of a pod spec's uses, and the sources that the annotation lists and nothing refers to.
// Kinds that are not enabled, and sources that are never copied (rule 10), are not selected.
func (t Track) Select(uses []podspec.Use, enabled func(pin.Kind) bool) (selected []podspec.Use, unused []pin.Source) {
	for _, use := range uses {
		if enabled(use.Kind) && !NeverCopied(use.Source) && (t.all || slices.Contains(t.sources, use.Source)) {
			selected = append(selected, use)
		}
	}
	for _, source := range t.sources {
		if !slices.ContainsFunc(uses, func(use podspec.Use) bool { return use.Source == source }) {
			unused = append(unused, source)
		}
	}
	return selected, unused
}

// Lists tells whether the annotation names this kind of source.
func (t Track) Lists(kind pin.Kind) bool {
	return slices.ContainsFunc(t.sources, func(s pin.Source) bool { return s.Kind == kind })
}

// clusterOwned are ConfigMaps that the cluster itself puts into namespaces and renews (rule 10).
var clusterOwned = []string{"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"}

// NeverCopied tells whether a source is one that confrev never makes revisions of, by its name (rule 10).
func NeverCopied(source pin.Source) bool {
	return source.Kind == pin.ConfigMap && slices.Contains(clusterOwned, source.Name)
}
