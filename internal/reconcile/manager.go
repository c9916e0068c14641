package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"

	"confrev.io/confrev/internal/account"
	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/notice/sink"
	"confrev.io/confrev/internal/optin"
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

// SetUp adds the reconcilers, the gate and the webhooks to a manager.
func SetUp(ctx context.Context, manager ctrl.Manager, o Options) error {
	for _, kind := range o.SourceKinds() {
		err := manager.GetFieldIndexer().IndexField(ctx, revision.NewMetadata(kind), revision.BySource, revision.IndexBySource(kind))
		if err != nil {
			return fmt.Errorf("index %ss: %w", kind, err)
		}
	}
	// Replicas that do not lead answer webhooks, so they need what else only the reconcilers would watch.
	if _, err := manager.GetCache().GetInformer(ctx, index.Namespace()); err != nil {
		return fmt.Errorf("watch namespaces: %w", err)
	}
	gate := gate.NewGate(manager.GetAPIReader(), o.PolicyPrefix, time.Now)
	kinds := &workload.Kinds{}
	store := revision.NewStore(manager.GetClient(), manager.GetAPIReader(), manager.GetClient(), time.Now, kinds, o.RevisionsPerHour)
	if !o.Secrets {
		store.WithoutSecrets()
	}
	notices := notice.Sinks{sink.Events(manager.GetEventRecorder("confrev")), sink.Metrics(), sink.Log()}
	accounts := account.New(manager.GetAPIReader(), time.Now)
	triggers := rollout.NewTriggers(o.Options, manager.GetClient(), manager.GetAPIReader())
	revisions := &revisions{
		options: o, kinds: kinds, client: manager.GetClient(), live: manager.GetAPIReader(), store: store, notices: notices,
		lost: newMemories(), unused: lru.New(maxUnused), now: time.Now,
	}
	keeper, err := revisions.setUp(manager)
	if err != nil {
		return fmt.Errorf("set up the reconciler of revisions: %w", err)
	}
	handler := &webhook.Workloads{Gate: gate, Notices: notices, Elected: manager.Elected()}
	assembly := &assembly{
		manager: manager, options: o, kinds: kinds, revisions: revisions, keeper: keeper, handler: handler,
		waiting: slices.Concat(workload.Standard(), o.Kinds), problems: map[schema.GroupVersionKind]string{},
		indexed: map[string]bool{},
		workloads: func(kind workload.Kind) *workloads {
			return &workloads{
				Engine: &rollout.Engine{
					Kind: kind, Kinds: kinds, Options: o.Options, Client: manager.GetClient(), Live: manager.GetAPIReader(),
					Whole: manager.GetAPIReader(), Store: store, Triggers: triggers, Accounts: accounts, Now: time.Now,
				},
				rolloutsPerHour: o.RolloutsPerHour, workers: o.Workers, cache: manager.GetCache(), notices: notices, gate: gate,
				memory:   newMemories(),
				followed: map[schema.GroupVersionKind]bool{},
			}
		},
	}
	if err := assembly.look(ctx); err != nil {
		return err
	}
	handler.Add(assembly.workloads(workload.StandAloneJob).Engine)
	if o.Injection == optin.Admission {
		if err := manager.AddReadyzCheck("policies", gate.Check); err != nil {
			return err
		}
	}
	server := webhook.Server{Options: o.Webhook, Namespace: o.Namespace, Prefix: o.PolicyPrefix, Workloads: handler, Gate: gate}
	return errors.Join(manager.Add(gate), manager.Add(assembly), server.AddTo(manager))
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
