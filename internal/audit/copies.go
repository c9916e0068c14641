package audit

import (
	"fmt"
	"strings"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// family is the copies of one source: objects whose names differ in their ends only.
type family struct {
	Ref
	marked bool
}

// judgeCopies finds copies that nothing uses (rule 31).
func (a *auditor) judgeCopies() {
	used := a.used()
	families := map[family][]*Source{}
	for i := range a.Sources {
		s := &a.Sources[i]
		base, made, certain := baseOf(s.Name, s.autonamed)
		// What has an owner is deleted with it, and confrev deletes its own revisions.
		if made == "" || s.owned || s.Revision {
			continue
		}
		of := family{Ref{s.Namespace, pin.Source{Kind: s.Kind, Name: base}}, certain}
		families[of] = append(families[of], s)
	}
	for of, copies := range families {
		if !of.marked && len(copies) < 2 {
			continue
		}
		var unused []pin.Source
		for _, s := range copies {
			if !used[s.Ref] {
				unused = append(unused, s.Source)
			}
		}
		if len(unused) > 0 {
			a.unusedCopies(of, unused, len(copies))
		}
	}
}

// shownCopies is how many copies a command names.
const shownCopies = 20

func (a *auditor) unusedCopies(of family, unused []pin.Source, all int) {
	found := Finding{
		Severity: Warning, Reason: UnusedCopies, Namespace: of.Namespace, Object: of.String() + "-*", Sources: texts(sortedSources(unused)),
		Message: fmt.Sprintf("nothing that was looked at names %d of %d copies", len(unused), all),
	}
	hidden := a.HiddenUsers
	if a.PodsHidden {
		hidden = append([]string{"pods"}, hidden...)
	}
	if len(hidden) > 0 {
		found.Severity = Unknown
		found.Message += fmt.Sprintf("; but you may not list %s, which may", strings.Join(hidden, ", "))
	}
	var names []string
	for _, source := range sortedSources(unused)[:min(len(unused), shownCopies)] {
		names = append(names, "-e "+source.Name)
	}
	found.Fix = fmt.Sprintf("kubectl get $(kubectl api-resources --namespaced --verbs=list -o name | grep -v -e '^secrets$' -e '^events' | paste -sd,) -n %s -o yaml"+
		" | grep -w %s", of.Namespace, strings.Join(names, " "))
	a.findings.others = append(a.findings.others, found)
}

func sortedSources(sources []pin.Source) []pin.Source {
	set := map[pin.Source]bool{}
	for _, source := range sources {
		set[source] = true
	}
	return keysOf(set, pin.Source.Compare)
}

// used returns everything that something names.
func (a *auditor) used() map[Ref]bool {
	used := map[Ref]bool{}
	for _, ref := range a.Named {
		used[ref] = true
	}
	name := func(namespace string, sources []pin.Source) {
		for _, source := range sources {
			used[Ref{namespace, source}] = true
		}
	}
	for i := range a.Pods {
		name(a.Pods[i].Namespace, a.Pods[i].Names)
	}
	for i := range a.Holders {
		name(a.Holders[i].Namespace, a.Holders[i].Names)
	}
	for i := range a.Workloads {
		if w := &a.Workloads[i]; w.Template != nil {
			name(w.Namespace, podspec.Named(&w.Template.Spec))
		}
	}
	return used
}
