package gen

import (
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
)

// NameOfRevision returns the revision of configmap/app with one value.
func NameOfRevision(value string) string {
	c := content.FromConfigMap(App(value))
	return content.RevisionName("app", c.Hash(), 0)
}

// App returns configmap/app with one value.
func App(value string) *corev1.ConfigMap {
	return ConfigMap("app", map[string]string{"k": value})
}

// PinOfApp returns a pin of configmap/app: the revision with a value, and its number.
func PinOfApp(value, number string) string {
	return "configmap/app=" + NameOfRevision(value) + "@" + number
}

// RevisionOfApp returns the revision of configmap/app with a value.
func RevisionOfApp(value, number string) *corev1.ConfigMap {
	cm := ConfigMap(NameOfRevision(value), map[string]string{"k": value})
	cm.Immutable = new(true)
	cm.Labels = map[string]string{keys.Content: string(content.FromConfigMap(App(value)).Hash()), keys.Source: "app"}
	cm.Annotations = map[string]string{keys.SourceName: "app", keys.Number: number}
	return cm
}

// HeldOn returns the note of a Deployment web that is held from a pin on another.
func HeldOn(from, on string) string {
	app := Source("configmap/app")
	for value := range map[string]bool{"a": true, "b": true} {
		if p := Pins(from)[app]; p.Revision == NameOfRevision(value) {
			keys := content.FromConfigMap(App(value)).Digests().Sum(true, nil)
			return pin.Notes{app: {From: p, On: Pins(on)[app], Keys: keys}}.String()
		}
	}
	panic("no content has " + from)
}

// Web returns a Deployment that tracks all and takes its environment from configmap/app.
func Web(image string, modifiers ...DeploymentModifier) *appsv1.Deployment {
	all := append([]DeploymentModifier{Tracking("all"), Template(EnvFrom("configmap/app"))}, modifiers...)
	d := Deployment("web", all...)
	d.Spec.Template.Spec.Containers[0].Image = image
	return d
}

// Ran returns a ReplicaSet of Deployment web, with a name that ends in the number of its first rollout: if that is not the last one, the Deployment
// controller has noted it.
func Ran(name string, order int64, image, pins string) *appsv1.ReplicaSet {
	rs := ReplicaSet(name, Web(image, Pinned(pins)), order)
	rs.Spec.Template.Spec.Containers[0].Image = image
	if first := strings.TrimPrefix(name, "web-"); first != strconv.FormatInt(order, 10) {
		rs.Annotations["deployment.kubernetes.io/revision-history"] = first
	}
	return rs
}

// Created is when the objects of these tests were created.
var Created = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
