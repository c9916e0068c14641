//go:build chaos

package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

// end lets everything come to rest: nothing waits any longer, the sources get a last content, and all that use them have it
// (invariant 7). Then another change is one rollout and nothing else (4), and nothing unused is left (3).
func (p *play) end() {
	p.line("# The end: nothing waits, and all sources change again.")
	p.Must(p.release())
	p.Eventually("who opted in to restarts was seen", p.notSeen)
	p.editAll("last")
	p.Eventually("all have the last content", p.notConverged("last"))
	p.Must(p.complete())
	before := p.newest()
	p.editAll("very-last")
	p.Eventually("all have the very last content", p.notConverged("very-last"))
	p.Eventually("no revisions are left over", p.leftovers)
	p.Barrier()
	p.Must(p.complete())
	for w, templates := range p.rolledOutSince(before) {
		if len(templates) > len(cast[w]) {
			p.faults = append(p.faults, fmt.Sprintf("%s was rolled out %d times for %d changes to sources that settled: %s",
				w, len(templates), len(cast[w]), strings.Join(templates, "\n")))
		}
	}
}

// release ends all waits.
func (p *play) release() error {
	if p.exists[quotaName] {
		if err := p.delete(quotaName, metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	settings := map[string]any{}
	for _, key := range waits {
		settings[key] = nil
	}
	for _, r := range p.workloads() {
		patch := nested(settings, "metadata", "annotations")
		if r.kind() == "deployment" {
			patch["spec"] = map[string]any{"paused": false}
		}
		if err := p.patch(r, patch); err != nil {
			return err
		}
		if p.robbed[r] {
			if err := p.correct(r); err != nil {
				return err
			}
		}
	}
	for _, r := range sources {
		if !p.exists[r] {
			if err := p.create(source(r, "a", "x")); err != nil {
				return err
			}
		} else if err := p.annotate(r, settings); err != nil {
			return err
		}
	}
	return nil
}

// correct does what the warning NotASource asks for: the template refers to its sources again. With injection template, it may name a revision whose
// pin a user replaced while the webhook did not answer (references.md, injection).
func (p *play) correct(r ref) error {
	obj, err := p.read(r)
	if err != nil {
		return err
	}
	template := templateOf(obj)
	pins, _ := parsePins(pinsText(template))
	corrected := false
	eachReference(template["spec"], func(kind, field string, in map[string]any) {
		name, _ := in[field].(string)
		if source := sourceOf(name); source != "" && pins[kind+"/"+source] == "" {
			in[field], corrected = source, true
		}
	})
	if !corrected {
		return nil
	}
	return p.patch(r, inTemplate(r, template["spec"], "spec"))
}

func (p *play) editAll(value string) {
	for _, r := range sources {
		p.Must(editSource("k")(p, step{verb: "edit", on: r, value: value}))
	}
}

// notConverged returns what complains while a tracked workload does not have a value.
func (p *play) notConverged(value string) func() string {
	return func() string {
		for _, r := range p.workloads() {
			obj, err := p.read(r)
			if err != nil {
				return err.Error()
			}
			if obj.GetAnnotations()[keys.Track] != "all" {
				continue
			}
			if complaint := p.hasNot(obj, value); complaint != "" {
				return fmt.Sprintf("%s: %s", r, complaint)
			}
		}
		return ""
	}
}

// hasNot complains while a workload and its pods do not have a value of all its sources.
func (p *play) hasNot(obj *unstructured.Unstructured, value string) string {
	template := templateOf(obj)
	if obj.GetAnnotations()[keys.Mode] == "restart" {
		return p.notRestarted(obj)
	}
	pins, ok := parsePins(pinsText(template))
	if !ok {
		return "malformed pins " + pinsText(template)
	}
	for _, use := range cast[refOf(obj)] {
		revision := pins[string(use.source)]
		if revision == "" {
			return fmt.Sprintf("no pin of %s in %q", use.source, pinsText(template))
		}
		got, err := p.read(ref(use.source.kind() + "/" + revision))
		if err != nil {
			return err.Error()
		}
		want := field(source(use.source, value, "").Object, "data", "k")
		if value == present {
			now, err := p.read(use.source)
			if err != nil {
				return err.Error()
			}
			want = field(now.Object, "data", "k")
		}
		if field(got.Object, "data", "k") != want {
			return fmt.Sprintf("%s has other content", revision)
		}
	}
	return p.podsLack(obj)
}

// present stands for the value that a source has.
const present = ""

// await waits until a workload has rolled out what its sources contain, as a person does who looks at what happens, but not for long:
// it may be held, or wait.
func await(p *play, s step) error {
	p.line("kubectl rollout status %s --timeout=3s", s.on)
	complaint := p.Poll(3*time.Second, func() string {
		obj, err := p.read(s.on)
		if err != nil {
			return err.Error()
		}
		return p.hasNot(obj, present)
	})
	p.note("%s", complaint)
	return nil
}

// podsLack complains while there are other pods of a workload than its template has.
func (p *play) podsLack(obj *unstructured.Unstructured) string {
	r := refOf(obj)
	if r.kind() == "cronjob" {
		return ""
	}
	want, _ := readBy(templateOf(obj))
	pods := listOf("pod")
	if err := p.client.List(p.Ctx, pods, client.InNamespace(p.NS), client.MatchingLabels{"app": r.name()}); err != nil {
		return err.Error()
	}
	ready := int64(0)
	for _, pod := range pods.Items {
		// Those of an earlier one of this name that were orphaned belong to no one.
		owner := metav1.GetControllerOf(&pod)
		if owner == nil || pod.GetDeletionTimestamp() != nil {
			continue
		}
		if got := references(pod.Object["spec"]); !slices.Equal(got, want) {
			return fmt.Sprintf("pod %s reads %v, want %v", pod.GetName(), got, want)
		}
		if isReady(&pod) {
			ready++
		}
	}
	if want, scaled, err := unstructured.NestedInt64(obj.Object, "spec", "replicas"); err != nil || scaled && ready != want || !scaled && ready == 0 {
		return fmt.Sprintf("%d pods are ready, want %d, %v", ready, want, err)
	}
	return ""
}

func isReady(pod *unstructured.Unstructured) bool {
	var typed corev1.Pod
	text, err := json.Marshal(pod.Object["status"])
	if err != nil || json.Unmarshal(text, &typed.Status) != nil {
		return false
	}
	return slices.ContainsFunc(typed.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
