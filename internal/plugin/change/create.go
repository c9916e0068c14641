package change

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubectl/pkg/cmd/create"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/revision"
)

const createOwnerLong = `

With --owner, the workload owns what is created, and its annotation confrev.io/track lists it: changes to it roll the workload out,
and deleting the workload deletes it too. To track it without an owner, leave --owner out and use: kubectl confrev track WORKLOAD
SOURCE.`

const createConfigMapExample = `# A ConfigMap from a file, whose changes roll deployment/web out
kubectl confrev create configmap app-files --from-file=config.yml --owner=deployment/web

# See it first
kubectl confrev create configmap app-values --from-literal=level=debug --owner=deployment/web --dry-run=client -o yaml`

const createSecretExample = `# A Secret whose changes roll deployment/web out
kubectl confrev create secret generic db --from-literal=user=app --owner=deployment/web`

// NewCreate groups kubectl's own commands that create sources, with an additional flag for the owner.
func NewCreate(p *session.Session) *cobra.Command {
	help := func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd := &cobra.Command{
		Use: "create SUBCOMMAND", Short: "Create a ConfigMap or Secret, owned by a workload", Args: cobra.NoArgs, RunE: help,
		Example: session.Examples(`kubectl confrev create configmap app --from-literal=level=info --owner=deployment/web`),
	}
	secret := &cobra.Command{
		Use: "secret SUBCOMMAND", Short: "Create a Secret, owned by a workload", Args: cobra.NoArgs, RunE: help,
		Example: session.Examples(createSecretExample),
	}
	secret.AddCommand(newCreateSecret(p))
	cmd.AddCommand(newCreateConfigMap(p), secret)
	return cmd
}

func newCreateConfigMap(p *session.Session) *cobra.Command {
	cmd := create.NewCmdCreateConfigMap(p.Factory, p.IOStreams)
	return newOwnable(p, cmd, createConfigMapExample, func(made func(runtime.Object) error) (kubectlOptions, func()) {
		o := create.NewConfigMapOptions(p.IOStreams)
		readContentFlags(cmd, &o.FileSources, &o.LiteralSources, &o.EnvFileSources, &o.AppendHash)
		return o, func() { o.PrintObj, o.DryRunStrategy = made, cmdutil.DryRunClient }
	})
}

func newCreateSecret(p *session.Session) *cobra.Command {
	cmd := create.NewCmdCreateSecretGeneric(p.Factory, p.IOStreams)
	return newOwnable(p, cmd, createSecretExample, func(made func(runtime.Object) error) (kubectlOptions, func()) {
		o := create.NewSecretOptions(p.IOStreams)
		o.Type = cmdutil.GetFlagString(cmd, "type")
		readContentFlags(cmd, &o.FileSources, &o.LiteralSources, &o.EnvFileSources, &o.AppendHash)
		return o, func() { o.PrintObj, o.DryRunStrategy = made, cmdutil.DryRunClient }
	})
}

func readContentFlags(cmd *cobra.Command, files, literals, envFiles *[]string, appendHash *bool) {
	*files, *envFiles = cmdutil.GetFlagStringSlice(cmd, "from-file"), cmdutil.GetFlagStringSlice(cmd, "from-env-file")
	*literals, *appendHash = cmdutil.GetFlagStringArray(cmd, "from-literal"), cmdutil.GetFlagBool(cmd, "append-hash")
}

// kubectlOptions are those of one of kubectl's commands.
type kubectlOptions interface {
	Complete(f cmdutil.Factory, cmd *cobra.Command, args []string) error
	Validate() error
	Run() error
}

// ownable is one of kubectl's commands that create sources, with the flag --owner.
type ownable struct {
	*writing
	cmd        *cobra.Command
	args       []string
	owner      string
	validation string
	// options are kubectl's, from the command's other flags. After handOver, which follows their completion, they hand what they make to
	// made in place of creating it.
	options func(made func(runtime.Object) error) (o kubectlOptions, handOver func())
}

