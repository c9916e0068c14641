//go:build e2e

package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// The objects of the table in docs/security.md, as it names them.
const (
	optedIn      = "workload that opted in"
	podTemplate  = "pod template of a workload that opted in"
	aSource      = "source"
	toAttach     = "source with `confrev.io/attach` or `configmap.kubernetes.io/revision-managed`"
	aRevision    = "revision"
	theAnchor    = "ConfigMap `confrev-anchor`"
	notOptedIn   = "workload that did not opt in"
	clauseOfPage = "annotations?|labels?|finalizers?|owners|delete it|create it|remove|`[^`]+`"
)

// mayWrite returns what the table in docs/security.md lets confrev's own account do, by object: effects, as effectsOf names them.
func mayWrite(t *testing.T) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(env.Root(), "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## What confrev's own account may do\n")
	section, _, _ = strings.Cut(section, "\n## ")
	all := map[string]map[string]bool{}
	for row := range strings.SplitSeq(section, "\n") {
		if cells := strings.Split(row, "|"); len(cells) == 4 {
			all[strings.TrimSpace(cells[1])] = effectsIn(cells[2])
		}
	}
	for _, object := range []string{optedIn, podTemplate, aSource, toAttach, aRevision, theAnchor} {
		if len(all[object]) == 0 {
			t.Fatalf("docs/security.md lists nothing for a %s: the test reads it wrongly", object)
		}
	}
	// It says "also": what is true of any source is true of these.
	maps.Copy(all[toAttach], all[aSource])
	// That is what a revision is.
	for _, field := range []string{"data", "immutable", "type"} {
		all[aRevision]["create with "+field] = true
	}
	for effect := range all[podTemplate] {
		all[optedIn]["template: "+effect] = true
	}
	return all
}

// effectsIn reads a cell such as "annotation `a`, owners; remove annotation `b`; create it, also with label `c`".
func effectsIn(cell string) map[string]bool {
	effects := map[string]bool{}
	sort, written := "annotation", map[string]bool{}
	for clause := range strings.SplitSeq(cell, ";") {
		modes := []string{"set", "remove"}
		for _, word := range regexp.MustCompile(clauseOfPage).FindAllString(clause, -1) {
			switch word {
			case "remove":
				modes = []string{"remove"}
				continue
			case "create it":
				// With all that may be written later, too.
				modes = []string{"create with"}
				effects["create"] = true
				for effect := range written {
					effects["create with "+effect] = true
				}
				continue
			case "delete it":
				effects["delete"] = true
				continue
			}
			what := strings.Trim(word, "`")
			switch {
			case word == "owners":
			case word[0] != '`':
				sort = strings.TrimSuffix(word, "s")
				continue
			case strings.Contains(word, "/"):
				what = sort + " " + what
			}
			written[what] = true
			for _, mode := range modes {
				effects[mode+" "+what] = true
			}
		}
	}
	return effects
}

