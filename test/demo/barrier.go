package main

import (
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
)

// barrier waits until confrev has dealt with all that was changed before: it changes something later, the ConfigMap of
// another Deployment, and waits until confrev has rolled that one out.
func (s *story) barrier() {
	if s.err != nil {
		return
	}
	stamp := strconv.FormatInt(time.Now().UnixNano(), 10)
	s.out.note("  … confrev is given something later to do: another ConfigMap, %q, is edited", otherName)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: otherName}}
	s.err = s.patch(cm, fmt.Sprintf(`{"data":{"index.html":%q}}`, stamp))
	s.await("confrev has rolled that out", stamp, s.pinnedPage(deployment(otherName)))
}

// otherName is that of the Deployment and the ConfigMap of the barrier.
const otherName = "other"

// createOther makes the Deployment and the ConfigMap of the barrier.
func (s *story) createOther() {
	if s.err != nil {
		return
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: otherName}
	labels := map[string]string{"app": otherName}
	cm := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"index.html": "first"}}
	d := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(0)),
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "nginx", Image: "nginx:1.29", EnvFrom: []corev1.EnvFromSource{{
					ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: otherName}},
				}},
			}}},
		},
	}}
	d.Annotations = map[string]string{keys.Track: "all"}
	if s.err = s.cluster.Client.Create(s.ctx, cm); s.err == nil {
		s.err = s.cluster.Client.Create(s.ctx, d)
	}
}
