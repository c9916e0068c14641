package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// Severity is what a finding calls for.
type Severity string

const (
	// Warning means that someone should act.
	Warning Severity = "Warning"
	// Unknown means that it may be fine or not, and that no one can tell from outside.
	Unknown Severity = "Unknown"
	// Info is no fault.
	Info Severity = "Info"
)

// Severities lists all, the most urgent first.
var Severities = []Severity{Warning, Unknown, Info}

// Report is what an audit found.
type Report struct {
	Summary  Summary   `json:"summary"`
	Findings []Finding `json:"findings"`
}

// Worst returns the most urgent severity of the findings; empty if there are none.
func (r *Report) Worst() Severity {
	if len(r.Findings) == 0 {
		return ""
	}
	return r.Findings[0].Severity
}

// Summary counts what was looked at. A number is -1 if the user may not see what it counts.
type Summary struct {
	// Pods are those that have not ended.
	Pods      int `json:"pods"`
	Workloads int `json:"workloads"`
	// ConfigMaps and Secrets are without revisions.
	ConfigMaps int `json:"configMaps"`
	Secrets    int `json:"secrets"`
	// Stale started before a recorded change to what they read at their start.
	Stale int `json:"podsStale"`
	// Unknown may have old content; those that are Stale are not counted again.
	Unknown int `json:"podsUnknown"`
	// Unchanged read sources, and no change is recorded since they started. It is not known that they are up to date.
	Unchanged int `json:"podsUnchanged"`
}

// count counts a pod by what was found about it.
func (s *Summary) count(found map[Reason]bool, reads bool) {
	switch {
	case found[StalePods]:
		s.Stale++
	case len(found) > 0:
		s.Unknown++
	case reads:
		s.Unchanged++
	}
}

func (a *auditor) summarize() Summary {
	s := a.summary
	s.Workloads = len(a.Workloads)
	if a.PodsHidden {
		s.Pods, s.Stale, s.Unknown, s.Unchanged = -1, -1, -1, -1
	}
	for i := range a.Sources {
		switch {
		case a.Sources[i].Revision:
		case a.Sources[i].Kind == pin.Secret:
			s.Secrets++
		default:
			s.ConfigMaps++
		}
	}
	if a.Hidden[pin.ConfigMap] {
		s.ConfigMaps = -1
	}
	if a.Hidden[pin.Secret] {
		s.Secrets = -1
	}
	return s
}

// Finding is one thing about one workload, or about one group of sources.
type Finding struct {
	Severity Severity `json:"severity"`
	// Reason is one word for scripts. Explain says what it means.
	Reason    Reason `json:"reason"`
	Namespace string `json:"namespace"`
	// Object is as kubectl takes it: deployment/web.
	Object string `json:"object"`
	// Sources are those that it is about: configmap/app.
	Sources []string `json:"sources,omitempty"`
	// Pods is how many pods it concerns; -1 if that is not known.
	Pods    int    `json:"pods"`
	Message string `json:"message"`
	// Fix is a command. It may be several lines.
	Fix string `json:"fix,omitempty"`
}

// group is a finding that grows with each pod that it is about.
type group struct {
	subject
	severity Severity
	pods     map[*Pod]bool
	sources  map[pin.Source]map[podspec.Way]bool
	whys     map[string]bool
}

type groupKey struct {
	reason            Reason
	namespace, object string
}

// findings are what was found so far: about pods in groups, and the others as they are.
type findings struct {
	groups map[groupKey]*group
	others []Finding
}

// add adds a pod to the finding of its workload.
func (f *findings) add(reason Reason, about subject, pod *Pod, read podspec.Read, why string) {
	if f.groups == nil {
		f.groups = map[groupKey]*group{}
	}
	key := groupKey{reason, about.namespace, about.object}
	g := f.groups[key]
	if g == nil {
		g = &group{subject: about, severity: reason.severity(about),
			pods: map[*Pod]bool{}, sources: map[pin.Source]map[podspec.Way]bool{}, whys: map[string]bool{}}
		f.groups[key] = g
	}
	g.pods[pod] = true
	if g.sources[read.Source] == nil {
		g.sources[read.Source] = map[podspec.Way]bool{}
	}
	g.sources[read.Source][read.Way] = true
	if why != "" {
		g.whys[why] = true
	}
}

