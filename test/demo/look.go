package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/env"
)

// subject is a workload that the demo looks at. Its source has its name, and its pods have it as their label "app".
type subject struct {
	gvk  schema.GroupVersionKind
	name string
}

func deployment(name string) subject {
	return subject{appsv1.SchemeGroupVersion.WithKind("Deployment"), name}
}

// workload reads a workload of any kind.
func (s *story) workload(of subject) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(of.gvk)
	return obj, s.object(of.name, obj)
}

// template reads a workload's pod template.
func (s *story) template(of subject) (*corev1.PodTemplateSpec, error) {
	obj, err := s.workload(of)
	if err != nil {
		return nil, err
	}
	fields, _, err := unstructured.NestedMap(obj.Object, "spec", "template")
	if err != nil {
		return nil, fmt.Errorf("read the pod template of %s %s: %w", of.gvk.Kind, of.name, err)
	}
	template := &corev1.PodTemplateSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, template); err != nil {
		return nil, fmt.Errorf("read the pod template of %s %s: %w", of.gvk.Kind, of.name, err)
	}
	return template, nil
}

func (s *story) object(name string, obj client.Object) error {
	return s.cluster.Client.Get(s.ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
}

// list lists what belongs to the story's workload.
func (s *story) list(into client.ObjectList) error {
	return s.cluster.Client.List(s.ctx, into, client.InNamespace(namespace), client.MatchingLabels{"app": s.subject.name})
}

// counts are the pods that read one ConfigMap.
type counts struct{ ready, unready int }

// describe puts counts of pods by ConfigMap into words.
func describe(pods map[string]counts) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		words = append(words, fmt.Sprintf("%d ready and %d unready pods with %s", pods[name].ready, pods[name].unready, name))
	}
	return strings.Join(words, ", ")
}

// pods gives which ConfigMap the workload's pods read. Pods that are on their way out count as well.
func (s *story) pods() (string, error) {
	all := &corev1.PodList{}
	if err := s.list(all); err != nil {
		return "", err
	}
	found := map[string]counts{}
	for _, pod := range all.Items {
		name := reads(pod.Spec)
		if pod.DeletionTimestamp != nil {
			name += " (terminating)"
		}
		c := found[name]
		if ready(&pod) {
			c.ready++
		} else {
			c.unready++
		}
		found[name] = c
	}
	return describe(found), nil
}

