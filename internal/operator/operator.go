// Package operator is the command that runs the controller in a cluster, and its flags. It is apart from the plugin, whose
// libraries (kubectl, kustomize) have no place in a process with rights.
package operator

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/version"
	"confrev.io/confrev/internal/webhook"
	"confrev.io/confrev/internal/workload"
)

// flags are those of the controller that are not its options.
type flags struct {
	kubeconfig string
	context    string
	logFormat  string
	logLevel   string
	config     string
	injection  string
	compat     []string
	rotate     []string
	restartOn  []string
	stages     []string
	safety     string
}

const long = `confrev makes a configuration change roll out, and roll back, exactly like an image change.

It watches workloads with the annotation confrev.io/track (Deployments, StatefulSets, DaemonSets, CronJobs, Argo
Rollouts and configured kinds) and the ConfigMaps and Secrets that they use. When one of those changes, it copies the
content into an immutable revision and pins the revision in the workload's pod template, which is one ordinary rollout.
It runs in the cluster; charts/confrev installs it.`

const example = `  # In a cluster, as the chart runs it
  confrev --leader-elect --namespace=confrev-system

  # On your machine, against the cluster of your kubeconfig
  confrev --kubeconfig=$HOME/.kube/config --log-format=text`

// Command returns the command that runs the controller until its context ends.
func Command() *cobra.Command {
	var f flags
	var options Options
	cmd := &cobra.Command{
		Use:           "confrev",
		Short:         "Roll configuration out, and back, like images",
		Long:          long,
		Example:       example,
		Version:       version.String(),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(f.complete(&options), options.Validate()); err != nil {
				return err
			}
			logger, err := newLogger(f.logFormat, f.logLevel)
			if err != nil {
				return err
			}
			ctrl.SetLogger(logger)
			klog.SetLogger(logger)
			config, err := f.load()
			if err != nil {
				return err
			}
			config.UserAgent = "confrev/" + version.String()
			return Run(cmd.Context(), config, options)
		},
	}
	f.add(cmd)
	addOptions(cmd, &options)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.AddCommand(releaseSourcesCommand())
	return cmd
}

// Read reads the options from the arguments of a controller's container, and whether a file describes further kinds, which is not
// read: it is where the container is.
func Read(args []string) (options Options, configured bool, err error) {
	var f flags
	parser := &cobra.Command{}
	f.add(parser)
	addOptions(parser, &options)
	if err := parser.ParseFlags(args); err != nil {
		return options, false, err
	}
	configured = f.config != ""
	f.config = ""
	return options, configured, f.complete(&options)
}

