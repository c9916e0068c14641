package env

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/test/gen"
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
	probe := gen.Unsaved(gen.Deployment("webhook-probe", gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/webhook-probe"))))
	probe.Namespace = metav1.NamespaceDefault
	return probe
}