// reads gives the names of the ConfigMaps that pods read, by volumes and by envFrom, each once: one name if all places
// agree.
func reads(pod corev1.PodSpec) string {
	var names []string
	for _, volume := range pod.Volumes {
		if volume.ConfigMap != nil {
			names = append(names, volume.ConfigMap.Name)
		}
	}
	for _, container := range pod.Containers {
		for _, from := range container.EnvFrom {
			if from.ConfigMapRef != nil {
				names = append(names, from.ConfigMapRef.Name)
			}
		}
	}
	slices.Sort(names)
	return cmp.Or(strings.Join(slices.Compact(names), " and "), "nothing")
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// podsWith gives the names of the pods that read a ConfigMap.
func (s *story) podsWith(configMap string) []string {
	all := &corev1.PodList{}
	if s.err == nil {
		s.err = s.list(all)
	}
	var names []string
	for _, pod := range all.Items {
		if reads(pod.Spec) == configMap {
			names = append(names, pod.Name)
		}
	}
	if len(names) == 0 {
		s.err = cmp.Or(s.err, fmt.Errorf("no pod reads %s", configMap))
	}
	return names
}

// identities gives what would show any movement of the workload: its generation, its ReplicaSets and its pods.
func (s *story) identities() (string, error) {
	workload, err := s.workload(s.subject)
	sets, pods := &appsv1.ReplicaSetList{}, &corev1.PodList{}
	if err := errors.Join(err, s.list(sets), s.list(pods)); err != nil {
		return "", err
	}
	var ids []string
	for _, set := range sets.Items {
		ids = append(ids, fmt.Sprintf("%s×%d", set.Name, *set.Spec.Replicas))
	}
	for _, pod := range pods.Items {
		ids = append(ids, pod.Name)
	}
	slices.Sort(ids)
	return fmt.Sprintf("generation %d, %s", workload.GetGeneration(), strings.Join(ids, " ")), nil
}

// replicaSets counts those of the workload.
func (s *story) replicaSets() (string, error) {
	all := &appsv1.ReplicaSetList{}
	err := s.list(all)
	return replicaSets(len(all.Items)), err
}

func replicaSets(n int) string { return fmt.Sprintf("%d ReplicaSets", n) }

// manifestSays gives the ConfigMap that the workload's template names.
func (s *story) manifestSays() (string, error) {
	template, err := s.template(s.subject)
	if err != nil {
		return "", err
	}
	return reads(template.Spec), nil
}

// pinOf reads how a workload's source is pinned.
func (s *story) pinOf(of subject) (pin.Pin, error) {
	template, err := s.template(of)
	if err != nil {
		return pin.Pin{}, err
	}
	pins, err := pin.Parse(template.Annotations[keys.Pins])
	return pins[pin.Source{Kind: pin.ConfigMap, Name: of.name}], err
}

// pinned gives the pin of the story's workload.
func (s *story) pinned() (string, error) {
	p, err := s.pinOf(s.subject)
	return p.String(), err
}

// page gives the content of a ConfigMap, which has one key.
func (s *story) page(configMap string) look {
	return func() (string, error) {
		cm := &corev1.ConfigMap{}
		err := s.object(configMap, cm)
		return strings.Join(slices.Sorted(maps.Values(cm.Data)), " "), err
	}
}

// pinnedPage gives the content of the revision that a workload's source is pinned to.
func (s *story) pinnedPage(of subject) look {
	return func() (string, error) {
		p, err := s.pinOf(of)
		if err != nil || p == (pin.Pin{}) {
			return "no pin", err
		}
		return s.page(p.Revision)()
	}
}

// copies lists the ConfigMaps whose names go on after the workload's: revisions, or those that the user names so.
func (s *story) copies() (string, error) {
	all := &corev1.ConfigMapList{}
	if err := s.cluster.Client.List(s.ctx, all, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	var found []string
	for _, cm := range all.Items {
		if strings.HasPrefix(cm.Name, s.subject.name+"-") {
			found = append(found, cm.Name)
		}
	}
	return names(found...), nil
}

// names puts names into words, in order.
func names(list ...string) string {
	return cmp.Or(strings.Join(slices.Sorted(slices.Values(list)), " "), "none")
}

// event tells whether there is an event of a reason on the workload.
func (s *story) event(reason string) look {
	return func() (string, error) {
		all := &corev1.EventList{}
		if err := s.cluster.Client.List(s.ctx, all, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		for _, e := range all.Items {
			if e.Reason == reason && e.InvolvedObject.Kind == s.subject.gvk.Kind && e.InvolvedObject.Name == s.subject.name {
				return "event " + reason, nil
			}
		}
		return "no such event", nil
	}
}

// note gives the note confrev.io/held of the workload.
func (s *story) note() (string, error) {
	workload, err := s.workload(s.subject)
	if err != nil {
		return "", err
	}
	if note, held := workload.GetAnnotations()[keys.Held]; held {
		from, _, _ := strings.Cut(note, ";keys=")
		return from, nil
	}
	return noNote, nil
}

const noNote = "no note"

// writesSince lists confrev's writes in the story's namespace since a mark in the API server's audit log, but for those
// that the barrier's edit needs.
func (s *story) writesSince(mark env.AuditMark) look {
	return func() (string, error) {
		requests, err := s.cluster.ConfrevRequests(mark)
		if err != nil {
			return "", err
		}
		var writes []string
		for _, r := range requests {
			if r.Writes() && r.Object.Namespace == namespace && r.Object.Name != otherName && !strings.HasPrefix(r.Object.Name, otherName+"-") &&
				!strings.HasPrefix(r.Object.Name, otherName+".") {
				writes = append(writes, r.String())
			}
		}
		return cmp.Or(strings.Join(writes, ", "), "no writes"), nil
	}
}

// listUnready tells KWOK which configuration's pods never become ready.
func (s *story) listUnready(ctx context.Context, listed string) error {
	_, err := s.cluster.Kubectl(ctx, "patch", "stage", "pod-unready", "--type", "json", "-p", unreadyPatch(listed))
	return err
}

func unreadyPatch(listed string) string {
	return fmt.Sprintf(`[{"op":"replace","path":"/spec/selector/matchExpressions/0/jq/values","value":[%q]}]`, listed)
}

// patch merges JSON into an object.
func (s *story) patch(obj client.Object, json string) error {
	return s.cluster.Client.Patch(s.ctx, obj, client.RawPatch(types.MergePatchType, []byte(json)))
}
