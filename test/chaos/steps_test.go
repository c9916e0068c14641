//go:build chaos

package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// step is one thing that happens: who does it follows from the verb.
type step struct {
	verb string
	// on is the object that it is about, and value what the verb says about it; either may be empty.
	on    ref
	value string
}

// String returns the form that parseHistory reads: "edit configmap/one b".
func (s step) String() string {
	return strings.TrimRight(fmt.Sprintf("%s %s %s", s.verb, s.on, s.value), " ")
}

// history is what happens in a namespace, one step after the other.
type history []step

func (h history) String() string {
	var lines []string
	for _, s := range h {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "\n") + "\n"
}

// parseHistory reads a history: a step in each line. Empty lines and those that begin with # do not count.
func parseHistory(text string) (history, error) {
	var all history
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		s := step{verb: words[0]}
		v, ok := verbs[s.verb]
		if !ok {
			return nil, fmt.Errorf("%q: there is no verb %s", line, s.verb)
		}
		rest := words[1:]
		if v.on != nil && len(rest) > 0 {
			s.on, rest = ref(rest[0]), rest[1:]
		}
		if s.value = strings.Join(rest, " "); v.on != nil && !v.on(s.on) {
			return nil, fmt.Errorf("%q: %s is not about %q", line, s.verb, s.on)
		}
		all = append(all, s)
	}
	return all, nil
}

// verb is a kind of step.
type verb struct {
	// weight is how often it is drawn, in relation to others.
	weight int
	// on reports whether it is about an object. Without it, the verb needs none.
	on func(ref) bool
	// values are those that are drawn.
	values []string
	// do makes it happen.
	do func(*play, step) error
	// absent is true when the object must not be there. Otherwise it must.
	absent bool
	// fault is true when it happens to confrev, and so to all histories.
	fault bool
}

func isSource(r ref) bool   { return slices.Contains(sources, r) }
func isWorkload(r ref) bool { return cast[r] != nil }
func isAny(r ref) bool      { return isSource(r) || isWorkload(r) }

// of returns what reports whether an object is a workload of one of these kinds.
func of(kinds ...string) func(ref) bool {
	return func(r ref) bool { return isWorkload(r) && slices.Contains(kinds, r.kind()) }
}

// Who has replicas, and who can be rolled back.
var (
	scalable = of("deployment", "statefulset", "rollout")
	undoable = of("deployment", "statefulset", "daemonset")
	runs     = of("deployment", "statefulset", "daemonset", "rollout")
	replicas = of("deployment", "rollout")
)

// verbs are all kinds of steps.
var verbs map[string]verb

