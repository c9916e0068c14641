// Package render does to manifests, before they are applied, what the controller does in a cluster: each ConfigMap and Secret
// that a workload of the stream refers to gets an immutable copy, whose name follows from its content like a revision's, and the
// workload refers to that copy.
//
// It is pure: text in, text out. What it does not change stays as it is, byte for byte.
package render

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
)

// Mode is what is done to workloads.
type Mode string

// The modes.
const (
	// Revision adds revisions to the stream, and makes workloads refer to them. It is the default.
	Revision Mode = "revision"
	// Checksum adds nothing to the stream. It writes a hash of the content that a template uses to the template, so that a change
	// is a rollout.
	Checksum Mode = "checksum"
)

// ParseMode reads the name of a mode.
func ParseMode(text string) (Mode, error) {
	switch mode := Mode(text); mode {
	case Revision, Checksum:
		return mode, nil
	}
	return "", fmt.Errorf("%q is not a mode: want %s or %s", text, Revision, Checksum)
}

// Options are the options of a rendering. The zero Options are valid.
type Options struct {
	Mode Mode
	// Namespace is the namespace of objects that name none.
	Namespace string
	// Kinds are kinds of workloads in addition to those that confrev knows.
	Kinds []workload.Kind
	// References are fields of other objects that name sources.
	References []Reference
	// Keep are tools that must not delete a revision when it is no longer in the manifests.
	Keep []Tool
}

// Made is a revision that is in the stream after rendering.
type Made struct {
	Source    pin.Source
	Namespace string
	Revision  string
}

// Output is the result of a rendering.
type Output struct {
	Text []byte
	// Revisions are in the order in which they were needed.
	Revisions []Made
	// Warnings are for the user, for example about annotations that confrev does not understand.
	Warnings []string
}

type renderer struct {
	Options
	documents []*document
	objects   []*object
	sources   map[place]*source
	// named are the sources that some object defines together with a namespace.
	named     map[pin.Source]bool
	kinds     map[schema.GroupKind]workload.Kind
	revisions []*revision
	warnings  []warning
}

type warning struct {
	object *object
	note   string
}

// Render renders files as one stream. If the stream is a single ResourceList, it is rendered as a function of kustomize or kpt
// does: its items, with the options of its functionConfig before those given. An error names the file and the line. In case of an
// error, only the Text of the Output may be written, which is the function's response.
func Render(files []File, options Options) (Output, error) {
	r := &renderer{Options: options}
	for _, file := range files {
		documents, err := parse(file)
		if err != nil {
			return Output{}, err
		}
		r.documents = append(r.documents, documents...)
	}
	list := resourceList(r.documents)
	if err := r.render(list); err != nil {
		return Output{Text: failureList(list, err)}, err
	}
	report(list, r.results())
	return r.output()
}

func (r *renderer) render(list *document) error {
	if err := r.configure(list); err != nil {
		return err
	}
	r.kinds = map[schema.GroupKind]workload.Kind{}
	for _, kind := range slices.Concat(workload.Standard(), []workload.Kind{workload.StandAloneJob}, r.Kinds) {
		r.kinds[kind.GVK.GroupKind()] = kind
	}
	for _, d := range r.documents {
		r.objects = append(r.objects, d.objects(r.Namespace)...)
	}
	r.sources, r.named = index(r.objects), map[pin.Source]bool{}
	for at := range r.sources {
		r.named[at.Source] = r.named[at.Source] || at.namespace != ""
	}
	for _, o := range r.objects {
		if err := r.rewriteReferences(o); err != nil {
			return err
		}
	}
	for _, revision := range r.revisions {
		revision.write(r.Keep)
	}
	return nil
}

// rewriteReferences makes an object refer to revisions.
func (r *renderer) rewriteReferences(o *object) error {
	if kind, is := r.kinds[o.gvk.GroupKind()]; is {
		if err := r.workload(o, kind); err != nil {
			return err
		}
	}
	if r.Mode == Checksum {
		return nil
	}
	return r.references(o)
}

func (r *renderer) warn(o *object, note string) {
	if warning := (warning{o, note}); !slices.Contains(r.warnings, warning) {
		r.warnings = append(r.warnings, warning)
	}
}

func (r *renderer) output() (Output, error) {
	out := Output{Revisions: r.made()}
	for _, warning := range r.warnings {
		out.Warnings = append(out.Warnings, warning.object.errorf("%s", warning.note).Error())
	}
	// From here on only the documents are needed. What was parsed from them may be many times as large as their text.
	*r = renderer{documents: r.documents}
	for _, d := range r.documents {
		d.json, d.value = nil, nil
	}
	var err error
	out.Text, err = write(r.documents)
	return out, err
}

func (r *renderer) made() []Made {
	var made []Made
	for _, revision := range r.revisions {
		made = append(made, Made{pin.Source{Kind: revision.source.Kind, Name: revision.original}, revision.source.namespace, revision.name})
	}
	return made
}

// Tool is a deploy tool that deletes what is no longer in the manifests.
type Tool string

// The tools.
const (
	Helm   Tool = "helm"
	ArgoCD Tool = "argocd"
	Flux   Tool = "flux"
)

// ParseTools reads the names of tools.
func ParseTools(names []string) ([]Tool, error) {
	var tools []Tool
	for _, name := range names {
		tool := Tool(name)
		if !slices.Contains([]Tool{Helm, ArgoCD, Flux}, tool) {
			return nil, fmt.Errorf("%q is not a tool that confrev knows: want %s, %s or %s", name, Helm, ArgoCD, Flux)
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

// keep annotates an object so that the tool does not delete it when it is no longer in the manifests, and does not report that as
// a difference.
func (t Tool) keep(o *object) {
	switch t {
	case Helm:
		o.annotate(o.node, "helm.sh/resource-policy", "keep")
	case ArgoCD:
		o.annotateItem("argocd.argoproj.io/sync-options", "Prune=false")
		o.annotateItem("argocd.argoproj.io/compare-options", "IgnoreExtraneous")
	case Flux:
		o.annotate(o.node, "kustomize.toolkit.fluxcd.io/prune", "disabled")
	}
}

// annotateItem adds an item to an annotation that is a list.
func (o *object) annotateItem(key, item string) {
	var items []string
	if list := text(o.node, "metadata", "annotations", key); list != "" {
		items = strings.Split(list, ",")
	}
	if !slices.Contains(items, item) {
		o.annotate(o.node, key, strings.Join(append(items, item), ","))
	}
}
