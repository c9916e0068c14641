// Package pipeline has the verbs that pipelines run: preview, render and attach.
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/openapi3"
	kubectldiff "k8s.io/kubectl/pkg/cmd/diff"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/scheme"

	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/overlay"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/internal/workload"
)

const previewLong = `Show what applying ConfigMaps, Secrets and workloads would lead to, before it is done: which workloads would roll out, which would
not, and why. Nothing is written.

The API server is asked what it would make of each object (a dry run, as kubectl diff does it), and the answer is planned with as the
controller plans. Where a change spreads (confrev.io/steps), a note shows its waves, and how long it takes at least. If confrev's webhook
does not answer the dry run, a note says so: only the webhook tells an undo from a deploy within a request. It needs your rights to apply
the objects and to list workloads.

With -o markdown it prints a page for a comment on a pull request.

Exit status: 0 when the preview was made, 1 when it failed. With --exit-code: 3 when a workload would roll out, now or later, or would lack
a source or a key that it requires; 4 when there is none, but not everything could be looked at; 0 otherwise.`

const previewExample = `# What would a new configuration roll out?
kubectl confrev preview -f app.yaml

# The same for a whole folder, and from a pipe
kubectl confrev preview -f deploy/
cat app.yaml | kubectl confrev preview -f -

# In CI: the status reports whether anything would roll out, and the page is a comment for the pull request
kubectl confrev preview -f deploy/ --exit-code -o markdown > comment.md`

type previewOptions struct {
	*session.Session
	printer.Output
	files             resource.FilenameOptions
	serverSide, force bool
	exitCode          bool
	manager           string
}

// NewPreview returns the verb that shows what an edit would do.
func NewPreview(p *session.Session) *cobra.Command {
	o := &previewOptions{Session: p}
	o.Markdown = true
	cmd := &cobra.Command{
		Use: "preview -f FILENAME", Short: "Show what applying files would roll out",
		Long: previewLong, Example: session.Examples(previewExample), DisableFlagsInUseLine: true, Args: cobra.NoArgs,
	}
	cmdutil.AddFilenameOptionFlags(cmd, &o.files, "contains the ConfigMaps, Secrets and workloads to preview")
	cmdutil.AddServerSideApplyFlags(cmd)
	cmdutil.AddFieldManagerFlagVar(cmd, &o.manager, "kubectl-client-side-apply")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "Exit with status 3 if a workload would roll out or lack something, and with 4 if not everything could be looked at.")
	o.Add(cmd)
	return session.Command(cmd, o)
}

func (o *previewOptions) Fill(cmd *cobra.Command, _ []string) error {
	o.serverSide, o.force = cmdutil.GetServerSideApplyFlag(cmd), cmdutil.GetForceConflictsFlag(cmd)
	return errors.Join(o.files.RequireFilenameOrKustomize(), o.Check())
}

func (o *previewOptions) Run(ctx context.Context) error {
	c, err := o.Connect()
	if err != nil {
		return err
	}
	// Who reads files cannot tell a server that does not answer from a kind that it does not know.
	if _, err := o.ServerVersion(); err != nil {
		return err
	}
	installed, err := installation.Find(ctx, c, o.ControllerNamespace, c.Namespace)
	if err != nil {
		return err
	}
	var edits overlay.Edits
	var notes []string
	err = session.Interruptible(ctx, func() (err error) {
		edits, notes, err = o.read(c, installed)
		return err
	})
	if err != nil {
		return err
	}
	list, err := view.PreviewEdits(ctx, c, installed, edits)
	if err != nil {
		return err
	}
	list.Notes = append(list.Notes, notes...)
	return o.end(list)
}

// end prints a preview, and returns the exit status.
func (o *previewOptions) end(list *view.PreviewList) error {
	if err := o.show(list); err != nil {
		return err
	}
	return session.ExitCode(o.exitCode, list.Acts(), list.Partial())
}

func (o *previewOptions) show(list *view.PreviewList) error {
	if o.IsMarkdown() {
		_, err := io.WriteString(o.Out, previewPage(list))
		return err
	}
	o.PrintNotes(list.Notes)
	if o.IsTable() {
		for _, change := range list.Changes {
			o.PrintNotes([]string{changeText(change)})
		}
	}
	if len(list.Workloads) == 0 && o.IsTable() {
		_, err := fmt.Fprintln(o.Out, nothingUses)
		return err
	}
	return o.Print(o.Out, list, previewTable(list), true)
}