// sorted returns the findings, the most urgent first.
func (f *findings) sorted() []Finding {
	all := append([]Finding{}, f.others...)
	for key, g := range f.groups {
		all = append(all, g.finding(key))
	}
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(Severities, a.Severity), slices.Index(Severities, b.Severity)),
			cmp.Compare(slices.Index(Reasons, a.Reason), slices.Index(Reasons, b.Reason)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Object, b.Object), cmp.Compare(strings.Join(a.Sources, ","), strings.Join(b.Sources, ",")))
	})
	return all
}

func (g *group) finding(key groupKey) Finding {
	sources := keysOf(g.sources, pin.Source.Compare)
	found := Finding{
		Severity: g.severity, Reason: key.reason, Namespace: key.namespace, Object: key.object, Pods: len(g.pods), Sources: texts(sources),
	}
	var read []string
	for _, source := range sources {
		read = append(read, fmt.Sprintf("%s (%s)", source, strings.Join(texts(keysOf(g.sources[source], cmp.Compare[podspec.Way])), ", ")))
	}
	what := strings.Join(read, ", ")
	switch key.reason {
	case StalePods:
		found.Message = fmt.Sprintf("%s started before the last recorded change to what they read at their start: %s", pods(len(g.pods)), what)
	case FilesChanged:
		found.Message = fmt.Sprintf("%s started before the last recorded change to files that they mount: %s. "+
			"The kubelet has updated the files, or does soon; whether the program reads them again is not known", pods(len(g.pods)), what)
	case SourceMissing:
		found.Message = fmt.Sprintf("%s run with what no longer exists, and would not start again: %s", pods(len(g.pods)), what)
	default:
		found.Message = fmt.Sprintf("it cannot be known whether %s have the present content of %s: %s", pods(len(g.pods)), what,
			strings.Join(keysOf(g.whys, cmp.Compare[string]), "; "))
	}
	found.Fix = g.fix(key.reason, sources)
	return found
}

// fix returns the commands for a finding about pods.
func (g *group) fix(reason Reason, sources []pin.Source) string {
	if reason != SourceMissing {
		return g.restart()
	}
	create := map[pin.Kind]string{pin.ConfigMap: "configmap", pin.Secret: "secret generic"}
	var commands []string
	for _, source := range sources {
		commands = append(commands, fmt.Sprintf("kubectl create %s %s -n %s --from-file=PATH", create[source.Kind], source.Name, g.namespace))
	}
	return strings.Join(commands, "\n")
}

// restart returns the command that makes a subject's pods read again.
func (s subject) restart() string {
	kind, name, _ := strings.Cut(s.object, "/")
	if s.workload != nil {
		if s.workload.Kind.RunsJobs() {
			return ""
		}
		if command := s.workload.Kind.RestartCommand(s.namespace, s.workload.Name); command != "" {
			return command
		}
	}
	switch kind {
	case "pod":
		return fmt.Sprintf("kubectl get pod %s -n %s -o yaml | kubectl replace --force -f -", name, s.namespace)
	case "job":
		return ""
	}
	return fmt.Sprintf("kubectl get pods -n %s -o name   # then kubectl delete those of %s, one by one, if it recreates them", s.namespace, s.object)
}

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

func keysOf[K comparable, V any](all map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(all))
	for key := range all {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compare)
	return keys
}

// texts returns the texts of names.
func texts[T any](all []T) []string {
	list := make([]string, 0, len(all))
	for _, each := range all {
		list = append(list, fmt.Sprint(each))
	}
	return list
}
