package optin

import (
	"regexp"
	"strconv"
	"strings"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
)

// Compat says which other tools' annotations opt in as well, in mode restart, which is what their users expect. docs/compat.md
// has a row for each annotation.
type Compat struct{ Reloader, Wave bool }

// Reloader's annotations.
const (
	reloaderAuto   = "reloader.stakater.com/auto"
	reloaderSearch = "reloader.stakater.com/search"
	reloaderMatch  = "reloader.stakater.com/match"
	reloaderIgnore = "reloader.stakater.com/ignore"
	// These go behind a kind of source: "configmap.reloader.stakater.com/auto".
	reloaderKindAuto    = ".reloader.stakater.com/auto"
	reloaderKindReload  = ".reloader.stakater.com/reload"
	reloaderKindExclude = "s.exclude.reloader.stakater.com/reload"
)

// Wave's annotations.
const (
	waveUpdate          = "wave.pusher.com/update-on-config-change"
	waveExtraConfigMaps = "wave.pusher.com/extra-configmaps"
	waveExtraSecrets    = "wave.pusher.com/extra-secrets"
)

func isCompat(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == "wave.pusher.com" || strings.HasSuffix(prefix, "reloader.stakater.com")
}

// read reads other tools' annotations, and tells whether there were any that say what to track.
func (c Compat) read(w Metadata, asked *Config) bool {
	found := false
	if c.Reloader {
		found = readReloader(w.Annotations, asked) || readReloader(w.TemplateAnnotations, asked)
	}
	if c.Wave && !asked.Track.none {
		found = readWave(w.Annotations, asked) || found
	}
	if found {
		asked.Mode = Restart
	}
	return found
}

// readReloader reads Reloader's annotations. It looks at those of the pod template where the workload has none.
func readReloader(annotations map[string]string, asked *Config) bool {
	track := &asked.Track
	found := false
	// Turning auto off says nothing of the lists and of search; but it does opt out of whatever holds for all.
	if auto, said := asked.flag(annotations, reloaderAuto); said {
		found = true
		if auto {
			track.all = allKinds()
		}
	}
	if search, _ := asked.flag(annotations, reloaderSearch); search {
		found, track.matched = true, true
	}
	for _, kind := range pin.Kinds {
		auto, reload, exclude := string(kind)+reloaderKindAuto, string(kind)+reloaderKindReload, string(kind)+reloaderKindExclude
		if on, _ := asked.flag(annotations, auto); on {
			found = true
			if track.all == nil {
				track.all = map[pin.Kind]bool{}
			}
			track.all[kind] = true
		}
		if list, ok := annotations[reload]; ok {
			found = true
			track.named = with(track.named, kind, asked.expressions(reload, list))
		}
		for name := range strings.SplitSeq(annotations[exclude], ",") {
			if name = strings.TrimSpace(name); name != "" {
				track.excluded = with(track.excluded, kind, []nameForm{exactly(name)})
			}
		}
	}
	if ignored, _ := asked.flag(annotations, reloaderIgnore); ignored {
		found, asked.Track = true, Track{none: true}
	}
	return found
}

// flag reads a boolean annotation, and tells whether it is there and can be read.
func (a *Config) flag(annotations map[string]string, key string) (on, said bool) {
	text, ok := annotations[key]
	if !ok {
		return false, false
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		a.complain(InvalidCompat, "annotation %s: %s is neither true nor false", key, quote.Text(text))
		return false, false
	}
	return on, true
}

// readWave reads Wave's annotations.
func readWave(annotations map[string]string, asked *Config) bool {
	if annotations[waveUpdate] != "true" {
		return false
	}
	asked.Track.all = allKinds()
	for _, extra := range []struct {
		key  string
		kind pin.Kind
	}{{waveExtraConfigMaps, pin.ConfigMap}, {waveExtraSecrets, pin.Secret}} {
		key, kind := extra.key, extra.kind
		for item := range strings.SplitSeq(annotations[key], ",") {
			name := strings.TrimSpace(item)
			switch {
			case name == "":
			case strings.Contains(name, "/"):
				asked.complain(InvalidCompat, "annotation %s: %s is in another namespace, which confrev does not follow", key, quote.Text(name))
			default:
				asked.Track.named = with(asked.Track.named, kind, []nameForm{exactly(name)})
			}
		}
	}
	return true
}

// expressions reads a list of regular expressions, each for a whole name.
func (a *Config) expressions(key, list string) []nameForm {
	var all []nameForm
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		form, err := whole(item)
		if err != nil {
			a.complain(InvalidCompat, "annotation %s: %s is not a regular expression", key, quote.Text(item))
			continue
		}
		all = append(all, form)
	}
	return all
}

// whole makes the form of an expression, if it is one: also by itself, not only with what makes it match whole names.
func whole(expression string) (nameForm, error) {
	if _, err := regexp.Compile(expression); err != nil {
		return nameForm{}, err
	}
	compiled, err := regexp.Compile("^(?:" + expression + ")$")
	if err != nil {
		return nameForm{}, err
	}
	if regexp.QuoteMeta(expression) == expression {
		return exactly(expression), nil
	}
	return nameForm{expression: compiled}, nil
}

// exactly makes the form of one name.
func exactly(name string) nameForm {
	return nameForm{name: name}
}

func with(all map[pin.Kind][]nameForm, kind pin.Kind, more []nameForm) map[pin.Kind][]nameForm {
	if len(more) == 0 {
		return all
	}
	if all == nil {
		all = map[pin.Kind][]nameForm{}
	}
	all[kind] = append(all[kind], more...)
	return all
}
