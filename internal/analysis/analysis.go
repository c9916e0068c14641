// Package analysis lets AnalysisRuns of Argo Rollouts say whether a workload is well with a change (rule 43). It makes and reads such objects,
// and sends nothing: no client, no clock, no context.
package analysis

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/quote"
)

// The kinds of Argo Rollouts.
var (
	TemplateKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "AnalysisTemplate"}
	RunKind      = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "AnalysisRun"}
)

// Kept is how many AnalysisRuns of one workload are kept once they have ended, unless its present change has more.
const Kept = 3

// maxTemplates is how many analyses one workload may have.
const maxTemplates = 10

// ParseNames reads the names of AnalysisTemplates: "error-rate,latency".
func ParseNames(text string) ([]string, error) {
	if n := strings.Count(text, ",") + 1; n > maxTemplates {
		return nil, fmt.Errorf("it names %d AnalysisTemplates: want at most %d", n, maxTemplates)
	}
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return nil, fmt.Errorf("%s is not the name of an AnalysisTemplate", quote.Text(name))
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Subject is a workload that has taken a change.
type Subject struct {
	Owner     metav1.OwnerReference
	Namespace string
	// Pins is the text of its template's pins, and At is when it took the change.
	Pins string
	At   time.Time
}

// Selector selects the AnalysisRuns of a subject.
func (s Subject) Selector() map[string]string {
	return map[string]string{keys.AnalysisOf: string(s.Owner.UID)}
}

// Name returns the name of the AnalysisRun that a template gets for a subject. Any process comes to the same one, so that a new leader makes
// no second one.
func (s Subject) Name(template string) string {
	sum := sha256.New()
	for _, part := range []string{string(s.Owner.UID), s.Pins, s.At.UTC().Format(time.RFC3339), template} {
		sum.Write(fmt.Appendf(nil, "%d:%s", len(part), part))
	}
	suffix := "-" + content.Short(sum)
	name := s.Owner.Name + "-" + template
	return strings.TrimRight(name[:min(len(name), validation.DNS1123SubdomainMaxLength-len(suffix))], "-.") + suffix
}

// Run returns the AnalysisRun of a template for a subject. The template's arguments named workload, kind and namespace get those of the
// subject; any other must have a value. why says what a person has to correct, if there can be none.
func (s Subject) Run(template *unstructured.Unstructured) (run *unstructured.Unstructured, why string) {
	from, isMap := template.Object["spec"].(map[string]any)
	if !isMap {
		return nil, "its spec cannot be read"
	}
	spec := map[string]any{}
	for _, field := range []string{"metrics", "dryRun", "measurementRetention"} {
		if value, found := from[field]; found {
			spec[field] = value
		}
	}
	if why := endless(spec["metrics"]); why != "" {
		return nil, why
	}
	args, why := s.arguments(from["args"])
	if why != "" {
		return nil, why
	}
	if len(args) > 0 {
		spec["args"] = args
	}
	run = &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	run.SetGroupVersionKind(RunKind)
	run.SetNamespace(s.Namespace)
	run.SetName(s.Name(template.GetName()))
	run.SetLabels(s.Selector())
	run.SetOwnerReferences([]metav1.OwnerReference{s.Owner})
	return run, ""
}

// endless reports a metric that would be measured forever. It names it by its place: names are fields of a custom resource (rule 19).
func endless(metrics any) (why string) {
	list, _ := metrics.([]any)
	if len(list) == 0 {
		return "it has no metrics"
	}
	for i, one := range list {
		metric, _ := one.(map[string]any)
		if metric["interval"] != nil && metric["count"] == nil {
			return fmt.Sprintf("its metric %d of %d never ends: set count", i+1, len(list))
		}
	}
	return ""
}

func (s Subject) arguments(from any) (args []any, why string) {
	known := map[string]string{"workload": s.Owner.Name, "kind": s.Owner.Kind, "namespace": s.Namespace}
	list, _ := from.([]any)
	for i, one := range list {
		arg, _ := one.(map[string]any)
		name, _ := arg["name"].(string)
		switch value, is := known[name]; {
		case is:
			args = append(args, map[string]any{"name": name, "value": value})
		case arg["value"] == nil && arg["valueFrom"] == nil:
			return nil, fmt.Sprintf("its argument %d of %d has no value: give it one; confrev sets workload, kind and namespace", i+1, len(list))
		default:
			args = append(args, arg)
		}
	}
	return args, ""
}

// Outcome is what an AnalysisRun has shown so far.
type Outcome string

// The outcomes.
const (
	// Unknown: there is no such AnalysisRun yet, or it has not ended.
	Unknown Outcome = ""
	// Successful: the workload is well.
	Successful Outcome = "Successful"
	// Failed: it is not.
	Failed Outcome = "Failed"
	// Undecided: the analysis ended without a result, or there can be none, so a person decides.
	Undecided Outcome = "Undecided"
)

// Read returns the outcome of an AnalysisRun. Only one that has the subject as its owner counts: names can be foreseen.
func (s Subject) Read(run *unstructured.Unstructured) Outcome {
	if !slices.ContainsFunc(run.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == s.Owner.UID }) {
		return Undecided
	}
	switch phase, _, _ := unstructured.NestedString(run.Object, "status", "phase"); phase {
	case "Successful":
		return Successful
	case "Failed":
		return Failed
	case "Error", "Inconclusive":
		return Undecided
	}
	return Unknown
}

// Ended reports whether an AnalysisRun is over.
func Ended(run *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(run.Object, "status", "phase")
	return slices.Contains([]string{"Successful", "Failed", "Error", "Inconclusive"}, phase)
}

// Superfluous returns those of a workload's AnalysisRuns that are more than are kept: the oldest that have ended. A change has so many together.
func Superfluous(runs []unstructured.Unstructured, together int) []unstructured.Unstructured {
	ended := slices.DeleteFunc(slices.Clone(runs), func(run unstructured.Unstructured) bool { return !Ended(&run) })
	slices.SortStableFunc(ended, func(a, b unstructured.Unstructured) int {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
	})
	return ended[:max(0, len(ended)-max(Kept, together))]
}
