// Package cli has the commands, one file per verb.
package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"confrev.io/confrev/internal/controller"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/workload"
)

// controllerFlags are the flags of the controller that are not its options.
type controllerFlags struct {
	kubeconfig string
	context    string
	logFormat  string
	logLevel   string
	config     string
	injection  string
	compat     []string
	restartOn  []string
}

const controllerLong = `confrev makes a configuration change roll out, and roll back, exactly like an image change.

It watches workloads with the annotation confrev.io/track (Deployments, StatefulSets, DaemonSets, CronJobs, Argo
Rollouts and configured kinds) and the ConfigMaps and Secrets that they use. When one of those changes, it copies the
content into an immutable revision and pins the revision in the workload's pod template, which is one ordinary rollout.
It runs in the cluster; charts/confrev installs it.`

const controllerExample = `  # In a cluster, as the chart runs it
  confrev --leader-elect --namespace=confrev-system

  # On your machine, against the cluster of your kubeconfig
  confrev --kubeconfig=$HOME/.kube/config --log-format=text`

// Controller is the command that runs the controller until its context ends.
func Controller() *cobra.Command {
	var flags controllerFlags
	var options controller.Options
	cmd := &cobra.Command{
		Use:           "confrev",
		Short:         "Roll configuration out, and back, like images",
		Long:          controllerLong,
		Example:       controllerExample,
		Version:       version(),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(flags.complete(&options), options.Validate()); err != nil {
				return err
			}
			logger, err := newLogger(flags.logFormat, flags.logLevel)
			if err != nil {
				return err
			}
			ctrl.SetLogger(logger)
			klog.SetLogger(logger)
			config, err := flags.load()
			if err != nil {
				return err
			}
			config.UserAgent = "confrev/" + version()
			return controller.Run(cmd.Context(), config, options)
		},
	}
	flags.add(cmd)
	addOptions(cmd, &options)
	return cmd
}

func (f *controllerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `file` to use (default: the pod's service account in a cluster, else as kubectl does)")
	flags.StringVar(&f.context, "context", "", "`name` of the kubeconfig's context to use")
	flags.StringVar(&f.config, "config", "", "`file` (YAML) that describes further kinds of workloads")
	flags.StringVar(&f.injection, "injection", string(optin.Admission),
		"`where` pins are applied, unless the annotation confrev.io/injection of a workload says otherwise: admission or template")
	flags.StringSliceVar(&f.compat, "compat", nil, "`tools` whose annotations opt workloads in too, in mode restart: reloader, wave")
	flags.StringSliceVar(&f.restartOn, "restart-on", nil,
		"`resources` that the annotation confrev.io/restart-on may name, other than ConfigMaps and Secrets, such as certificates.cert-manager.io; "+
			"it needs the rights on them (chart value restartOn)")
	flags.StringVar(&f.logFormat, "log-format", "text", "`form` of the log: text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "least `level` to log: debug, info, warn or error")
}

// complete reads the flags that stand for more than a value.
func (f *controllerFlags) complete(o *controller.Options) error {
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

func addOptions(cmd *cobra.Command, o *controller.Options) {
	flags := cmd.Flags()
	flags.DurationVar(&o.Settle, "settle", 2*time.Second,
		"how long a workload's sources must be quiet before a change of them rolls out, so that several changes are one rollout; "+
			"at most five times as long in all. The annotation confrev.io/settle overrides it")
	flags.DurationVar(&o.Grace, "grace", 10*time.Minute, "how long a revision that nothing uses is kept before it is deleted")
	flags.BoolVar(&o.Secrets, "secrets", false, "handle Secrets too; it needs the rights on them (chart value secrets.enabled)")
	flags.IntVar(&o.RevisionsPerHour, "revisions-per-hour", 60,
		"how often a source may get a new revision within an hour; beyond that its changes wait, since a controller seems to keep writing it")
	flags.IntVar(&o.RolloutsPerHour, "rollouts-per-hour", 30,
		"how often changes of sources may roll out one workload within an hour; beyond that they wait, so that many busy sources do not "+
			"push every image out of the workload's history")
	flags.IntVar(&o.Workers, "workers", 8, "how many workloads, and how many revisions, to work on at a time")
	flags.StringVar(&o.Namespace, "namespace", os.Getenv("POD_NAMESPACE"),
		"confrev's own `namespace`: it keeps the lease there and touches nothing else in it")
	flags.StringVar(&o.PolicyPrefix, "policy-prefix", "confrev",
		"what the `names` of the chart's admission policies and webhooks begin with; nothing is pinned unless they are in place")
	flags.StringVar(&o.WebhookAddress, "webhook-bind-address", "0", "`address` to serve the admission webhooks on, such as :9443; 0 for none")
	flags.StringSliceVar(&o.WebhookNames, "webhook-dns-names", nil,
		"`names` under which the API server reaches the webhooks (default: the Service of the chart)")
	flags.StringVar(&o.WebhookCertDir, "webhook-cert-dir", "",
		"`directory` with tls.crt and tls.key for the webhooks, read again when they change (default: confrev makes certificates itself)")
	flags.BoolVar(&o.LeaderElect, "leader-elect", false, "let one of several replicas work at a time; the others wait")
	flags.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8081", "`address` to serve /healthz and /readyz on; 0 for none")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8080", "`address` to serve Prometheus metrics on; 0 for none")
}

// plainLevels writes the levels between debug and info, which logr's verbosity leads to, as debug.
func plainLevels(_ []string, a slog.Attr) slog.Attr {
	if level, ok := a.Value.Any().(slog.Level); ok && a.Key == slog.LevelKey && level < slog.LevelInfo {
		a.Value = slog.StringValue(slog.LevelDebug.String())
	}
	return a
}

// load finds the cluster: by the flags, else the pod's own, else as kubectl does.
func (f *controllerFlags) load() (*rest.Config, error) {
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
	options := &slog.HandlerOptions{Level: least, ReplaceAttr: plainLevels}
	switch strings.ToLower(format) {
	case "text":
		return logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, options)), nil
	case "json":
		return logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, options)), nil
	}
	return logr.Logger{}, fmt.Errorf("--log-format=%s: want text or json", format)
}
