// Package optin reads the settings in the annotations and labels of a workload, its namespace and its sources. It is pure: it takes
// strings, and returns the settings and what is wrong with them. It must not import a client, a clock or a context.
package optin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
)

// Injection is where pins are applied.
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

// The reasons of what is wrong with an annotation or label.
const (
	InvalidTrack     = "InvalidTrack"
	InvalidMode      = "InvalidMode"
	InvalidAdvance   = "InvalidAdvance"
	InvalidFreeze    = "InvalidFreeze"
	InvalidWindow    = "InvalidWindow"
	InvalidDeploys   = "InvalidDeploys"
	InvalidSpreading = "InvalidSpreading"
	InvalidSettle    = "InvalidSettle"
	InvalidRestartOn = "InvalidRestartOn"
	InvalidCompat    = "InvalidCompat"
)

// Metadata has the annotations and labels that a workload's configuration is read from.
type Metadata struct {
	// Annotations are those of the workload, TemplateAnnotations those of its pod template.
	Annotations, TemplateAnnotations map[string]string
	// Labels are those of the workload. kubectl rollout undo replaces annotations, but not labels.
	Labels map[string]string
	// Namespace is the workload's namespace, and NamespaceLabels and NamespaceAnnotations are those of it.
	Namespace                             string
	NamespaceLabels, NamespaceAnnotations map[string]string
}

// Defaults apply to what a workload does not specify.
type Defaults struct {
	Settle    time.Duration
	Injection Injection
	Compat    Compat
	// Stages are the namespaces that come one after the other, and Safety is how changes spread for which nothing else is said.
	Stages Stages
	Safety spread.Settings
}

// Config is a workload's configuration. A setting that cannot be read has its default, and Problems lists it.
type Config struct {
	Mode      Mode
	Injection Injection
	Settle    time.Duration
	// Gates are what may keep its pins from moving: its own settings and those of its namespace. Each source may have more.
	Gates []waiting.Gate
	// Spreading is how changes to all sources of the namespace spread. Each source may say more.
	Spreading spread.Settings
	// Safety is how changes spread to sources for which neither they nor the namespace say anything.
	Safety spread.Settings
	// Wave is the workload's place among those that a change spreads to; lower ones come first.
	Wave int
	// Deadline is how long it may take a change without progress; 0 if it does not say.
	Deadline time.Duration
	// Analysis are the names of AnalysisTemplates. InvalidAnalysis is true if they cannot be read, so that nothing can say whether the workload
	// is well.
	Analysis        []string
	InvalidAnalysis bool
	// Crashes are how many crashes of a container are a failure; 0 if it does not say.
	Crashes int
	// Track selects sources among those that the template refers to.
	Track Track
	// RestartAt is true if rotated credentials should restart pods through Argo Rollouts' spec.restartAt, without a new
	// ReplicaSet.
	RestartAt bool
	// RestartOn are other objects whose changes roll the workload.
	RestartOn []Trigger
	Problems  []notice.Notice
}

// Read returns a workload's configuration. The workload's own settings take precedence over other tools' annotations, and those
// take precedence over its namespace's.
func Read(w Metadata, defaults Defaults) Config {
	config := Config{Mode: Revision, Injection: defaults.Injection, Settle: defaults.Settle, Safety: defaults.Safety}
	config.readTrack(w, defaults.Compat)
	config.readOwners(w)
	config.readMode(w.Annotations)
	config.readGates(w, defaults.Stages)
	config.readWave(w)
	config.readDeadline(w.Annotations)
	config.readCrashes(w.Annotations)
	config.readAnalysis(w)
	config.readSettle(w.Annotations)
	config.readRotateBy(w.Annotations)
	triggers, err := ParseRestartOn(w.Annotations[keys.RestartOn])
	if strings.TrimSpace(w.Annotations[keys.Track]) != "none" && w.Labels[keys.Track] != "none" {
		config.RestartOn = triggers
	}
	if err != nil {
		config.complain(InvalidRestartOn, "annotation %s: %v", keys.RestartOn, err)
	}
	config.Problems = slices.Concat(config.Problems, unknown(onWorkload, "", w.Annotations, w.Labels),
		unknown(onTemplate, " of the pod template", w.TemplateAnnotations, nil), unknown(onNamespace, ofNamespace, w.NamespaceAnnotations, w.NamespaceLabels))
	return config
}

func (c *Config) complain(reason, format string, args ...any) {
	c.Problems = append(c.Problems, notice.Warning(reason, pin.Source{}, format, args...))
}

