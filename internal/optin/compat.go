package optin

import (
	"regexp"
	"strings"

	"confrev.io/confrev/internal/pin"
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
func (c Compat) read(w Written, asked *Asked) bool {
	found := false
	if c.Reloader {
		found = readReloader(w.Annotations, asked) || readReloader(w.TemplateAnnotations, asked)
	}
	if c.Wave {
		found = readWave(w.Annotations, asked) || found
	}
	if found {
		asked.Mode = Restart
	}
	return found
}

// readReloader reads Reloader's annotations. It looks at those of the pod template where the workload has none.
func readReloader(annotations map[string]string, asked *Asked) bool {
	track := &asked.Track
	found := false
	if auto, ok := annotations[reloaderAuto]; ok {
		found = true
		if auto == "true" {
			track.all = allKinds()
		} else {
			track.none = auto == "false"
		}
	}
	if annotations[reloaderSearch] == "true" {
		found, track.matched = true, true
	}
	for _, kind := range []pin.Kind{pin.ConfigMap, pin.Secret} {
		prefix := string(kind)
		if annotations[prefix+".reloader.stakater.com/auto"] == "true" {
			found = true
			if track.all == nil {
				track.all = map[pin.Kind]bool{}
			}
			track.all[kind] = true
		}
		if list, ok := annotations[prefix+".reloader.stakater.com/reload"]; ok {
			found = true
			track.named = with(track.named, kind, asked.expressions(prefix+".reloader.stakater.com/reload", list))
		}
		if list, ok := annotations[prefix+"s.exclude.reloader.stakater.com/reload"]; ok {
			track.excluded = with(track.excluded, kind, asked.expressions(prefix+"s.exclude.reloader.stakater.com/reload", list))
		}
	}
	return found
}

// readWave reads Wave's annotations.
func readWave(annotations map[string]string, asked *Asked) bool {
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
				asked.complain(InvalidCompat, "annotation %s: %s is in another namespace, which confrev does not follow", key, name)
			default:
				asked.Track.named = with(asked.Track.named, kind, []nameForm{exactly(name)})
			}
		}
	}
	return true
}

// expressions reads a list of regular expressions, each for a whole name.
func (a *Asked) expressions(key, list string) []nameForm {
	var all []nameForm
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		if _, err := regexp.Compile(item); err != nil {
			a.complain(InvalidCompat, "annotation %s: %v", key, err)
			continue
		}
		all = append(all, whole(item))
	}
	return all
}

// whole makes the form of an expression that compiles.
func whole(expression string) nameForm {
	form := nameForm{expression: regexp.MustCompile("^(?:" + expression + ")$")}
	if regexp.QuoteMeta(expression) == expression {
		form.name = expression
	}
	return form
}

// exactly makes the form of one name.
func exactly(name string) nameForm {
	return nameForm{name: name, expression: regexp.MustCompile("^" + regexp.QuoteMeta(name) + "$")}
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
