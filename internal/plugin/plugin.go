// Package plugin has the plugin's commands, one file per verb.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/templates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-logr/logr"

	"confrev.io/confrev/internal/version"
	"confrev.io/confrev/internal/view"
)

// plugin is what all verbs share: kubectl's own flags of connection, and the streams.
type plugin struct {
	genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
	factory cmdutil.Factory
	// controllerNamespace is where the controller is; empty when it is to be found.
	controllerNamespace string
}

const pluginLong = `See and steer what confrev does: which configuration each workload is rolled out with, what changed, who uses it, and how to
go back. It needs your own rights only.`

// Command is kubectl-confrev.
func Command(streams genericiooptions.IOStreams) *cobra.Command {
	streams = screened(streams)
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithWarningPrinter(streams)
	p := &plugin{IOStreams: streams, flags: flags, factory: cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(flags))}
	cmd := &cobra.Command{
		Use:           "kubectl-confrev",
		Short:         "Roll configuration out, and back, like images",
		Long:          pluginLong,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl confrev"},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	flags.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().StringVar(&p.controllerNamespace, "controller-namespace", "",
		"Namespace of confrev's controller. Default: where a Deployment has its label, or "+view.ControllerNamespace+" without the right to list those of all namespaces")
	for _, group := range p.groups() {
		cmd.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, verb := range group.verbs {
			verb.GroupID = group.title
			cmd.AddCommand(verb)
		}
	}
	cmd.SetHelpCommandGroupID(otherVerbs)
	cmd.SetUsageTemplate(shortUsage.Replace(cmd.UsageTemplate()))
	// Its scripts complete kubectl-confrev. kubectl completes its plugins in a way of its own: docs/cli.md.
	cmd.CompletionOptions.HiddenDefaultCmd = true
	return cmd
}

// group is some verbs, as help and the reference show them together.
type group struct {
	title string
	verbs []*cobra.Command
}

const otherVerbs = "Other"

// groups are the verbs, one file each.
func (p *plugin) groups() []group {
	return []group{
		{"Look", []*cobra.Command{newStatus(p), newHistory(p), newUses(p), newDiff(p), newDoctor(p)}},
		{"Steer", []*cobra.Command{newUndo(p), newResume(p), newAdvance(p), newTrack(p), newUntrack(p)}},
		{"Sources and volumes", []*cobra.Command{newCreate(p), newSet(p)}},
		{"Pipelines", []*cobra.Command{newPreview(p), newRender(p.IOStreams), newAttach(p)}},
		{otherVerbs, []*cobra.Command{newOptions(p), newPluginVersion(p)}},
	}
}

// Run runs the plugin and gives its exit status: 0 for success, 1 for an error, and what a verb says of its own.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	// The library of the controller would complain that nobody reads its log, and client-go logs what is an error anyway.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	streams = screened(streams)
	cmd := Command(streams)
	cmd.SetArgs(spelledOut(args, cmd.PersistentFlags()))
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[exitStatus](err); ok && status.err == nil {
		return status.status
	}
	_, _ = fmt.Fprintln(streams.ErrOut, "error:", explain(err))
	if status, ok := errors.AsType[exitStatus](err); ok {
		return status.status
	}
	return 1
}

// exitStatus ends the plugin with a status of its own; without an error it prints nothing.
type exitStatus struct {
	status int
	err    error
}

func (e exitStatus) Error() string { return fmt.Sprint(e.err) }
func (e exitStatus) Unwrap() error { return e.err }

// explain gives an error as one line that says what to do next.
func explain(err error) string {
	text := oneLine(strings.TrimSpace(err.Error()))
	var unreachable *net.OpError
	var request *url.Error
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.As(err, &unreachable) || errors.As(err, &request):
		return fmt.Sprintf("cannot reach the API server: %s; check --context, --kubeconfig and the network", text)
	case apierrors.IsUnauthorized(err):
		return text + "; log in again"
	}
	return text
}

// connection is the cluster that the flags choose.
type connection struct {
	client.WithWatch
	config *rest.Config
	// namespace is the one of the flags, or of the context.
	namespace string
}

// connect finds the cluster. It talks to nobody yet.
func (p *plugin) connect() (*connection, error) {
	config, err := p.factory.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.UserAgent = "kubectl-confrev/" + version.String()
	namespace, _, err := p.factory.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	mapper, err := p.factory.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	return &connection{WithWatch: c, config: config, namespace: namespace}, nil
}

// namespace is the one of the flags, or of the context.
func (p *plugin) namespace() string {
	namespace, _, _ := p.factory.ToRawKubeConfigLoader().Namespace()
	return namespace
}

// look looks at the namespace of the flags, or at all.
func (p *plugin) look(ctx context.Context, all bool) (*view.View, error) {
	c, err := p.connect()
	if err != nil {
		return nil, err
	}
	installed, err := view.FindInstallation(ctx, c, p.controllerNamespace)
	if err != nil {
		return nil, err
	}
	if all {
		return view.Take(ctx, c, installed, "")
	}
	return view.Take(ctx, c, installed, c.namespace)
}

// addAll adds kubectl's flag for all namespaces.
func addAll(cmd *cobra.Command, all *bool) {
	cmd.Flags().BoolVarP(all, "all-namespaces", "A", false, "Look at all namespaces, whatever --namespace says.")
}

// examples gives the examples of a verb as cobra wants them.
func examples(text string) string { return templates.Examples(text) }
