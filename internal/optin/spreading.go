package optin

import (
	"fmt"

	"confrev.io/confrev/internal/analysis"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
)

// spreadKeys are the annotations of a source or a namespace from which Spreading reads.
var spreadKeys = []string{keys.Safety, keys.Steps, keys.MaxRolling, keys.Bake, keys.OnFailure, keys.StopAfter}

// The values of confrev.io/safety.
const (
	careful  = "careful"
	noSafety = "none"
)

// ParseSafety reads the name of a preset. by says where it is written.
func ParseSafety(text, by string) (spread.Settings, error) {
	switch text {
	case careful:
		return spread.Careful(by), nil
	case noSafety:
		return spread.Settings{NoDefault: true}, nil
	}
	return spread.Settings{}, fmt.Errorf("%s is not known: want %s or %s", quote.Text(text), careful, noSafety)
}

// Spreading returns what a source says about how changes to it spread, and what is wrong with it. A setting that cannot be read is a gate that
// nothing passes: what was meant to go slowly must not go at once because of a typo. whose is as for Gates.
func Spreading(annotations map[string]string, whose string) (spread.Settings, []waiting.Gate, []notice.Notice) {
	settings, gates, problems := spreading(annotations, whose)
	read := reader(annotations, whose, &settings, &gates, &problems)
	read(keys.After, parseAfter)
	for _, order := range []struct {
		key   string
		parse func(string) error
	}{
		{keys.Passed, func(text string) error { _, _, err := spread.ParsePassed(text); return err }},
		{keys.Resume, func(text string) error { _, _, err := spread.ParseResume(text); return err }},
		{keys.Version, readVersion},
	} {
		if text, ok := annotations[order.key]; ok {
			if err := order.parse(text); err != nil {
				problems = append(problems, notice.Warning(InvalidSpreading, pin.Source{}, "annotation %s%s: %v; it has no effect", order.key, whose, err))
			}
		}
	}
	return settings, gates, problems
}

// reader returns a function that reads one annotation.
func reader(annotations map[string]string, whose string, settings *spread.Settings, gates *[]waiting.Gate, problems *[]notice.Notice,
) func(key string, parse func(text, by string) (spread.Settings, error)) {
	return func(key string, parse func(text, by string) (spread.Settings, error)) {
		text, ok := annotations[key]
		if !ok {
			return
		}
		by := "annotation " + key + whose
		one, err := parse(text, by)
		if err != nil {
			*gates = append(*gates, waiting.Gate{Reason: waiting.Manual, By: by, Invalid: true, Budget: key == keys.MaxRolling || key == keys.Safety})
			*problems = append(*problems, notice.Warning(InvalidSpreading, pin.Source{}, "%s: %v; until it is corrected, nothing advances", by, err))
			return
		}
		*settings = settings.With(one)
	}
}

// spreading returns the settings that sources and namespaces have in common.
func spreading(annotations map[string]string, whose string) (settings spread.Settings, gates []waiting.Gate, problems []notice.Notice) {
	read := reader(annotations, whose, &settings, &gates, &problems)
	read(keys.Safety, ParseSafety)
	read(keys.Steps, func(text, by string) (spread.Settings, error) {
		steps, err := spread.ParseSteps(text)
		return spread.Settings{Steps: steps, By: by}, err
	})
	read(keys.MaxRolling, func(text, by string) (spread.Settings, error) {
		amount, err := spread.ParseAmount(text)
		return spread.Settings{MaxRolling: []spread.Amount{amount}, By: by}, err
	})
	read(keys.Bake, func(text, by string) (spread.Settings, error) {
		bake, err := spread.ParseBake(text)
		return spread.Settings{Bake: bake, By: by}, err
	})
	read(keys.OnFailure, func(text, by string) (spread.Settings, error) {
		onFailure, err := spread.ParseOnFailure(text)
		return spread.Settings{OnFailure: onFailure, By: by}, err
	})
	read(keys.StopAfter, func(text, by string) (spread.Settings, error) {
		failures, err := spread.ParseStopAfter(text)
		return spread.Settings{StopAfter: failures, By: by}, err
	})
	return settings, gates, problems
}

// readDeadline reads how long the workload may take a change without progress.
func (c *Config) readDeadline(annotations map[string]string) {
	text, ok := annotations[keys.Deadline]
	if !ok {
		return
	}
	deadline, err := spread.ParseBake(text)
	if err != nil {
		c.complain(InvalidSpreading, "annotation %s: %v; the default counts", keys.Deadline, err)
		return
	}
	c.Deadline = deadline
}

// readCrashes reads how many crashes of a container are a failure.
func (c *Config) readCrashes(annotations map[string]string) {
	text, ok := annotations[keys.Crashes]
	if !ok {
		return
	}
	crashes, err := spread.ParseCrashes(text)
	if err != nil {
		c.complain(InvalidSpreading, "annotation %s: %v; the default counts", keys.Crashes, err)
		return
	}
	c.Crashes = crashes
}

// readAnalysis reads which AnalysisTemplates say whether the workload is well. The workload takes precedence over its namespace.
func (c *Config) readAnalysis(w Metadata) {
	whose := ""
	text, ok := w.Annotations[keys.Analysis]
	if !ok {
		text, ok = w.NamespaceAnnotations[keys.Analysis]
		whose = ofNamespace
	}
	if !ok {
		return
	}
	names, err := analysis.ParseNames(text)
	if err != nil {
		c.complain(InvalidSpreading, "annotation %s%s: %v; until it is corrected, the workload vouches for no change", keys.Analysis, whose, err)
	}
	c.Analysis, c.InvalidAnalysis = names, err != nil
}

// readWave reads the workload's place among others. kubectl rollout undo replaces annotations, so the label wins. A wave that cannot be
// read is the last that there is.
func (c *Config) readWave(w Metadata) {
	for _, said := range []struct {
		values map[string]string
		what   string
	}{{w.Labels, "label"}, {w.Annotations, "annotation"}} {
		text, ok := said.values[keys.Wave]
		if !ok {
			continue
		}
		wave, err := spread.ParseWave(text)
		if err != nil {
			c.complain(InvalidSpreading, "%s %s: %v; the workload comes last", said.what, keys.Wave, err)
			wave = spread.LastWave
		}
		c.Wave = wave
		return
	}
}