func (c *Config) readTrack(w Metadata, compat Compat) {
	label, labelled := w.Labels[keys.Track]
	if labelled && label != "all" && label != "none" {
		c.complain(InvalidTrack, `label %s=%s: want "all" or "none"`, keys.Track, quote.Text(label))
	}
	if label == "none" {
		c.Track = Track{none: true}
		return
	}
	text, ok := w.Annotations[keys.Track]
	if !ok && label == "all" {
		text, ok = label, true
	}
	if ok {
		track, err := ParseTrack(text)
		if err != nil {
			c.complain(InvalidTrack, "annotation %s: %v", keys.Track, err)
		}
		c.Track = track
		return
	}
	if compat.read(w, c) {
		return
	}
	if text, ok := w.NamespaceLabels[keys.Track]; ok {
		switch text {
		case "all":
			c.Track.all = allKinds()
		case "none", "":
		default:
			c.complain(InvalidTrack, `label %s=%s of the namespace: want "all" or "none"`, keys.Track, quote.Text(text))
		}
	}
	if ModeOf(w.Annotations).Attaches && !c.Track.Enabled() {
		c.Track.all = allKinds()
	}
}

// readOwners reads whether ownerReferences opt sources in. The workload takes precedence over its namespace.
func (c *Config) readOwners(w Metadata) {
	for _, said := range []struct {
		values map[string]string
		what   string
	}{{w.Annotations, "annotation"}, {w.NamespaceLabels, "label of the namespace"}, {w.NamespaceAnnotations, "annotation of the namespace"}} {
		text, ok := said.values[keys.Owners]
		switch {
		case !ok:
			continue
		case text == "true":
			c.Track.owners = true
		case text != "false":
			c.complain(InvalidTrack, `%s %s: %s: want "true" or "false"`, said.what, keys.Owners, quote.Text(text))
		}
		return
	}
}

func (c *Config) readMode(annotations map[string]string) {
	if text, ok := annotations[keys.Mode]; ok {
		if mode := ModeOf(annotations); mode != (Mode{}) {
			c.Mode = mode
		} else {
			c.complain(InvalidMode, "annotation %s: %s is not a mode: want %s, %s or %s; using %s",
				keys.Mode, quote.Text(text), Revision, Restart, Attach, c.Mode)
		}
	}
	if text, ok := annotations[keys.Injection]; ok {
		injection, err := ParseInjection(text)
		if err != nil {
			c.complain(InvalidMode, "annotation %s: %v; using %s", keys.Injection, err, c.Injection)
			return
		}
		c.Injection = injection
	}
}

// readGates reads when pins may move. A namespace says so in its annotations for all its sources.
func (c *Config) readGates(w Metadata, stages Stages) {
	own, wrong := Gates(w.Annotations, w.Labels, "")
	shared, wrongShared := Gates(w.NamespaceAnnotations, nil, ofNamespace)
	settings, invalid, wrongSpreading := stages.Spreading(w.Namespace, w.NamespaceAnnotations)
	c.Spreading, c.Gates = settings, slices.Concat(own, shared, invalid)
	c.Problems = slices.Concat(c.Problems, wrong, wrongShared, wrongSpreading)
}

// The values of confrev.io/rotate-by.
const (
	byRollout   = "rollout"
	byRestartAt = "restart-at"
)

func (c *Config) readRotateBy(annotations map[string]string) {
	switch text, ok := annotations[keys.RotateBy]; {
	case !ok || text == byRollout:
	case text == byRestartAt:
		c.RestartAt = true
	default:
		c.complain(InvalidMode, "annotation %s: %s is not known: want %s or %s; using %s", keys.RotateBy, quote.Text(text), byRollout, byRestartAt, byRollout)
	}
}

func (c *Config) readSettle(annotations map[string]string) {
	text, ok := annotations[keys.Settle]
	if !ok {
		return
	}
	settle, err := time.ParseDuration(text)
	if err != nil || settle < 0 {
		c.complain(InvalidSettle, "annotation %s: %s is not a duration such as 5s; using %s", keys.Settle, quote.Text(text), c.Settle)
		return
	}
	c.Settle = settle
}

// Relevant returns those of a workload's annotations that may matter to confrev.
func Relevant(annotations map[string]string) map[string]string {
	relevant := map[string]string{}
	for key, value := range annotations {
		if strings.HasPrefix(key, keys.Prefix) || isCompat(key) {
			relevant[key] = value
		}
	}
	return relevant
}

// Merge returns the annotations of a workload together with those of the objects that refer to it (workload.Kind.Refers), which other tools
// read. The workload's own take precedence. confrev itself follows only those.
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
