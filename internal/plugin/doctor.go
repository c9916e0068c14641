package plugin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const doctorLong = `Look at the installation and at a namespace, and say what is not right and how to mend it.

What you may not see is said, and not judged. Exit status: 0 when nothing is wrong, 3 when there is an error or a warning, 1 when
the command itself failed.`

const doctorExample = `
		# The installation, and the namespace of the context
		kubectl confrev doctor

		# The whole cluster, as JSON
		kubectl confrev doctor -A -o json`

// severity is how much a finding matters.
type severity string

const (
	// severityError: the promise is not kept, or nothing works.
	severityError severity = "Error"
	// severityWarning: somebody should act.
	severityWarning severity = "Warning"
	// severityInfo is no fault.
	severityInfo severity = "Info"
)

// Diagnosis is what `doctor` prints as JSON and YAML.
type Diagnosis struct {
	metav1.TypeMeta `json:",inline"`
	Versions        Versions  `json:"versions"`
	Findings        []Finding `json:"findings"`
	// Notes say what the user may not see, so that it was not judged.
	Notes []string `json:"notes,omitempty"`
}

// Versions are those of all that takes part; empty where the user may not see them.
type Versions struct {
	Server     string `json:"server"`
	Plugin     string `json:"plugin"`
	Controller string `json:"controller,omitempty"`
}

// Finding is one thing that is not right, or worth knowing.
type Finding struct {
	Severity severity `json:"severity"`
	// Reason is one word for scripts.
	Reason    string `json:"reason"`
	Namespace string `json:"namespace,omitempty"`
	// Object is as kubectl takes it: deployment/web.
	Object  string `json:"object"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`

	gvk  schema.GroupVersionKind
	name string
}

type doctorOptions struct {
	*plugin
	output
	all  bool
	long time.Duration
}

func newDoctor(p *plugin) *cobra.Command {
	o := &doctorOptions{plugin: p}
	cmd := &cobra.Command{
		Use:               "doctor",
		Short:             "Say what is not right, and how to mend it",
		Long:              doctorLong,
		Example:           examples(doctorExample),
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.add(cmd)
	addAll(cmd, &o.all)
	cmd.Flags().DurationVar(&o.long, "long", 24*time.Hour, "How long a hold or a pause may last before it is a warning.")
	return cmd
}

func (o *doctorOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	s, err := o.look(ctx, o.all)
	if err != nil {
		return err
	}
	d := &doctor{scope: s, long: o.long, now: time.Now()}
	for _, examine := range []func(context.Context) error{
		d.versionsOf, d.policies, d.guards, d.webhook, d.controller, d.rights, d.schemas, d.workloads, d.revisions, d.pods,
	} {
		if err := examine(ctx); err != nil {
			return err
		}
	}
	d.sort()
	d.Notes = d.notes
	o.printNotes(d.notes)
	if o.isTable() {
		err = d.print(o.Out)
	} else {
		err = o.print(o.Out, d, o.all)
	}
	if err == nil && d.faulty() {
		return exitStatus{status: statusNotYet}
	}
	return err
}

// doctor gathers what it finds.
type doctor struct {
	*scope
	Diagnosis
	long time.Duration
	now  time.Time
}

// find adds a finding about an object.
func (d *doctor) find(s severity, reason string, gvk schema.GroupVersionKind, obj client.ObjectKey, fix, format string, args ...any) {
	d.Findings = append(d.Findings, Finding{
		Severity: s, Reason: reason, Namespace: obj.Namespace, Object: resourceName(gvk.Kind, obj.Name),
		Message: fmt.Sprintf(format, args...), Fix: fix, gvk: gvk, name: obj.Name,
	})
}

// read reads an object; there is none when it is not there, or may not be seen, which is noted.
func (d *doctor) read(ctx context.Context, obj client.Object, namespace, name string) (found, seen bool, err error) {
	err = d.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, true, nil
	}
	seen, err = d.judged(err)
	return seen, seen, err
}

// judged tells whether something could be looked at. That the user may not is noted, and no error.
func (d *doctor) judged(err error) (bool, error) {
	if apierrors.IsForbidden(err) {
		d.note("not judged: %v", err)
		return false, nil
	}
	return err == nil, err
}

func (d *doctor) sort() {
	order := []severity{severityError, severityWarning, severityInfo}
	slices.SortStableFunc(d.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Object, b.Object))
	})
}

func (d *doctor) faulty() bool {
	return slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Severity != severityInfo })
}

// print prints for people.
func (d *doctor) print(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "server %s, plugin %s, controller %s\n", d.Versions.Server, d.Versions.Plugin, cmp.Or(d.Versions.Controller, "unknown"))
	for _, f := range d.Findings {
		where := f.Object
		if f.Namespace != "" {
			where += " in " + f.Namespace
		}
		fmt.Fprintf(&text, "\n%s: %s: %s\n", f.Severity, where, oneLine(f.Message))
		if f.Fix != "" {
			fmt.Fprintf(&text, "  fix: %s\n", oneLine(f.Fix))
		}
	}
	if !d.faulty() {
		text.WriteString("\nNothing is wrong, as far as you may see.\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func (d *doctor) object() any {
	d.TypeMeta = metav1.TypeMeta{APIVersion: outputVersion, Kind: "Diagnosis"}
	if d.Findings == nil {
		d.Findings = []Finding{}
	}
	return &d.Diagnosis
}

func (d *doctor) named() []runtime.Object {
	var all []runtime.Object
	for _, f := range d.Findings {
		about := &metav1.PartialObjectMetadata{}
		about.SetGroupVersionKind(f.gvk)
		about.Namespace, about.Name = f.Namespace, f.name
		all = append(all, about)
	}
	return all
}

// table is not used: a finding is more than a line.
func (d *doctor) table() *metav1.Table { return &metav1.Table{} }
