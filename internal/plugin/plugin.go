// Package plugin is the command kubectl confrev: it puts the verbs of its folders together, and runs one.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	ctrl "sigs.k8s.io/controller-runtime"

	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/plugin/change"
	"confrev.io/confrev/internal/plugin/inspect"
	"confrev.io/confrev/internal/plugin/pipeline"
	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/version"
)

const pluginLong = `Inspect and control rollouts with your own permissions: which configuration each workload is rolled out with, what changed, what
uses it, and how to roll back.`

// Command returns the command kubectl-confrev.
func Command(streams genericiooptions.IOStreams) *cobra.Command {
	cmd, _ := command(streams)
	return cmd
}

// command returns the command, and what its verbs share.
func command(streams genericiooptions.IOStreams) (*cobra.Command, *session.Session) {
	streams = printer.Screened(streams)
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithWarningPrinter(streams)
	p := &session.Session{IOStreams: streams, Factory: cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(flags))}
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
	cmd.PersistentFlags().StringVar(&p.ControllerNamespace, "controller-namespace", "",
		"Namespace of confrev's controller. If empty, that of the Deployment with its label, or "+installation.DefaultNamespace+" if you may not list Deployments in all namespaces.")
	completeConnection(cmd, p)
	for _, group := range groups(p) {
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
	return cmd, p
}

// completeConnection completes the flags that choose a cluster and a namespace, as kubectl does.
func completeConnection(cmd *cobra.Command, p *session.Session) {
	completion.SetFactoryForCompletion(p.Factory)
	// Not kubectl's ResourceNameCompletionFunc, which returns nothing behind an argument.
	namespaces := func(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		return completion.CompGetResource(p.Factory, "namespace", toComplete), cobra.ShellCompDirectiveNoFileComp
	}
	for flag, complete := range map[string]cobra.CompletionFunc{
		"namespace":            namespaces,
		"controller-namespace": namespaces,
		"context":              completion.ContextCompletionFunc,
		"cluster":              completion.ClusterCompletionFunc,
		"user":                 completion.UserCompletionFunc,
	} {
		// An error is a flag that does not exist, which TestCompletionOfConnectionFlags would find.
		_ = cmd.RegisterFlagCompletionFunc(flag, complete)
	}
}

// group is some verbs, as help and the reference show them together.
type group struct {
	title string
	verbs []*cobra.Command
}

const otherVerbs = "Other"

// groups returns the verbs, one file each.
func groups(p *session.Session) []group {
	return []group{
		{"Inspect", []*cobra.Command{inspect.NewStatus(p), inspect.NewHistory(p), inspect.NewUses(p), inspect.NewDiff(p), inspect.NewDoctor(p), inspect.NewAudit(p)}},
		{"Control", []*cobra.Command{change.NewUndo(p), change.NewResume(p), change.NewAdvance(p), change.NewStop(p), change.NewTrack(p), change.NewUntrack(p)}},
		{"Sources and volumes", []*cobra.Command{change.NewCreate(p), change.NewSet(p)}},
		{"Pipelines", []*cobra.Command{pipeline.NewPreview(p), pipeline.NewRender(p), pipeline.NewAttach(p)}},
		{otherVerbs, []*cobra.Command{
			newPrinting(p, "options", "List the flags of kubectl that all commands take", func(cmd *cobra.Command) string { return cmd.InheritedFlags().FlagUsages() }),
			newPrinting(p, "version", "Print the version of this plugin", func(*cobra.Command) string { return version.String() + "\n" }),
		}},
	}
}

// Run runs the plugin and returns its exit status: 0 for success, 1 for an error, and what a verb says of its own.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	// The library of the controller would complain that nothing reads its log, and client-go logs what is an error anyway.
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	streams = printer.Screened(streams)
	cmd, p := command(streams)
	cmd.SetArgs(spelledOut(cmd, args))
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	status := session.ExitStatus{Status: 1, Err: err}
	if errors.As(err, &status); status.Err != nil {
		_, _ = fmt.Fprintln(streams.ErrOut, "error:", explain(err, apiServer(p)))
	}
	return status.Status
}

// apiServer returns the host and port of the API server; empty if the flags lead to none.
func apiServer(p *session.Session) string {
	config, err := p.Factory.ToRESTConfig()
	if err != nil {
		return ""
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return ""
	}
	return server.Host
}

// explain returns an error as one line that says what to do next. server is the host and port of the API server.
func explain(err error, server string) string {
	text := printer.OneLine(strings.TrimSpace(err.Error()))
	var unreachable *net.OpError
	lost := errors.As(err, &unreachable)
	if request, ok := errors.AsType[*url.Error](err); ok {
		// A manifest may be read from a URL, and a login may be renewed elsewhere.
		asked, err := url.Parse(request.URL)
		lost = err == nil && asked.Host == server
	}
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case lost:
		return fmt.Sprintf("cannot reach the API server: %s; check --context, --kubeconfig and the network", text)
	case apierrors.IsUnauthorized(err):
		return text + "; log in again"
	}
	return text
}

// spelledOut turns configmap-attacher's flags with one dash into those with two, for the verb attach.
func spelledOut(cmd *cobra.Command, args []string) []string {
	spelled := slices.Clone(args)
	for i, arg := range spelled {
		name, isFlag := strings.CutPrefix(arg, "-")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && slices.Contains([]string{"rollout", "namespace", "configmaps"}, name) {
			spelled[i] = "-" + arg
		}
	}
	if found, _, _ := cmd.Find(spelled); found.Name() != "attach" {
		return args
	}
	return spelled
}

// shortUsage makes cobra's template for help leave out kubectl's flags of connection, as kubectl does: they are the same for
// all verbs, and more than most have of their own.
var shortUsage = strings.NewReplacer(
	".HasAvailableLocalFlags", ".LocalNonPersistentFlags.HasAvailableFlags",
	".LocalFlags.FlagUsages", ".LocalNonPersistentFlags.FlagUsages",
	"Global Flags:\n{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}",
	`"kubectl confrev options" lists the flags of kubectl that all commands take.`,
)

// newPrinting returns a command that prints a text, and asks nothing of a cluster.
func newPrinting(p *session.Session, name, short string, text func(*cobra.Command) string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Example: session.Examples("kubectl confrev " + name), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(p.Out, text(cmd))
			return err
		},
	}
}