// addCluster adds the flags that choose the cluster.
func (f *flags) addCluster(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` to use (default: the pod's service account in a cluster, else as kubectl does)")
	set.StringVar(&f.context, "context", "", "`name` of the kubeconfig's context to use")
}

func addSecrets(cmd *cobra.Command, o *rollout.Options) {
	cmd.Flags().BoolVar(&o.Secrets, "secrets", false, "handle Secrets too; it needs the rights on them (chart value secrets.enabled)")
}

func (f *flags) add(cmd *cobra.Command) {
	f.addCluster(cmd)
	set := cmd.Flags()
	set.StringVar(&f.config, "config", "", "`file` (YAML) that describes further kinds of workloads")
	set.StringVar(&f.injection, "injection", string(optin.Admission),
		"`where` pins are applied, unless the annotation confrev.io/injection of a workload says otherwise: admission or template")
	set.StringSliceVar(&f.compat, "compat", nil, "`tools` whose annotations opt workloads in too, in mode restart: reloader, wave")
	set.StringSliceVar(&f.rotate, "rotate", nil, "`classes` of sources whose policy is rotate unless they say otherwise, in addition to certificates and "+
		"leased credentials: external-secrets, vault, reflected, trust-manager")
	set.StringSliceVar(&f.stages, "stages", nil, "`pairs` of namespaces: prod=staging lets the namespace prod have the annotation confrev.io/after: staging, so that "+
		"changes to its sources wait until they are proven in staging")
	set.StringVar(&f.safety, "default-safety", "none", "`preset` that says how changes spread for which neither the source nor its namespace says anything: careful, or none")
	set.StringSliceVar(&f.restartOn, "restart-on", nil,
		"`resources` that the annotation confrev.io/restart-on may name, other than ConfigMaps and Secrets, such as certificates.cert-manager.io; "+
			"it needs the rights on them (chart value restartOn)")
	set.StringVar(&f.logFormat, "log-format", "text", "`form` of the log: text or json")
	set.StringVar(&f.logLevel, "log-level", "info", "least `level` to log: debug, info, warn or error")
}

// complete reads the flags that stand for more than a value.
func (f *flags) complete(o *Options) error {
	var problems []error
	injection, err := optin.ParseInjection(f.injection)
	if err != nil {
		problems = append(problems, fmt.Errorf("--injection: %w", err))
	}
	o.Injection = injection
	for _, tool := range f.compat {
		switch tool {
		case "reloader":
			o.Compat.Reloader = true
		case "wave":
			o.Compat.Wave = true
		default:
			problems = append(problems, fmt.Errorf("--compat=%s: want reloader, wave or both", tool))
		}
	}
	if o.Rotating, err = optin.ParseRotating(f.rotate); err != nil {
		problems = append(problems, fmt.Errorf("--rotate: %w", err))
	}
	if o.Safety, err = optin.ParseSafety(f.safety, "chart value safety"); err != nil {
		problems = append(problems, fmt.Errorf("--default-safety: %w", err))
	}
	if o.Stages, err = optin.ParseStages(f.stages); err != nil {
		problems = append(problems, fmt.Errorf("--stages: %w", err))
	}
	for _, text := range f.restartOn {
		o.RestartOn = append(o.RestartOn, schema.ParseGroupResource(text))
	}
	if f.config != "" {
		data, err := os.ReadFile(f.config)
		if err == nil {
			o.Kinds, err = workload.ParseConfig(data)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("--config=%s: %w", f.config, err))
		}
	}
	return errors.Join(problems...)
}

func addOptions(cmd *cobra.Command, o *Options) {
	set := cmd.Flags()
	set.DurationVar(&o.Settle, "settle", 2*time.Second,
		"how long a workload's sources must be quiet before a change to them rolls out, so that several changes are one rollout; "+
			"at most five times as long in all. The annotation confrev.io/settle overrides it")
	set.DurationVar(&o.Grace, "grace", 10*time.Minute, "how long a revision that nothing uses is kept before it is deleted; less than "+revision.PinWindow.String()+" is too short where writes may take that long")
	addSecrets(cmd, &o.Options)
	set.BoolVar(&o.FailFast, "fail-fast", false, "notice when pods of a workload crash that takes a change which spreads, instead of waiting for the workload's "+
		"deadline; it needs the right to list pods (chart value failFast.enabled)")
	set.BoolVar(&o.EvictStuckPods, "evict-stuck-pods", false, "after a StatefulSet was rolled back, evict its pods that are stuck on the faulty change; "+
		"needs --fail-fast and the right to evict pods (chart value failFast.evictStuckPods)")
	set.BoolVar(&o.Analysis, "analysis", false, "let AnalysisRuns of Argo Rollouts say whether a workload is well with a change that spreads (annotation "+
		"confrev.io/analysis); it needs rights on them (chart value analysis.enabled)")
	set.IntVar(&o.RevisionsPerHour, "revisions-per-hour", 60,
		"how often a source may get a new revision within an hour; beyond that its changes wait, since a controller seems to keep writing it")
	set.IntVar(&o.RolloutsPerHour, "rollouts-per-hour", 30,
		"how often changes to sources may roll out one workload within an hour; beyond that they wait, so that many busy sources do not "+
			"push every image out of the workload's history")
	set.IntVar(&o.Workers, "workers", 32, "how many workloads, and how many revisions, to work on at a time")
	set.StringVar(&o.Namespace, "namespace", os.Getenv("POD_NAMESPACE"),
		"confrev's own `namespace`: it keeps the lease there and touches nothing else in it")
	set.StringSliceVar(&o.WatchNamespaces, "watch-namespaces", nil,
		"the only `namespaces` to work in, without any right on what is in no namespace: no admission policies, webhooks and labels of namespaces; "+
			"needs --injection=template (default: all)")
	set.StringVar(&o.PolicyPrefix, "policy-prefix", "confrev",
		"what the `names` of the chart's admission policies and webhooks begin with; nothing is pinned unless they are in place")
	set.StringVar(&o.Webhook.Address, "webhook-bind-address", "0", "`address` to serve the admission webhooks on, such as :9443; 0 for none")
	set.StringSliceVar(&o.Webhook.DNSNames, "webhook-dns-names", nil,
		"`names`, or addresses, under which the API server reaches the webhooks (default: the Service of the chart)")
	set.StringVar(&o.Webhook.CertDir, "webhook-cert-dir", "",
		"`directory` with tls.crt and tls.key for the webhooks, read again when they change (default: confrev makes certificates itself)")
	set.StringVar(&o.Webhook.ClientCA, "webhook-client-ca-file", "",
		"`file` with the authority of the certificate that clients of the webhooks must show: for control planes whose API servers have one (default: anyone may ask)")
	set.BoolVar(&o.LeaderElect, "leader-elect", false, "let one of several replicas work at a time; the others wait")
	set.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8081", "`address` to serve /healthz and /readyz on; 0 for none")
	set.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "`address` to serve Prometheus metrics on; 0 for none")
	set.BoolVar(&o.MetricsSecure, "metrics-secure", false,
		"serve metrics over TLS, to clients whose token has the right to get /metrics; needs the rights to create token and subject access reviews")
	set.StringVar(&o.MetricsCertDir, "metrics-cert-dir", "",
		"`directory` with tls.crt and tls.key for --metrics-secure, read again when they change (default: confrev makes a certificate at each start)")
}

// plain writes the levels between debug and info, which logr's verbosity leads to, as debug. It leaves out the notes of events, and
// client-go's events that were refused: they may repeat what was written for confrev, and more people read the log than the events of a
// namespace (rule 19).
func plain(_ []string, a slog.Attr) slog.Attr {
	if a.Key == "note" || a.Key == "event" {
		return slog.Attr{}
	}
	if level, ok := a.Value.Any().(slog.Level); ok && a.Key == slog.LevelKey && level < slog.LevelInfo {
		a.Value = slog.StringValue(slog.LevelDebug.String())
	}
	return a
}

// load finds the cluster. Warnings of its API server are dropped: they may repeat values (rule 19), and would end up in the log.
func (f *flags) load() (*rest.Config, error) {
	config, err := f.find()
	if err != nil {
		return nil, err
	}
	config.WarningHandlerWithContext = rest.NoWarnings{}
	return config, nil
}

// find finds the cluster: by the flags, else the pod's own, else as kubectl does.
func (f *flags) find() (*rest.Config, error) {
	if f.kubeconfig == "" && f.context == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return config, nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find a cluster: %w; give --kubeconfig, or run in a cluster", err)
	}
	return config, nil
}

func newLogger(format, level string) (logr.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level=%s: want debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: least, ReplaceAttr: plain}
	switch strings.ToLower(format) {
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, options)), nil
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, options)), nil
	}
	return logr.Logger{}, fmt.Errorf("--log-format=%s: want text or json", format)
}

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
	// FailFast lets a crash in a pod stop a change that spreads (rule 41).
	FailFast bool
	// Analysis lets AnalysisRuns say whether a workload is well (rule 43).
	Analysis bool
	// EvictStuckPods ends pods of StatefulSets that are stuck on a change that was rolled back.
	EvictStuckPods bool
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

// Lease returns the name of the lease by which replicas agree on a leader. Releases that are limited to namespaces may share a namespace of
// their own, and each needs a leader.
func (o Options) Lease() string {
	if o.Namespaced() {
		return o.PolicyPrefix + "-namespaced"
	}
	return "confrev"
}

// leastGrace is the least time that revisions without users are kept.
const leastGrace = 5 * time.Second

// Validate reports what is wrong with the options, in the words of the command line's flags.
func (o Options) Validate() error {
	var problems []error
	require := func(right bool, format string, args ...any) {
		if !right {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	require(o.Settle >= 0, "--settle=%s: want 0 or more", o.Settle)
	require(o.Grace >= leastGrace, "--grace=%s: want %s or more", o.Grace, leastGrace)
	require(o.Workers >= 1, "--workers=%d: want 1 or more", o.Workers)
	require(o.RevisionsPerHour >= 1, "--revisions-per-hour=%d: want 1 or more", o.RevisionsPerHour)
	require(o.RolloutsPerHour >= 1, "--rollouts-per-hour=%d: want 1 or more", o.RolloutsPerHour)
	require(o.FailFast || !o.EvictStuckPods, "--evict-stuck-pods needs --fail-fast, which looks at pods")
	require(!o.LeaderElect || o.Namespace != "", "--leader-elect needs --namespace, where the lease is kept")
	require(!o.Webhook.Serves() || o.Namespace != "",
		"--webhook-bind-address needs --namespace, where the Secret of the webhooks is kept; 0 serves no webhooks")
	require(o.MetricsCertDir == "" || o.MetricsSecure, "--metrics-cert-dir is for --metrics-secure")
	if o.Namespaced() {
		problems = append(problems, o.validateNamespaces())
	}
	return errors.Join(append(problems, o.Webhook.Validate(), o.validateRestartOn())...)
}

// validateNamespaces refuses what takes more than rights in single namespaces.
func (o Options) validateNamespaces() error {
	for _, namespace := range o.WatchNamespaces {
		if len(validation.IsDNS1123Label(namespace)) > 0 || namespace == metav1.NamespaceSystem {
			return fmt.Errorf("--watch-namespaces=%s: want names of namespaces, and none of %s", strings.Join(o.WatchNamespaces, ","), metav1.NamespaceSystem)
		}
	}
	const none = "--watch-namespaces goes without rights in the whole cluster, so "
	switch {
	case o.Injection != optin.Template:
		return errors.New(none + "nothing resolves pins when pods are created: it needs --injection=template")
	case o.Webhook.Serves():
		return errors.New(none + "no webhook calls confrev: it needs --webhook-bind-address=0")
	case len(o.Stages) > 0:
		return errors.New(none + "confrev cannot read what namespaces say: it has no --stages")
	case o.MetricsSecure:
		return errors.New(none + "confrev cannot ask who reads the metrics: it has no --metrics-secure")
	}
	return nil
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
