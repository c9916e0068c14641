package optin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
)

// Track selects the sources that a workload tracks. The zero Track selects nothing.
type Track struct {
	// owners is true if the workload or its namespace consents to being opted in by ownerReferences (Traits.Owned). Anyone who can
	// write those may have no right to change the workload.
	owners bool
	// none is true if the workload opted out. Then ownerReferences do not opt in either.
	none bool
	// tooLong is true if the list is so long that none of it counts.
	tooLong bool
	// all has the kinds of which every referenced source is tracked.
	all    map[pin.Kind]bool
	listed []pin.Source
	// matched tracks the referenced sources that are marked for it (Reloader's search and match).
	matched bool
	// named has expressions for names. Sources that match are tracked even if nothing refers to them; excluded has exceptions.
	named, excluded map[pin.Kind][]nameForm
}

func allKinds() map[pin.Kind]bool { return map[pin.Kind]bool{pin.ConfigMap: true, pin.Secret: true} }

// ParseTrack reads the annotation: "all", "none" or "" for nothing, or a list such as "configmap/app,configmap/web". Together with
// an error, it returns a Track of the items that it could read, so that one mistake does not disable the others. Of a list that is too
// long, none counts: some of its sources would move without the others.
func ParseTrack(text string) (Track, error) {
	switch strings.TrimSpace(text) {
	case "":
		return Track{}, nil
	case "none":
		return Track{none: true}, nil
	case "all":
		return Track{all: allKinds()}, nil
	}
	const want = `want "all", "none" or a list of sources`
	if strings.Count(text, ",") >= maxItems {
		return Track{tooLong: true}, fmt.Errorf("%s: it has more than %d items, so none of them counts", want, maxItems)
	}
	var track Track
	var wrong problems
	for item := range strings.SplitSeq(text, ",") {
		source, err := pin.ParseSource(strings.TrimSpace(item))
		if err = cmp.Or(checkLength(item), err); err != nil {
			wrong.add(err)
			continue
		}
		if !slices.Contains(track.listed, source) {
			track.listed = append(track.listed, source)
		}
	}
	if err := wrong.err(); err != nil {
		return track, fmt.Errorf("%s: %w", want, err)
	}
	return track, nil
}

// Enabled reports whether the settings select any sources, regardless of what the sources' own metadata says.
func (t Track) Enabled() bool {
	return len(t.all) > 0 || len(t.listed) > 0 || t.matched || len(t.named) > 0
}

// Traits are the properties of a source that its own metadata shows.
type Traits struct {
	// Owned is true if the workload is an owner of the source, which opts this source in if Track consents.
	Owned bool
	// Marked is true for Reloader's match annotation.
	Marked bool
	Policy Policy
	// Never says why the source is never copied (rule 10); it is empty if it may be.
	Never string
	// Gates are what the source says about when pins may move.
	Gates []waiting.Gate
	// Spreading is how changes to the source spread.
	Spreading spread.Settings
}

// Selection is the part of a template's sources that is tracked.
type Selection struct {
	// Uses are the tracked sources, sorted by source.
	Uses []podspec.Use
	// Rotating are tracked, and not copied because they rotate.
	Rotating []podspec.Use
	// Unused are listed by the workload, but nothing refers to them.
	Unused []pin.Source
	// OwnersIgnored would be tracked if the workload consented to ownerReferences.
	OwnersIgnored []pin.Source
	// Refused are listed by the workload but never copied, with the reason.
	Refused map[pin.Source]string
}

// Unreferenced returns the names of those listed sources that no use is of, and the source if it is only one.
func (s Selection) Unreferenced(uses []podspec.Use) (names []string, only pin.Source) {
	for _, source := range s.Unused {
		if !slices.ContainsFunc(uses, func(use podspec.Use) bool { return use.Source == source }) {
			names, only = append(names, source.String()), source
		}
	}
	if len(names) > 1 {
		only = pin.Source{}
	}
	return names, only
}

// Select returns which of a template's uses are tracked. traits returns the Traits of a source. frozen is true if tracked sources
// would be copied, so that policy live applies. Sources that other components keep writing are never selected (rule 10).
func (t Track) Select(uses []podspec.Use, frozen bool, traits func(pin.Source) Traits) Selection {
	var selection Selection
	for _, use := range uses {
		about := traits(use.Source)
		if about.Policy.Ignored || frozen && about.Policy.ReadsLive && !about.Policy.Rotates {
			continue
		}
		if !t.tracks(use.Source, about) {
			if !t.none && about.Owned && about.Never == "" {
				selection.OwnersIgnored = append(selection.OwnersIgnored, use.Source)
			}
			continue
		}
		if about.Never != "" {
			if slices.Contains(t.listed, use.Source) {
				if selection.Refused == nil {
					selection.Refused = map[pin.Source]string{}
				}
				selection.Refused[use.Source] = about.Never
			}
			continue
		}
		if frozen && about.Policy.Rotates {
			selection.Rotating = append(selection.Rotating, use)
			continue
		}
		selection.Uses = append(selection.Uses, use)
	}
	for _, source := range t.listed {
		if !slices.ContainsFunc(uses, func(use podspec.Use) bool { return use.Source == source }) {
			selection.Unused = append(selection.Unused, source)
		}
	}
	return selection
}

func (t Track) tracks(source pin.Source, about Traits) bool {
	if t.none || matches(t.excluded[source.Kind], source.Name) {
		return false
	}
	return t.all[source.Kind] || t.owners && about.Owned || t.matched && about.Marked || slices.Contains(t.listed, source) ||
		matches(t.named[source.Kind], source.Name)
}

// Tracks reports whether a source is tracked if the template refers to it, regardless of the source's own metadata.
func (t Track) Tracks(source pin.Source) bool { return t.tracks(source, Traits{}) }

// None reports whether the workload has opted out.
func (t Track) None() bool { return t.none }

// TooLong reports whether the list of sources is so long that none of it counts. Then it is not known which of the present pins are stale.
func (t Track) TooLong() bool { return t.tooLong }

// Owners reports whether ownerReferences opt sources in.
func (t Track) Owners() bool { return t.owners && !t.none }

// ListedNames returns the names of those sources of a kind that are tracked even if nothing refers to them. exact is false if
// regular expressions may match further names; then MatchesName decides.
func (t Track) ListedNames(kind pin.Kind) (names []string, exact bool) {
	exact = true
	for _, form := range t.named[kind] {
		switch {
		case t.none:
		case form.expression != nil:
			exact = false
		case !matches(t.excluded[kind], form.name):
			names = append(names, form.name)
		}
	}
	return names, exact
}

// MatchesName reports whether a source is tracked by its name, even if nothing refers to it.
func (t Track) MatchesName(source pin.Source) bool {
	return !t.none && matches(t.named[source.Kind], source.Name) && !matches(t.excluded[source.Kind], source.Name)
}

func matches(forms []nameForm, name string) bool {
	return slices.ContainsFunc(forms, func(f nameForm) bool { return f.matches(name) })
}

// ListsKind reports whether the annotation lists any source of a kind by name.
func (t Track) ListsKind(kind pin.Kind) bool {
	return slices.ContainsFunc(t.listed, func(s pin.Source) bool { return s.Kind == kind })
}
