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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/env"
)

func (s *story) object(name string, obj client.Object) error {
	return s.cluster.Client.Get(s.ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
}

// read reads an object that must be there.
func (s *story) read(name string, obj client.Object) {
	if s.err == nil {
		s.err = s.object(name, obj)
	}
}

func (s *story) list(app string, into client.ObjectList) error {
	return s.cluster.Client.List(s.ctx, into, client.InNamespace(namespace), client.MatchingLabels{"app": app})
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

// pods gives which ConfigMap the pods of Deployment web mount. Pods that are on their way out count as well.
func (s *story) pods() (string, error) {
	all := &corev1.PodList{}
	if err := s.list("web", all); err != nil {
		return "", err
	}
	found := map[string]counts{}
	for _, pod := range all.Items {
		name := mounts(&pod)
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

// mounts gives the name of the ConfigMap that the pod's page comes from.
func mounts(pod *corev1.Pod) string {
	for _, volume := range pod.Spec.Volumes {
		if volume.Name == "page" && volume.ConfigMap != nil {
			return volume.ConfigMap.Name
		}
	}
	return "nothing"
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// podWith gives the name of the first pod that mounts a ConfigMap.
func (s *story) podWith(configMap string) string {
	all := &corev1.PodList{}
	if s.err == nil {
		s.err = s.list("web", all)
	}
	for _, pod := range all.Items {
		if mounts(&pod) == configMap {
			return pod.Name
		}
	}
	s.err = cmp.Or(s.err, fmt.Errorf("no pod mounts %s", configMap))
	return ""
}

// identities gives what would show any movement of Deployment web: its generation, its ReplicaSets and its pods.
func (s *story) identities() (string, error) {
	d, sets, pods := &appsv1.Deployment{}, &appsv1.ReplicaSetList{}, &corev1.PodList{}
	if err := errors.Join(s.object("web", d), s.list("web", sets), s.list("web", pods)); err != nil {
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
	return fmt.Sprintf("generation %d, %s", d.Generation, strings.Join(ids, " ")), nil
}

// replicaSets counts those of Deployment web.
func (s *story) replicaSets() (string, error) {
	all := &appsv1.ReplicaSetList{}
	err := s.list("web", all)
	return replicaSets(len(all.Items)), err
}

func replicaSets(n int) string { return fmt.Sprintf("%d ReplicaSets", n) }

func (s *story) countReplicaSets() int {
	all := &appsv1.ReplicaSetList{}
	if s.err == nil {
		s.err = s.list("web", all)
	}
	return len(all.Items)
}

func (s *story) generation() (string, error) {
	d := &appsv1.Deployment{}
	err := s.object("web", d)
	return generation(d.Generation), err
}

func generation(n int64) string { return fmt.Sprintf("generation %d", n) }

const rolledOut = "rolled out"

// rollout tells whether the Deployment controller is through with Deployment web.
func (s *story) rollout() (string, error) {
	d := &appsv1.Deployment{}
	if err := s.object("web", d); err != nil {
		return "", err
	}
	want, is := *d.Spec.Replicas, d.Status
	if is.ObservedGeneration < d.Generation || is.UpdatedReplicas != want || is.Replicas != want || is.AvailableReplicas != want {
		return fmt.Sprintf("%d of %d pods updated, %d available", is.UpdatedReplicas, want, is.AvailableReplicas), nil
	}
	return rolledOut, nil
}

// pinOf reads how a Deployment's source of the same name is pinned.
func (s *story) pinOf(name string) (pin.Pin, error) {
	d := &appsv1.Deployment{}
	if err := s.object(name, d); err != nil {
		return pin.Pin{}, err
	}
	pins, err := pin.Parse(d.Spec.Template.Annotations[keys.Pins])
	return pins[pin.Source{Kind: pin.ConfigMap, Name: name}], err
}

// pinned gives the pin of Deployment web.
func (s *story) pinned() (string, error) {
	p, err := s.pinOf("web")
	return p.String(), err
}

// page gives the content of a ConfigMap.
func (s *story) page(configMap string) look {
	return func() (string, error) {
		cm := &corev1.ConfigMap{}
		err := s.object(configMap, cm)
		return cm.Data["index.html"], err
	}
}

// pinnedPage gives the content of the revision that a Deployment's source of the same name is pinned to.
func (s *story) pinnedPage(name string) look {
	return func() (string, error) {
		p, err := s.pinOf(name)
		if err != nil || p == (pin.Pin{}) {
			return "no pin", err
		}
		return s.page(p.Revision)()
	}
}

// revisions lists the revisions of ConfigMap web.
func (s *story) revisions() (string, error) {
	all := &corev1.ConfigMapList{}
	if err := s.cluster.Client.List(s.ctx, all, client.InNamespace(namespace),
		client.MatchingLabels{keys.Source: "web"}, client.HasLabels{keys.Content}); err != nil {
		return "", err
	}
	var names []string
	for _, cm := range all.Items {
		names = append(names, cm.Name)
	}
	return revisions(names...), nil
}

func revisions(names ...string) string {
	slices.Sort(names)
	return strings.Join(names, " ")
}

// event tells whether there is an event of a reason on Deployment web.
func (s *story) event(reason string) look {
	return func() (string, error) {
		all := &corev1.EventList{}
		if err := s.cluster.Client.List(s.ctx, all, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		for _, e := range all.Items {
			if e.Reason == reason && e.InvolvedObject.Kind == "Deployment" && e.InvolvedObject.Name == "web" {
				return "event " + reason, nil
			}
		}
		return "no such event", nil
	}
}

// writesSince lists confrev's writes since a mark in the API server's audit log, but for those that the barrier's edit
// needs.
func (s *story) writesSince(mark env.AuditMark) look {
	return func() (string, error) {
		requests, err := s.cluster.ConfrevRequests(mark)
		if err != nil {
			return "", err
		}
		var writes []string
		for _, r := range requests {
			if r.Writes() && r.Object.Name != otherName && !strings.HasPrefix(r.Object.Name, otherName+"-") &&
				!strings.HasPrefix(r.Object.Name, otherName+".") {
				writes = append(writes, r.String())
			}
		}
		return cmp.Or(strings.Join(writes, ", "), "no writes"), nil
	}
}

// listUnready tells KWOK which revisions' pods never become ready.
func (s *story) listUnready(ctx context.Context, revision string) error {
	_, err := s.cluster.Kubectl(ctx, "patch", "stage", "pod-unready", "--type", "json", "-p", unreadyPatch(revision))
	return err
}

func unreadyPatch(revision string) string {
	return fmt.Sprintf(`[{"op":"replace","path":"/spec/selector/matchExpressions/0/jq/values","value":[%q]}]`, revision)
}

// patch merges JSON into an object.
func (s *story) patch(obj client.Object, json string) error {
	return s.cluster.Client.Patch(s.ctx, obj, client.RawPatch(types.MergePatchType, []byte(json)))
}
