package optin

import (
	"slices"
	"strings"

	"github.com/agext/levenshtein"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
)

// place is a kind of object, and form is what it has, both as a sentence names them.
type (
	place string
	form  string
)

const (
	onWorkload  place = "a workload"
	onTemplate  place = "a pod template"
	onSource    place = "a source"
	onNamespace place = "a namespace"

	annotation form = "annotation"
	label      form = "label"
)

// places has what people may write, and where.
var places = map[place]map[form][]string{
	onWorkload: {
		annotation: slices.Concat([]string{
			keys.Track, keys.Owners, keys.Settle, keys.Mode, keys.Injection, keys.RestartOn, keys.RotateBy, keys.Wave, keys.Deadline, keys.Analysis, keys.Crashes,
		}, GateKeys),
		label: slices.Concat([]string{keys.Track, keys.Wave}, GateKeys),
	},
	onSource: {
		annotation: slices.Concat([]string{keys.Policy, keys.Attach, keys.Protect, keys.Stop, keys.Passed, keys.Resume, keys.After, keys.Version}, GateKeys, spreadKeys),
		label:      GateKeys,
	},
	onNamespace: {annotation: NamespaceKeys, label: NamespaceLabelKeys},
}

// written has what confrev writes itself. A copy of an object may have it too, so it is never reported.
var written = []string{
	keys.Pins, keys.Hashes, keys.Held, keys.HeldHashes, keys.Checksum, keys.Advanced, keys.Paused, keys.Source, keys.Content, keys.SourceName, keys.Number,
	keys.KeyDigests, keys.SourceVersion, keys.Renewed, keys.Propagation, keys.Anchor, keys.Attached, keys.AnalysisOf,
}

// Place is a kind of object, with what people may write on it.
type Place struct {
	Name                string
	Annotations, Labels []string
}

// Places returns what people may write, and where.
func Places() []Place {
	return []Place{Workload(), onSource.named("source"), onNamespace.named("namespace")}
}

// Workload returns what people may write on a workload.
func Workload() Place { return onWorkload.named("workload") }

func (p place) named(name string) Place {
	return Place{name, slices.Clone(places[p][annotation]), slices.Clone(places[p][label])}
}

// Written returns the keys that confrev writes itself.
func Written() []string { return slices.Clone(written) }

const (
	// similar is how much a key must be like one that may have been meant, from 0 to 1.
	similar = 0.7
	// maxUnknown is how many keys of one object are reported.
	maxUnknown = 5
)

// unknown returns a warning for each label or annotation of confrev's that has no effect where it is: it is misspelled, or belongs elsewhere.
// A typo in a safety setting must not be silent. whose is as for Gates. No value is looked at.
func unknown(on place, whose string, annotations, labels map[string]string) []notice.Notice {
	var problems []notice.Notice
	for _, said := range []struct {
		form   form
		values map[string]string
	}{{annotation, annotations}, {label, labels}} {
		var odd []string
		for key := range said.values {
			if strings.HasPrefix(key, keys.Prefix) && !slices.Contains(places[on][said.form], key) && !slices.Contains(written, key) {
				odd = append(odd, key)
			}
		}
		slices.Sort(odd)
		for _, key := range odd[:min(len(odd), maxUnknown-len(problems))] {
			problems = append(problems, notice.Warning(notice.UnknownAnnotation, pin.Source{}, "%s %s%s has no effect%s", said.form, key, whose, why(on, said.form, key)))
		}
	}
	return problems
}

// Settings returns those annotations and labels of a workload that are settings of confrev's.
func Settings(annotations, labels map[string]string) map[string]string {
	settings := map[string]string{}
	for as, values := range map[form]map[string]string{label: labels, annotation: annotations} {
		for _, key := range places[onWorkload][as] {
			if value, ok := values[key]; ok {
				settings[key] = value
			}
		}
	}
	return settings
}

// why returns why a key has no effect, and what may have been meant.
func why(on place, as form, key string) string {
	if other := map[form]form{annotation: label, label: annotation}[as]; slices.Contains(places[on][other], key) {
		return ": write it as " + map[form]string{annotation: "an annotation", label: "a label"}[other]
	}
	var elsewhere []string
	for _, at := range []place{onWorkload, onSource, onNamespace} {
		if slices.Contains(places[at][annotation], key) {
			elsewhere = append(elsewhere, string(at))
		}
	}
	if len(elsewhere) > 0 {
		return ": it belongs on " + strings.Join(elsewhere, " or ")
	}
	best, likeness := "", similar
	for _, candidate := range places[on][as] {
		// A common beginning counts for more.
		if l := levenshtein.Match(strings.TrimPrefix(key, keys.Prefix), strings.TrimPrefix(candidate, keys.Prefix), nil); l > likeness {
			best, likeness = candidate, l
		}
	}
	if best != "" {
		return ": did you mean " + best + "?"
	}
	return ": confrev does not know it"
}

// Kept returns those labels or annotations that have one of some keys, and the keys, without values, of others that look like confrev's.
func Kept(all map[string]string, known ...string) map[string]string {
	kept := metadata.Only(all, known...)
	for key := range all {
		if strings.HasPrefix(key, keys.Prefix) && !slices.Contains(known, key) {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = ""
		}
	}
	return kept
}