func newOwnable(p *session.Session, cmd *cobra.Command, example string, options func(func(runtime.Object) error) (kubectlOptions, func())) *cobra.Command {
	o := &ownable{writing: &writing{Session: p, fromInput: true}, cmd: cmd, options: options}
	cmd.Flags().StringVar(&o.owner, "owner", "", "The workload that owns what is created: TYPE/NAME.")
	_ = cmd.RegisterFlagCompletionFunc("owner", p.CompleteWorkload)
	cmd.Long, cmd.Example = cmd.Long+createOwnerLong, session.Examples(example)
	cmd.Run = nil
	return session.Command(cmd, o)
}

func (o *ownable) Fill(cmd *cobra.Command, args []string) (err error) {
	o.args, o.print, o.fieldManager = args, printFlagsOf(cmd, "created"), cmdutil.GetFlagString(cmd, "field-manager")
	if o.validation, err = cmdutil.GetValidationDirective(cmd); err != nil {
		return err
	}
	return o.complete(cmd)
}

// Run creates the object with its owner, and prints it as kubectl does.
func (o *ownable) Run(ctx context.Context) error {
	options, handOver := o.options(func(made runtime.Object) error { return o.createOwned(ctx, made.(client.Object)) })
	if err := options.Complete(o.Factory, o.cmd, o.args); err != nil {
		return err
	}
	handOver()
	if err := options.Validate(); err != nil {
		return err
	}
	return options.Run()
}

func (o *ownable) createOwned(ctx context.Context, obj client.Object) error {
	c, err := o.Connect()
	if err != nil {
		return err
	}
	obj.SetNamespace(c.Namespace)
	options := &client.CreateOptions{FieldManager: o.fieldManager, DryRun: o.serverDryRun(),
		Raw: &metav1.CreateOptions{FieldValidation: o.validation}}
	var notes []string
	if o.owner != "" {
		if notes, err = o.own(ctx, c, obj, o.owner, options); err != nil {
			return err
		}
	}
	if o.dryRun != cmdutil.DryRunClient {
		if err := c.Create(ctx, obj, options); err != nil {
			return err
		}
	}
	return o.printed(obj, notes...)
}

// own makes a workload the owner of an object that is about to be created, and lets the workload track it.
func (w *writing) own(ctx context.Context, c *session.Connection, obj client.Object, owner string, options *client.CreateOptions) ([]string, error) {
	found, err := w.FindNamed(ctx, c, owner)
	if err != nil {
		return nil, err
	}
	obj.SetOwnerReferences(append(obj.GetOwnerReferences(), ownerReference(found)))
	if w.dryRun == cmdutil.DryRunNone {
		// Nothing is to be written on the workload for an object that the API server refuses.
		trial := *options
		trial.DryRun = []string{metav1.DryRunAll}
		if err := c.Create(ctx, obj.DeepCopyObject().(client.Object), &trial); err != nil {
			return nil, err
		}
	}
	source := pin.Source{Kind: revision.ContentOf(obj).Kind, Name: obj.GetName()}
	tracked, err := w.trackOwned(ctx, c, owner, source)
	return append(tracked.notes, deletedWith(source, owner, obj.GetNamespace())), err
}

// printFlagsOf returns the flags for printing that one of kubectl's commands has got, with what they were set to.
func printFlagsOf(cmd *cobra.Command, done string) *genericclioptions.PrintFlags {
	flags := genericclioptions.NewPrintFlags(done).WithTypeSetter(clientgoscheme.Scheme)
	own := &cobra.Command{}
	flags.AddFlags(own)
	cmd.Flags().Visit(func(set *pflag.Flag) {
		if flag := own.Flags().Lookup(set.Name); flag != nil {
			_ = own.Flags().Set(set.Name, set.Value.String())
		}
	})
	return flags
}
