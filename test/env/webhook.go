package env

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

// WaitWebhook waits until the API server asks confrev about workloads: it has to learn of the webhook's configuration, and
// of its certificate, first.
func (c *Cluster) WaitWebhook(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		// A dry run leaves nothing behind. Its source does not exist, so confrev pauses it (rule 7).
		probe := probeOfWebhook()
		if err := c.Client.Create(ctx, probe, client.DryRunAll); err != nil {
			return fmt.Errorf("try the workload webhook: %w", err)
		}
		if probe.Spec.Paused {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the workload webhook does not answer: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func probeOfWebhook() *appsv1.Deployment {
	labels := map[string]string{"app": "webhook-probe"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "webhook-probe", Annotations: map[string]string{keys.Track: "all"}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1", EnvFrom: []corev1.EnvFromSource{{
					ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "webhook-probe"}}}}}}},
			},
		},
	}
}
