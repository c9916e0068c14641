// Package optin reads what a workload, its namespace and its sources ask of confrev in their annotations and labels. It is
// pure: it sees strings, and gives what was asked and what was wrong with it.
package optin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/quote"
)

// Mode says what confrev does for a workload.
type Mode string

// The modes.
const (
	// Revision makes revisions and pins them. It is the default.
	Revision Mode = "revision"
	// Restart stamps hashes on the template, so that a change rolls the workload. Nothing is copied.
	Restart Mode = "restart"
	// Attach makes the workload's holders own sources whose names are unique per deploy already.
	Attach Mode = "attach"
)

// Injection says where pins are applied.
type Injection string

// The injections.
const (
	// Admission resolves references when pods are created. It is the default.
	Admission Injection = "admission"
	// Template writes the revisions' names into the template itself.
	Template Injection = "template"
)

// ParseInjection reads the name of an injection.
func ParseInjection(text string) (Injection, error) {
	switch injection := Injection(text); injection {
	case Admission, Template:
		return injection, nil
	}
	return "", fmt.Errorf("%s is not an injection: want %s or %s", quote.Text(text), Admission, Template)
}

// Advance says when a pin may move from one revision to another.
type Advance string

// The advances.
const (
	// Auto is as soon as sources have settled. It is the default.
	Auto Advance = "auto"
	// OnDeploy is only together with another change of the template.
	OnDeploy Advance = "on-deploy"
	// Manual is only when a person says so.
	Manual Advance = "manual"
)

// Blocks tells whether pins may not move now. deploying tells whether the template is changing otherwise.
func (a Advance) Blocks(deploying bool) bool { return a == Manual || a == OnDeploy && !deploying }

// Problem is something wrong with what was written, for an event on the workload.
type Problem struct{ Reason, Note string }

// The reasons of problems.
const (
	InvalidTrack     = "InvalidTrack"
	InvalidMode      = "InvalidMode"
	InvalidAdvance   = "InvalidAdvance"
	InvalidSettle    = "InvalidSettle"
	InvalidRestartOn = "InvalidRestartOn"
	InvalidCompat    = "InvalidCompat"
)

// Metadata is where a workload's wishes are written.
type Metadata struct {
	// Annotations are the workload's, TemplateAnnotations those of its pod template.
	Annotations, TemplateAnnotations map[string]string
	// Labels are the workload's: kubectl rollout undo replaces annotations, but not these.
	Labels map[string]string
	// NamespaceLabels and NamespaceAnnotations are those of its namespace.
	NamespaceLabels, NamespaceAnnotations map[string]string
}

// Defaults are what holds where a workload says nothing.
type Defaults struct {
	Settle    time.Duration
	Injection Injection
	Compat    Compat
}

// Config is what a workload asks for. What could not be read is left at its default and in Problems.
type Config struct {
	Mode      Mode
	Injection Injection
	Advance   Advance
	Settle    time.Duration
	// Track chooses sources among those that the template refers to.
	Track Track
	// RestartAt is true when rotated credentials are to restart pods as Argo Rollouts does, without an update of the Rollout.
	RestartAt bool
	// RestartOn are further objects whose change rolls the workload.
	RestartOn []Trigger
	Problems  []Problem
}

// Read reads what a workload asks for. Its own words win over other tools' annotations, and these over its namespace.
func Read(w Metadata, defaults Defaults) Config {
	asked := Config{Mode: Revision, Injection: defaults.Injection, Advance: Auto, Settle: defaults.Settle}
	asked.readTrack(w, defaults.Compat)
	asked.readOwners(w)
	asked.readMode(w.Annotations)
	asked.readAdvance("annotation", w.Annotations)
	asked.readAdvance("label", w.Labels)
	asked.readSettle(w.Annotations)
	asked.readRotateBy(w.Annotations)
	triggers, err := ParseRestartOn(w.Annotations[keys.RestartOn])
	if strings.TrimSpace(w.Annotations[keys.Track]) != "none" && w.Labels[keys.Track] != "none" {
		asked.RestartOn = triggers
	}
	if err != nil {
		asked.complain(InvalidRestartOn, "annotation %s: %v", keys.RestartOn, err)
	}
	return asked
}

func (a *Config) complain(reason, format string, args ...any) {
	a.Problems = append(a.Problems, Problem{reason, fmt.Sprintf(format, args...)})
}