// It is a function since steps read the table that it fills.
func init() {
	verbs = map[string]verb{
		// Users, with sources.
		"edit":   {weight: 16, on: isSource, values: []string{"a", "b", "c"}, do: editSource("k")},
		"other":  {weight: 3, on: isSource, values: []string{"x", "y"}, do: editSource("other")},
		"label":  {weight: 2, on: isAny, values: []string{"x", "y"}, do: label},
		"create": {weight: 8, on: isAny, absent: true, do: create},
		"delete": {weight: 4, on: isAny, do: remove},
		// Users, with workloads.
		"deploy":    {weight: 8, on: isWorkload, values: []string{"1", "2", "3"}, do: deploy},
		"undo":      {weight: 10, on: undoable, do: undo},
		"restart":   {weight: 2, on: runs, do: restart},
		"scale":     {weight: 2, on: scalable, values: []string{"0", "1", "2", "3"}, do: scale},
		"pause":     {weight: 1, on: of("deployment"), values: []string{"true", "false", "false"}, do: pause},
		"orphan":    {weight: 1, on: runs, do: orphan},
		"limit":     {weight: 2, on: isWorkload, values: []string{"1", "2", "10"}, do: limit},
		"prune":     {weight: 2, on: replicas, do: prune},
		"kill-pods": {weight: 5, on: isWorkload, do: killPods},
		"job":       {weight: 4, on: of("cronjob"), do: job},
		// What users say about them.
		"track":     {weight: 2, on: isWorkload, values: []string{"none", "all", "all"}, do: annotateTo(trackKey)},
		"mode":      {weight: 2, on: isWorkload, values: []string{"revision", "revision", "restart"}, do: annotateTo(modeKey)},
		"injection": {weight: 2, on: isWorkload, values: []string{"admission", "template"}, do: annotateTo(injectionKey)},
		"advance":   {weight: 1, on: isAny, values: []string{"manual", "on-deploy"}, do: annotateTo(advanceKey)},
		"freeze":    {weight: 1, on: isAny, values: []string{"1s", "3s"}, do: freeze},
		"spread":    {weight: 2, on: isSource, values: []string{"none", "stop", "undo", "undo-all"}, do: spread},
		"unset":     {weight: 3, on: isAny, do: unset},
		"quota":     {weight: 1, values: []string{"0"}, do: quota},
		"unquota":   {weight: 2, do: unquota},
		// Those who meddle.
		"tamper":          {weight: 2, on: isSource, values: []string{"label", "number", "owners", "finalizer"}, do: tamper},
		"delete-revision": {weight: 2, on: isSource, do: deleteRevision},
		"forge":           {weight: 1, do: forge},
		"nonsense":        {weight: 2, on: isWorkload, values: []string{"nonsense", "configmap/one=kube-root-ca.crt@1", "configmap/one=two-bcdfghjklm@1", noPin}, do: nonsense},
		// What happens to confrev. The values are after how many further steps it is started again.
		"kill":     {weight: 2, values: []string{"0", "1", "2", "4"}, do: down((*processes).kill), fault: true},
		"stop":     {weight: 1, values: []string{"0", "1", "2", "4"}, do: down((*processes).stop), fault: true},
		"suspend":  {weight: 1, values: []string{"200ms", "700ms", "2s"}, do: suspend, fault: true},
		"failover": {weight: 1, values: []string{"kill", "stop", "suspend"}, do: failover, fault: true},
		// Only with Faults.
		"partition": {values: []string{"0", "1", "2", "4"}, do: partition, fault: true},
		// Time.
		"await": {weight: 16, on: isWorkload, do: await},
		"wait":  {weight: 16, values: []string{"20ms", "80ms", "150ms", "300ms", "700ms", "1500ms"}, do: pass},
	}
	if faults != nil {
		partitions := verbs["partition"]
		partitions.weight = 2
		verbs["partition"] = partitions
	}
}

// weighted returns the verbs that are about something of what there may be, each as often as it weighs.
func weighted(objects []ref) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		v := verbs[name]
		if v.on == nil || slices.ContainsFunc(objects, v.on) {
			all = append(all, slices.Repeat([]string{name}, v.weight)...)
		}
	}
	return all
}

// anyOf draws one of some values. rapid prefers the first ones, and the table says how often each step is to happen.
func anyOf[T any](t *rapid.T, values []T, label string) T {
	index := 0
	for range 12 {
		index *= 2
		if rapid.Bool().Draw(t, label) {
			index++
		}
	}
	return values[index%len(values)]
}

// Histories that are drawn begin with their sources and a few workloads.
var anyHistory = rapid.Custom(func(t *rapid.T) history {
	members := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) ref {
		return anyOf(t, slices.Sorted(maps.Keys(cast)), "member")
	}), 1, 3, rapid.ID[ref]).Draw(t, "members")
	var all history
	for _, r := range slices.Concat(sources, members) {
		all = append(all, step{verb: "create", on: r})
	}
	objects := slices.Concat(sources, members)
	names := weighted(objects)
	drawn := rapid.Custom(func(t *rapid.T) history {
		s := step{verb: anyOf(t, names, "verb")}
		v := verbs[s.verb]
		if v.on != nil {
			s.on = anyOf(t, slices.DeleteFunc(slices.Clone(objects), func(r ref) bool { return !v.on(r) }), "on")
		}
		if len(v.values) > 0 {
			s.value = anyOf(t, v.values, "value")
		}
		if s.verb == "undo" && rapid.Bool().Draw(t, "of a change") {
			// Otherwise, there is hardly ever something to undo.
			changed := step{verb: "edit", on: anyOf(t, cast[s.on], "changed").source, value: anyOf(t, []string{"a", "b", "c"}, "value")}
			return history{changed, {verb: "await", on: s.on}, s}
		}
		return history{s}
	})
	for _, steps := range rapid.SliceOfN(drawn, 8, 22).Draw(t, "steps") {
		all = append(all, steps...)
	}
	return all
})
