package optin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
)

// Stages has, for each namespace, those after which changes to its sources may come (rule 44). The operator of confrev lists the pairs: from an
// annotation of a namespace, no one must learn anything about the content of another one.
type Stages map[string][]string

// ParseStages reads pairs of namespaces: "prod=staging" says that prod may come after staging.
func ParseStages(pairs []string) (Stages, error) {
	stages := Stages{}
	for _, pair := range pairs {
		namespace, after, _ := strings.Cut(pair, "=")
		if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Label(after)) > 0 {
			return nil, fmt.Errorf("%s is not a pair of namespaces such as prod=staging", quote.Text(pair))
		}
		stages[namespace] = append(stages[namespace], after)
	}
	for _, namespace := range slices.Sorted(maps.Keys(stages)) {
		if stages.reaches(namespace, namespace, nil) {
			return nil, fmt.Errorf("namespace %s would come after itself", namespace)
		}
	}
	return stages, nil
}

// reaches reports whether a namespace may come after another one, directly or not.
func (s Stages) reaches(namespace, other string, seen []string) bool {
	return slices.ContainsFunc(s[namespace], func(after string) bool {
		return after == other || !slices.Contains(seen, after) && s.reaches(after, other, append(seen, after))
	})
}

// Followers returns the namespaces that may come after one, sorted.
func (s Stages) Followers(namespace string) []string {
	var all []string
	for follower, after := range s {
		if slices.Contains(after, namespace) {
			all = append(all, follower)
		}
	}
	slices.Sort(all)
	return all
}

// ByAfter is where confrev.io/after is written.
const ByAfter = "annotation " + keys.After + ofNamespace

// ofNamespace completes what says where a setting of the namespace is written.
const ofNamespace = " of the namespace"

// NamespaceLabelKeys are the labels of a namespace from which confrev reads.
var NamespaceLabelKeys = []string{keys.Track, keys.Owners}

// NamespaceKeys are the annotations of a namespace from which confrev reads.
var NamespaceKeys = slices.Concat([]string{keys.Owners, keys.Analysis, keys.After}, GateKeys, spreadKeys)

// Spreading returns what a namespace says about how changes to its sources spread, and what is wrong with it.
func (s Stages) Spreading(namespace string, annotations map[string]string) (spread.Settings, []waiting.Gate, []notice.Notice) {
	settings, gates, problems := spreading(annotations, ofNamespace)
	if len(s.Followers(namespace)) > 0 {
		settings = settings.With(spread.Settings{Leads: true, By: "the list of stages"})
	}
	after, ok := annotations[keys.After]
	if !ok {
		return settings, gates, problems
	}
	if !slices.Contains(s[namespace], after) {
		problems = append(problems, notice.Warning(InvalidSpreading, pin.Source{}, "%s: %s may not come after namespace %s: the chart value stages does not list "+
			"this pair; until it is corrected, nothing advances", ByAfter, namespace, quote.Text(after)))
		return settings, append(gates, waiting.Gate{Reason: waiting.Manual, By: ByAfter, Invalid: true}), problems
	}
	return settings.With(spread.Settings{After: after, By: ByAfter}), gates, problems
}

// notAfter is the value of confrev.io/after of a source that waits for no other namespace.
const notAfter = "none"

func parseAfter(text, _ string) (spread.Settings, error) {
	if text != notAfter {
		return spread.Settings{}, fmt.Errorf("%s is not known on a source: want %s", quote.Text(text), notAfter)
	}
	return spread.Settings{Exempt: true}, nil
}

// maxVersion is how long a version may be.
const maxVersion = 128

// Version returns the version of a source; empty if it has none, or one that cannot be read.
func Version(annotations map[string]string) string {
	if text := annotations[keys.Version]; readVersion(text) == nil {
		return text
	}
	return ""
}

// readVersion reads confrev.io/version.
func readVersion(text string) error {
	if text == "" || len(text) > maxVersion || strings.TrimSpace(text) != text {
		return errors.New("want 1 to 128 characters without spaces around them")
	}
	return nil
}