func (a *Config) readTrack(w Metadata, compat Compat) {
	label, labelled := w.Labels[keys.Track]
	if labelled && label != "all" && label != "none" {
		a.complain(InvalidTrack, `label %s=%s: want "all" or "none"`, keys.Track, quote.Text(label))
	}
	if label == "none" {
		a.Track = Track{none: true}
		return
	}
	text, ok := w.Annotations[keys.Track]
	if !ok && label == "all" {
		text, ok = label, true
	}
	if ok {
		track, err := ParseTrack(text)
		if err != nil {
			a.complain(InvalidTrack, "annotation %s: %v", keys.Track, err)
		}
		a.Track = track
		return
	}
	if compat.read(w, a) {
		return
	}
	if text, ok := w.NamespaceLabels[keys.Track]; ok {
		switch text {
		case "all":
			a.Track.all = allKinds()
		case "none", "":
		default:
			a.complain(InvalidTrack, `label %s=%s of the namespace: want "all" or "none"`, keys.Track, quote.Text(text))
		}
	}
	if w.Annotations[keys.Mode] == string(Attach) && !a.Track.Enabled() {
		// The sources say for themselves that they may be attached.
		a.Track.all = allKinds()
	}
}

// readOwners reads whether ownerReferences opt sources in. The workload wins over its namespace.
func (a *Config) readOwners(w Metadata) {
	for _, said := range []struct {
		values map[string]string
		what   string
	}{{w.Annotations, "annotation"}, {w.NamespaceLabels, "label of the namespace"}, {w.NamespaceAnnotations, "annotation of the namespace"}} {
		text, ok := said.values[keys.Owners]
		switch {
		case !ok:
			continue
		case text == "true":
			a.Track.owners = true
		case text != "false":
			a.complain(InvalidTrack, `%s %s: %s: want "true" or "false"`, said.what, keys.Owners, quote.Text(text))
		}
		return
	}
}

func (a *Config) readMode(annotations map[string]string) {
	if text, ok := annotations[keys.Mode]; ok {
		switch mode := Mode(text); mode {
		case Revision, Restart, Attach:
			a.Mode = mode
		default:
			a.complain(InvalidMode, "annotation %s: %s is not a mode: want %s, %s or %s; using %s",
				keys.Mode, quote.Text(text), Revision, Restart, Attach, a.Mode)
		}
	}
	if text, ok := annotations[keys.Injection]; ok {
		injection, err := ParseInjection(text)
		if err != nil {
			a.complain(InvalidMode, "annotation %s: %v; using %s", keys.Injection, err, a.Injection)
			return
		}
		a.Injection = injection
	}
}

// readAdvance reads when pins may move, from annotations or labels; the strictest counts. With a slip they stay: what was to
// wait must not roll out because of a typo.
func (a *Config) readAdvance(where string, written map[string]string) {
	text, ok := written[keys.Advance]
	if !ok {
		return
	}
	order := []Advance{Auto, OnDeploy, Manual}
	strictness := slices.Index(order, Advance(text))
	if strictness < 0 {
		strictness = len(order) - 1
		a.complain(InvalidAdvance, "%s %s: %s is not known: want %s, %s or %s; until it is corrected, nothing advances",
			where, keys.Advance, quote.Text(text), Auto, OnDeploy, Manual)
	}
	a.Advance = order[max(strictness, slices.Index(order, a.Advance))]
}

// The values of confrev.io/rotate-by.
const (
	byRollout   = "rollout"
	byRestartAt = "restart-at"
)

func (a *Config) readRotateBy(annotations map[string]string) {
	switch text, ok := annotations[keys.RotateBy]; {
	case !ok || text == byRollout:
	case text == byRestartAt:
		a.RestartAt = true
	default:
		a.complain(InvalidMode, "annotation %s: %s is not known: want %s or %s; using %s", keys.RotateBy, quote.Text(text), byRollout, byRestartAt, byRollout)
	}
}

func (a *Config) readSettle(annotations map[string]string) {
	text, ok := annotations[keys.Settle]
	if !ok {
		return
	}
	settle, err := time.ParseDuration(text)
	if err != nil || settle < 0 {
		a.complain(InvalidSettle, "annotation %s: %s is not a duration such as 5s; using %s", keys.Settle, quote.Text(text), a.Settle)
		return
	}
	a.Settle = settle
}

// Relevant gives those of a workload's annotations that may matter to confrev.
func Relevant(annotations map[string]string) map[string]string {
	relevant := map[string]string{}
	for key, value := range annotations {
		if strings.HasPrefix(key, keys.Prefix) || isCompat(key) {
			relevant[key] = value
		}
	}
	return relevant
}

// Merge gives the annotations of a workload and of those that refer to it (workload.Kind.Refers). The workload's own win.
func Merge(own map[string]string, others ...map[string]string) map[string]string {
	if len(others) == 0 {
		return own
	}
	merged := map[string]string{}
	for _, other := range others {
		maps.Copy(merged, Relevant(other))
	}
	maps.Copy(merged, own)
	return merged
}
