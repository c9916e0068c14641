// Package session is what all verbs of the plugin share: kubectl's flags and streams, the cluster that they lead to, one grammar
// of arguments, completion, and how a verb is run. It knows no verb.
package session

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/templates"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/version"
	"confrev.io/confrev/internal/view"
)

// Session is what all verbs share: the streams, and the cluster of kubectl's own flags of connection.
type Session struct {
	genericiooptions.IOStreams
	Factory cmdutil.Factory
	// ControllerNamespace is where the controller is; empty when it is to be found.
	ControllerNamespace string
}

// ExitStatus ends the plugin with a status of its own; without an error it prints nothing.
type ExitStatus struct {
	Status int
	Err    error
}

func (e ExitStatus) Error() string { return fmt.Sprint(e.Err) }
func (e ExitStatus) Unwrap() error { return e.Err }

// The exit statuses of a verb that answers a pipeline (--exit-code).
const (
	// StatusFound: there is what the verb looks for.
	StatusFound = 3
	// StatusUnknown: it may be there, but the user may not see everything.
	StatusUnknown = 4
)

// ExitCode returns how a verb ends that answers a pipeline: if it is asked to, and has found something or could not see everything.
func ExitCode(asked, found, unknown bool) error {
	switch {
	case asked && found:
		return ExitStatus{Status: StatusFound}
	case asked && unknown:
		return ExitStatus{Status: StatusUnknown}
	}
	return nil
}

// Connection is the cluster that the flags choose.
type Connection struct {
	client.WithWatch
	// Namespace is the one of the flags, or of the context.
	Namespace string
	// Enforced is true if a flag names the namespace, so that an object of another one is a mistake.
	Enforced bool
}

// Connect finds the cluster. It does not connect to it yet.
func (p *Session) Connect() (*Connection, error) {
	config, err := p.Factory.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.UserAgent = "kubectl-confrev/" + version.String()
	namespace, enforced, err := p.Factory.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	mapper, err := p.Factory.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	return &Connection{WithWatch: c, Namespace: namespace, Enforced: enforced}, nil
}

// Namespace returns the namespace of the flags or, without one, of the context.
func (p *Session) Namespace() string {
	namespace, _, _ := p.Factory.ToRawKubeConfigLoader().Namespace()
	return namespace
}

// ServerVersion returns the version of the API server.
func (p *Session) ServerVersion() (string, error) {
	discovery, err := p.Factory.ToDiscoveryClient()
	if err != nil {
		return "", err
	}
	version, err := discovery.ServerVersion()
	if err != nil {
		return "", err
	}
	return version.GitVersion, nil
}

// View returns what there is to see in the namespace of the flags, or in all of them.
func (p *Session) View(ctx context.Context, all bool) (*view.View, error) {
	c, err := p.Connect()
	if err != nil {
		return nil, err
	}
	namespace := c.Namespace
	if all {
		namespace = ""
	}
	installed, err := installation.Find(ctx, c, p.ControllerNamespace, namespace)
	if err != nil {
		return nil, err
	}
	return view.Take(ctx, c, installed, namespace)
}

// AddAll adds kubectl's flag for all namespaces.
func AddAll(cmd *cobra.Command, all *bool) {
	cmd.Flags().BoolVarP(all, "all-namespaces", "A", false, "If present, list the requested objects across all namespaces. --namespace is ignored.")
}

// Examples returns the Examples of a verb as cobra wants them.
func Examples(text string) string { return templates.Examples(text) }

// PrintNotes prints on standard error what a report does not show.
func (p *Session) PrintNotes(notes []string) {
	for _, note := range notes {
		_, _ = fmt.Fprintln(p.ErrOut, "note:", printer.OneLine(note))
	}
}

// Verb is a command of the plugin.
type Verb interface {
	// Fill reads the arguments and flags. It asks the API server for no more than the names of its resources.
	Fill(cmd *cobra.Command, args []string) error
	// Run does what they say.
	Run(ctx context.Context) error
}

// Command lets a command run a verb.
func Command(cmd *cobra.Command, verb Verb) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := verb.Fill(cmd, args); err != nil {
			return err
		}
		return verb.Run(cmd.Context())
	}
	return cmd
}

// Interruptible runs what no context ends, such as reading standard input, and leaves it behind when ctx ends.
func Interruptible(ctx context.Context, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
