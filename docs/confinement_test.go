package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/yaml"

	"confrev.io/confrev/internal/workload"
)

// written returns the chart's list of what confrev's own account may write, by where.
func written(t *testing.T) map[string][]string {
	t.Helper()
	lists := map[string][]string{}
	defined(t, "_confinement.tpl", "confrev.written", &lists)
	if len(lists) < 8 {
		t.Fatalf("cannot read the chart's list of what confrev writes: %v", lists)
	}
	return lists
}

// defined reads a template of the chart, which is YAML up to its first action.
func defined(t *testing.T, file, name string, into any) {
	t.Helper()
	_, after, found := strings.Cut(read(t, "charts/confrev/templates/"+file), "{{- define \""+name+"\" -}}\n")
	list, _, ended := strings.Cut(after, "{{-")
	if err := yaml.UnmarshalStrict([]byte(list), into); err != nil || !found || !ended {
		t.Fatalf("cannot read %s of the chart: %v", name, err)
	}
}

// workloadKind is a kind of workload as the chart lists it.
type workloadKind struct {
	Group, Version, Kind, Plural, Template string
	Holder                                 struct{ Group, Plural string }
}

// The chart grants rights, confines and calls the webhook for the kinds that confrev handles, and for no others.
func TestTheChartHasEveryKind(t *testing.T) {
	var listed, known []workloadKind
	defined(t, "_helpers.tpl", "confrev.workloads", &listed)
	for _, kind := range workload.Standard() {
		plural, _ := meta.UnsafeGuessKindToResource(kind.GVK)
		holders, _ := meta.UnsafeGuessKindToResource(kind.Holder.GVK)
		one := workloadKind{Group: kind.GVK.Group, Version: kind.GVK.Version, Kind: kind.GVK.Kind, Plural: plural.Resource}
		if one.Holder.Group, one.Holder.Plural = holders.Group, holders.Resource; kind.Path != "spec.template" {
			one.Template = kind.Path
		}
		known = append(known, one)
	}
	if diff := cmp.Diff(known, listed); diff != "" {
		t.Errorf("confrev.workloads of the chart (-internal/workload +chart):\n%s", diff)
	}
	for _, file := range []string{"rbac.yaml", "self-confinement.yaml", "webhook.yaml"} {
		text := read(t, "charts/confrev/templates/"+file)
		if !strings.Contains(text, `{{- range include "confrev.workloads" . | fromYamlArray }}`) {
			t.Errorf("%s does not range over confrev.workloads", file)
		}
		for _, kind := range listed {
			if strings.Contains(text, "["+kind.Plural) || strings.Contains(text, `"`+kind.Plural) || strings.Contains(text, ", "+kind.Plural) {
				t.Errorf("%s lists %s on its own", file, kind.Plural)
			}
		}
	}
}

var key = regexp.MustCompile("`((?:confrev|(?:[a-z]+\\.)?kubernetes)\\.io/[a-z-]+)`")

func keysIn(text string) []string {
	var found []string
	for _, match := range key.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(found, match[1]) {
			found = append(found, match[1])
		}
	}
	return found
}

func sameKeys(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(slices.Compact(got), slices.Compact(want)) {
		t.Errorf("%s has %q, the chart %q", what, got, want)
	}
}

// Every key that confrev's own account may write is one of confrev's, or the change cause that a revision copies.
func TestConfinedKeysExist(t *testing.T) {
	var known []string
	for _, value := range constants(t, "internal/keys/keys.go") {
		known = append(known, value)
	}
	for where, all := range written(t) {
		for _, k := range all {
			if !slices.Contains(known, k) {
				t.Errorf("confrev.written lists %s under %s, which internal/keys does not have", k, where)
			}
		}
	}
}