// read asks the API server what it would make of each object of the files. Notes say what is left out.
func (o *previewOptions) read(c *session.Connection, installed installation.Installation) (edits overlay.Edits, notes []string, err error) {
	openAPI, err := o.Factory.OpenAPIV3Client()
	if err != nil {
		return nil, nil, err
	}
	root := openapi3.NewRoot(openAPI)
	result := o.Factory.NewBuilder().Unstructured().NamespaceParam(c.Namespace).DefaultNamespace().
		FilenameParam(c.Enforced, &o.files).Flatten().Do()
	err = result.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		if !installed.Handles(info.Mapping.GroupVersionKind) {
			notes = append(notes, otherVersion(info, installed.Kinds())...)
			return nil
		}
		edit, err := o.dryRun(info, root, installed)
		if err != nil {
			return fmt.Errorf("%s: %w", info.ObjectName(), err)
		}
		edits = append(edits, edit)
		return nil
	})
	return edits, notes, err
}

// otherVersion returns the message that an object is left out because the controller handles its kind in another version: only the API server
// can convert between them.
func otherVersion(info *resource.Info, kinds []workload.Kind) []string {
	gvk := info.Mapping.GroupVersionKind
	for _, kind := range kinds {
		if kind.GVK.GroupKind() == gvk.GroupKind() {
			return []string{fmt.Sprintf("%s is left out: it is written as %s, and confrev handles %s", info.ObjectName(), gvk.GroupVersion(), kind.GVK.GroupVersion())}
		}
	}
	return nil
}

// dryRun lets the API server apply an object as kubectl diff does.
func (o *previewOptions) dryRun(info *resource.Info, root openapi3.Root, installed installation.Installation) (overlay.Edit, error) {
	gvk, local := info.Mapping.GroupVersionKind, info.Object.DeepCopyObject()
	var before runtime.Object
	switch err := info.Get(); {
	case apierrors.IsNotFound(err):
		info.Object = nil
	case err != nil:
		return overlay.Edit{}, err
	default:
		before = info.Object.DeepCopyObject()
	}
	after, err := kubectldiff.InfoObject{
		LocalObj: local, Info: info, Encoder: scheme.DefaultJSONEncoder(), OpenAPIGetter: o.Factory, OpenAPIV3Root: root,
		ServerSideApply: o.serverSide, FieldManager: o.manager, ForceConflicts: o.force, IOStreams: o.IOStreams,
	}.Merged()
	if err != nil {
		return overlay.Edit{}, withoutData(gvk, err)
	}
	return view.NewEdit(gvk, before, after, installed)
}

// withoutData leaves out of an error about a Secret what may quote its data: pipelines keep what they print. What only names
// objects and users stays.
func withoutData(gvk schema.GroupVersionKind, err error) error {
	plain := apierrors.IsForbidden(err) || apierrors.IsConflict(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
	if gvk.GroupKind() != revision.GVK(pin.Secret).GroupKind() || plain && !revision.ByAnother(err) {
		return err
	}
	return errors.New("it cannot be applied. The reason may quote its data: kubectl apply --dry-run=server says it")
}

// What is said of a preview and its workloads.
const (
	nothingUses     = "Nothing uses what is in the files."
	templateChanges = "its template changes"
	nothingChanges  = "neither its template nor what it uses changes"
)

// previewTable has a row for each workload, and one for each further reason.
func previewTable(list *view.PreviewList) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: printer.Columns([]string{"Workload", "Rolls Out", "Because"})}
	for _, w := range list.Workloads {
		rolls, reasons := cmp.Or(w.When, map[bool]string{true: "yes", false: "no"}[w.RollsOut]), reasonsOf(w)
		table.Rows = append(table.Rows, printer.Row(w.Metadata(), w.Workload, rolls, reasons[0]))
		for _, reason := range reasons[1:] {
			table.Rows = append(table.Rows, printer.Continued("", "", reason))
		}
	}
	return table
}

// changeText returns how a change would spread, in one line.
func changeText(c view.ChangePreview) string {
	var sizes []string
	for _, wave := range c.Waves {
		sizes = append(sizes, strconv.Itoa(len(wave.Members)))
	}
	text := fmt.Sprintf("the change to %s reaches %d workloads in %d waves (%s)", c.Source, c.Members, len(c.Waves), strings.Join(sizes, ", "))
	if c.MaxRolling > 0 {
		text += fmt.Sprintf(", at most %d at a time", c.MaxRolling)
	}
	if c.After != "" {
		text += fmt.Sprintf(", once namespace %s has vouched for it", c.After)
	}
	return text + ", and takes at least " + c.AtLeast
}

func reasonsOf(w view.Preview) []string {
	var reasons []string
	if w.Template {
		reasons = append(reasons, templateChanges)
	}
	for _, change := range w.Sources {
		reasons = append(reasons, printer.OneLine(change.Source+": "+change.Because))
	}
	if len(reasons) == 0 {
		return []string{nothingChanges}
	}
	return reasons
}
