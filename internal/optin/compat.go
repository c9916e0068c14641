package optin

import (
	"fmt"
	"strconv"
	"strings"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
)

// Compat selects the tools whose annotations also opt workloads in, in mode restart, as their users expect. docs/compat.md
// has a row for each annotation.
type Compat struct{ Reloader, Wave bool }

// Reloader's annotations.
const (
	reloaderAuto   = "reloader.stakater.com/auto"
	reloaderSearch = "reloader.stakater.com/search"
	reloaderMatch  = "reloader.stakater.com/match"
	reloaderIgnore = "reloader.stakater.com/ignore"
	// These follow a kind of source: "configmap.reloader.stakater.com/auto".
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

// read reads other tools' annotations, and reports whether any of them specifies what to track.
func (c Compat) read(w Metadata, config *Config) bool {
	found := false
	if c.Reloader {
		found = readReloader(w.Annotations, config) || readReloader(w.TemplateAnnotations, config)
	}
	if c.Wave && !config.Track.none {
		found = readWave(w.Annotations, config) || found
	}
	if found {
		config.Mode = Restart
	}
	return found
}

// readReloader reads Reloader's annotations, and reports whether there are any. The caller passes those of the workload, then
// those of the pod template if the workload has none.
func readReloader(annotations map[string]string, config *Config) bool {
	track := &config.Track
	found := false
	// Turning auto off says nothing about the lists and search, but it does opt out of a default that holds for all workloads.
	if auto, ok := config.flag(annotations, reloaderAuto); ok {
		found = true
		if auto {
			track.all = allKinds()
		}
	}
	if search, _ := config.flag(annotations, reloaderSearch); search {
		found, track.matched = true, true
	}
	for _, kind := range pin.Kinds {
		auto, reload, exclude := string(kind)+reloaderKindAuto, string(kind)+reloaderKindReload, string(kind)+reloaderKindExclude
		if on, _ := config.flag(annotations, auto); on {
			found = true
			if track.all == nil {
				track.all = map[pin.Kind]bool{}
			}
			track.all[kind] = true
		}
		if list, ok := annotations[reload]; ok {
			found = true
			track.named = appendForms(track.named, kind, config.expressions(reload, list))
		}
		if list, ok := annotations[exclude]; ok {
			track.excluded = appendForms(track.excluded, kind, config.names(exclude, list))
		}
	}
	if ignored, _ := config.flag(annotations, reloaderIgnore); ignored {
		found, config.Track = true, Track{none: true}
	}
	return found
}

// flag reads a boolean annotation. ok is false if there is none or if it is invalid.
func (c *Config) flag(annotations map[string]string, key string) (on, ok bool) {
	text, ok := annotations[key]
	if !ok {
		return false, false
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		c.complain(InvalidCompat, "annotation %s: %s is neither true nor false", key, quote.Text(text))
		return false, false
	}
	return on, true
}

// readWave reads Wave's annotations, and reports whether they opt in.
func readWave(annotations map[string]string, config *Config) bool {
	if annotations[waveUpdate] != "true" {
		return false
	}
	config.Track.all = allKinds()
	for _, extra := range []struct {
		key  string
		kind pin.Kind
	}{{waveExtraConfigMaps, pin.ConfigMap}, {waveExtraSecrets, pin.Secret}} {
		var forms []nameForm
		var wrong problems
		for _, name := range wrong.items(annotations[extra.key]) {
			if strings.Contains(name, "/") {
				wrong.add(fmt.Errorf("%s is in another namespace, which confrev does not follow", quote.Text(name)))
				continue
			}
			form, err := exactName(name)
			if err != nil {
				wrong.add(err)
				continue
			}
			forms = append(forms, form)
		}
		config.complainOf(extra.key, wrong)
		config.Track.named = appendForms(config.Track.named, extra.kind, forms)
	}
	return true
}

// complainOf adds what is wrong with another tool's annotation, if anything is.
func (c *Config) complainOf(key string, wrong problems) {
	if err := wrong.err(); err != nil {
		c.complain(InvalidCompat, "annotation %s: %v", key, err)
	}
}

// names reads a list of whole names.
func (c *Config) names(key, list string) []nameForm {
	var all []nameForm
	var wrong problems
	for _, name := range wrong.items(list) {
		all = append(all, nameForm{name: name})
	}
	c.complainOf(key, wrong)
	return all
}

func appendForms(all map[pin.Kind][]nameForm, kind pin.Kind, more []nameForm) map[pin.Kind][]nameForm {
	if len(more) == 0 {
		return all
	}
	if all == nil {
		all = map[pin.Kind][]nameForm{}
	}
	all[kind] = append(all[kind], more...)
	return all
}