// What confrev writes by its specification is what its own account may write, and nothing else.
func TestConfinementIsWhatConfrevWrites(t *testing.T) {
	lists := written(t)
	specified := map[string][]string{}
	for row := range strings.SplitSeq(section(t, "docs/rules/writes.md", "# What confrev writes"), "\n") {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			continue
		}
		object, what := strings.TrimSpace(cells[1]), cells[2]
		// The finalizer is not a key of a map, and the anchor and the key are only ever created.
		if strings.Contains(what, "finalizer") || strings.Contains(object, "confrev-anchor") || strings.Contains(object, "confrev-key") {
			continue
		}
		sort := "annotation"
		if strings.Contains(what, "label") {
			sort = "label"
		}
		specified[object+" "+sort] = append(specified[object+" "+sort], keysIn(what)...)
	}
	for what, where := range map[string][]string{
		"workload annotation": {"workload"}, "new Deployment annotation": {"workloadRemoved"}, "pod template annotation": {"template"},
		"source label": {"sourceLabels"}, "source annotation": {"sourceRemoved"}, "revision label": {"revisionLabels"},
		"revision annotation": {"revision", "revisionOnce"},
	} {
		var allowed []string
		for _, list := range where {
			allowed = append(allowed, lists[list]...)
		}
		sameKeys(t, "docs/rules/writes.md, "+what, specified[what], allowed)
		delete(specified, what)
	}
	for what, keys := range specified {
		if len(keys) > 0 {
			t.Errorf("docs/rules/writes.md lists %q of a %s, for which the chart has no list", keys, what)
		}
	}
}

// The documented list of what confrev's token allows is that of the policies.
func TestWhatTheAccountMayDoIsDocumented(t *testing.T) {
	lists := written(t)
	text := section(t, "docs/security.md", "## What confrev's own account may do")
	rows := map[string][]string{}
	for row := range strings.SplitSeq(text, "\n") {
		if cells := strings.Split(row, "|"); len(cells) == 4 {
			rows[strings.TrimSpace(cells[1])] = keysIn(cells[2])
		}
	}
	for object, where := range map[string][]string{
		"workload that opted in":                   {"workload", "workloadRemoved"},
		"pod template of a workload that opted in": {"template"},
		"revision": {"revision", "revisionOnce", "revisionLabels"},
	} {
		var allowed []string
		for _, list := range where {
			allowed = append(allowed, lists[list]...)
		}
		sameKeys(t, "docs/security.md, "+object, rows[object], allowed)
	}
	sameKeys(t, "docs/security.md, source", rows["source"], slices.Concat(lists["sourceLabels"], lists["sourceRemoved"], []string{"confrev.io/protect"}))
	_, after, found := strings.Cut(text, "A workload opts in by one of ")
	consent, _, _ := strings.Cut(after, " on it")
	if !found {
		t.Fatal("docs/security.md does not say how a workload opts in")
	}
	sameKeys(t, "docs/security.md, opting in,", keysIn(consent), lists["consent"])
}

// What RBAC lets confrev write is confined by a policy, or is one of the few things that need none.
func TestEveryRightToWriteIsConfined(t *testing.T) {
	policies := read(t, "charts/confrev/templates/self-confinement.yaml")
	// Leases and the authority's Secret are in confrev's own namespace, by name; events are only ever about something; reviews are questions.
	free := []string{"leases", "events", "tokenreviews", "subjectaccessreviews"}
	rule := regexp.MustCompile(`(?m)^ *resources: \[(.*)\]\n(?:.*resourceNames.*\n)? *verbs: \[(.*)\]`)
	checked := 0
	for _, match := range rule.FindAllStringSubmatch(read(t, "charts/confrev/templates/rbac.yaml"), -1) {
		if !regexp.MustCompile(`create|update|patch|delete`).MatchString(match[2]) {
			continue
		}
		for _, resource := range regexp.MustCompile(`[a-z]{4,}`).FindAllString(regexp.MustCompile(`\{\{.*?\}\}`).ReplaceAllString(match[1], ""), -1) {
			checked++
			if !slices.Contains(free, resource) && !strings.Contains(policies, resource) {
				t.Errorf("the chart lets confrev write %s, which no policy confines", resource)
			}
		}
	}
	// Workloads are confined by the list that grants the right to patch them: TestTheChartHasEveryKind.
	if checked < 8 {
		t.Errorf("found only %d rights to write: the test reads the chart wrongly", checked)
	}
}