// effectsOf returns what differs between an object and what was made of it, except for what the API server counts by itself. An object that
// was not there before is nil.
func effectsOf(before, after *unstructured.Unstructured) []string {
	var effects []string
	mode := func(is any) string {
		switch {
		case before == nil:
			return "create with "
		case is == nil:
			return "remove "
		}
		return "set "
	}
	old := map[string]any{}
	if before != nil {
		old = before.Object
	} else {
		effects = append(effects, "create")
	}
	differ := func(was, is map[string]any, note func(key string, was, is any)) {
		for _, key := range slices.Sorted(maps.Keys(merged(was, is))) {
			if !reflect.DeepEqual(was[key], is[key]) {
				note(key, was[key], is[key])
			}
		}
	}
	meta := func(prefix string, was, is map[string]any) {
		differ(was, is, func(key string, was, is any) {
			switch key {
			case "annotations", "labels":
				differ(mapOf(was), mapOf(is), func(name string, _, is any) {
					effects = append(effects, prefix+mode(is)+strings.TrimSuffix(key, "s")+" "+name)
				})
			case "ownerReferences":
				effects = append(effects, prefix+mode(is)+"owners")
			case "finalizers":
				for _, f := range append(without(was, is), without(is, was)...) {
					effects = append(effects, prefix+mode(is)+"finalizer "+f)
				}
			case "managedFields", "generation", "resourceVersion", "uid", "creationTimestamp", "name", "namespace":
			default:
				effects = append(effects, prefix+mode(is)+"metadata."+key)
			}
		})
	}
	differ(old, after.Object, func(key string, was, is any) {
		switch key {
		case "metadata":
			meta("", mapOf(was), mapOf(is))
		case "spec":
			differ(mapOf(was), mapOf(is), func(key string, was, is any) {
				if key != "template" {
					effects = append(effects, mode(is)+"spec."+key)
					return
				}
				differ(mapOf(was), mapOf(is), func(key string, was, is any) {
					if key == "metadata" {
						meta("template: ", mapOf(was), mapOf(is))
						return
					}
					effects = append(effects, mode(is)+"spec.template."+key)
				})
			})
		case "apiVersion", "kind", "status":
		default:
			effects = append(effects, mode(is)+key)
		}
	})
	return effects
}

func mapOf(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}

func merged(a, b map[string]any) map[string]any {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, b)
	return all
}

// without returns the texts of a list that another does not have.
func without(list, other any) []string {
	have, _ := other.([]any)
	var texts []string
	all, _ := list.([]any)
	for _, item := range all {
		if text, ok := item.(string); ok && !slices.Contains(have, item) {
			texts = append(texts, text)
		}
	}
	return texts
}

// sortOf returns the name that docs/security.md has for an object of the arena.
func sortOf(obj *unstructured.Unstructured) string {
	notes := obj.GetAnnotations()
	switch {
	case obj.GetKind() != "ConfigMap" && obj.GetKind() != "Secret":
		if notes[keys.Track] == "" && notes[keys.Mode] == "" {
			return notOptedIn
		}
		return optedIn
	case obj.GetLabels()[keys.Content] != "" && notes[keys.SourceName] != "":
		return aRevision
	case notes[keys.Anchor] != "":
		return theAnchor
	case notes[keys.Attach] != "":
		return toAttach
	}
	return aSource
}

// The reading of docs/security.md, and of what differs, is held by examples.
func TestEffects(t *testing.T) {
	got := effectsIn(" annotation `a/b`, owners; remove `c/d` and with it `spec.e`, and finalizer `f/g`; create it, also with label `h/i`; delete it ")
	want := []string{"set annotation a/b", "remove annotation a/b", "set owners", "remove owners", "remove annotation c/d", "remove spec.e",
		"remove finalizer f/g", "create", "create with annotation a/b", "create with owners", "create with label h/i", "delete"}
	for _, effect := range want {
		if !got[effect] {
			t.Errorf("%q is not read", effect)
		}
	}
	for _, effect := range []string{"set annotation c/d", "set spec.e", "set label h/i", "set finalizer f/g"} {
		if got[effect] {
			t.Errorf("%q is read, and not there", effect)
		}
	}
	object := func(spec, meta map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": meta, "spec": spec, "status": map[string]any{"x": spec}}}
	}
	before := object(map[string]any{"paused": true, "template": map[string]any{"metadata": map[string]any{}, "spec": "a"}},
		map[string]any{"annotations": map[string]any{"a/b": "c", "d/e": "f"}, "generation": 1, "finalizers": []any{"x/y"}})
	after := object(map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"g": "h"}}, "spec": "b"}},
		map[string]any{"annotations": map[string]any{"a/b": "i"}, "generation": 2, "ownerReferences": []any{"o"}})
	differs := effectsOf(before, after)
	slices.Sort(differs)
	all := []string{"remove annotation d/e", "remove finalizer x/y", "remove spec.paused", "set annotation a/b", "set owners", "set spec.template.spec",
		"template: set label g"}
	if !slices.Equal(differs, all) {
		t.Errorf("effects are %q", differs)
	}
}
