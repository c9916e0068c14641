package controller

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// nameOf is the revision of configmap/app with one value.
func nameOf(value string) string {
	c := content.FromConfigMap(appWith(value))
	return content.RevisionName("app", c.Hash(), 0)
}

func appWith(value string) *corev1.ConfigMap {
	return gen.ConfigMap("app", map[string]string{"k": value})
}

// pinTo is a pin of configmap/app: the revision with a value, and its number.
func pinTo(value, number string) string { return "configmap/app=" + nameOf(value) + "@" + number }

// made is the revision of configmap/app with a value.
func made(value, number string) *corev1.ConfigMap {
	cm := gen.ConfigMap(nameOf(value), map[string]string{"k": value})
	cm.Immutable = new(true)
	cm.Labels = map[string]string{keys.Content: string(content.FromConfigMap(appWith(value)).Hash()), keys.Source: "app"}
	cm.Annotations = map[string]string{keys.SourceName: "app", keys.Number: number}
	return cm
}

// heldOn is the note of a Deployment web that is held from a pin on another.
func heldOn(from, on string) string {
	app := gen.Source("configmap/app")
	for value := range map[string]bool{"a": true, "b": true} {
		if p := gen.Pins(from)[app]; p.Revision == nameOf(value) {
			keys := content.FromConfigMap(appWith(value)).Digests().Used(true, nil)
			return pin.Notes{app: {From: p, On: gen.Pins(on)[app], Keys: keys}}.String()
		}
	}
	panic("no content has " + from)
}

// web is a Deployment that tracks all and takes its environment from configmap/app.
func web(image string, modifiers ...gen.DeploymentModifier) *appsv1.Deployment {
	all := append([]gen.DeploymentModifier{gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/app"))}, modifiers...)
	d := gen.Deployment("web", all...)
	d.Spec.Template.Spec.Containers[0].Image = image
	return d
}

// ran is a ReplicaSet of Deployment web.
func ran(name string, order int64, image, pins string) *appsv1.ReplicaSet {
	rs := gen.ReplicaSet(name, web(image, gen.Pinned(pins)), order)
	rs.Spec.Template.Spec.Containers[0].Image = image
	return rs
}

// created is when the objects of these tests were created.
var created = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
