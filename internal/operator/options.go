package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/webhook"
	"confrev.io/confrev/internal/workload"
)

// Options are what the command line says of the controller.
type Options struct {
	rollout.Options
	// Grace is how long a revision that no one uses is kept (rule 13).
	Grace time.Duration
	// Kinds are configured kinds of workloads, in addition to those that confrev knows.
	Kinds []workload.Kind
	// RevisionsPerHour is how often a source may get a new current revision (rule 11).
	RevisionsPerHour int
	// RolloutsPerHour is how often changes to sources may roll out one workload (rule 11).
	RolloutsPerHour int
	// Workers is how many workloads, and how many revisions, are worked on at a time.
	Workers int
	// LeaderElect makes several replicas agree on one that works.
	LeaderElect bool
	// PolicyPrefix is what the names of the chart's admission policies begin with.
	PolicyPrefix string
	// Webhook says how to serve the webhooks.
	Webhook webhook.Options
	// HealthAddress and MetricsAddress are where to serve; "0" serves nothing.
	HealthAddress, MetricsAddress string
	// MetricsSecure serves metrics over TLS, to clients with the right to get them. MetricsCertDir has the certificate (tls.crt, tls.key);
	// without it, one is made at each start that no one knows.
	MetricsSecure  bool
	MetricsCertDir string
}

// Validate reports what is wrong with the options, in the words of the command line's flags.
func (o Options) Validate() error {
	var problems []error
	if o.Settle < 0 {
		problems = append(problems, fmt.Errorf("--settle=%s: want 0 or more", o.Settle))
	}
	if o.Grace < revision.PinWindow {
		problems = append(problems, fmt.Errorf("--grace=%s: want %s or more", o.Grace, revision.PinWindow))
	}
	if o.Workers < 1 {
		problems = append(problems, fmt.Errorf("--workers=%d: want 1 or more", o.Workers))
	}
	if o.RevisionsPerHour < 1 {
		problems = append(problems, fmt.Errorf("--revisions-per-hour=%d: want 1 or more", o.RevisionsPerHour))
	}
	if o.RolloutsPerHour < 1 {
		problems = append(problems, fmt.Errorf("--rollouts-per-hour=%d: want 1 or more", o.RolloutsPerHour))
	}
	if o.LeaderElect && o.Namespace == "" {
		problems = append(problems, errors.New("--leader-elect needs --namespace, where the lease is kept"))
	}
	if o.Webhook.Serves() && o.Namespace == "" {
		problems = append(problems, errors.New("--webhook-bind-address needs --namespace, where the Secret of the webhooks is kept; 0 serves no webhooks"))
	}
	if o.MetricsCertDir != "" && !o.MetricsSecure {
		problems = append(problems, errors.New("--metrics-cert-dir is for --metrics-secure"))
	}
	return errors.Join(append(problems, o.Webhook.Validate(), o.validateRestartOn())...)
}

// validateRestartOn refuses what would list more than it says. ConfigMaps and Secrets are sources, and need no listing.
func (o Options) validateRestartOn() error {
	for _, resource := range o.RestartOn {
		if slices.Contains([]string{"configmaps", "secrets"}, resource.String()) || strings.ContainsAny(resource.String(), "*/ ") || resource.Resource == "" {
			return fmt.Errorf("--restart-on=%s: want resources by their plural, such as persistentvolumeclaims or certificates.cert-manager.io", resource)
		}
	}
	return nil
}
