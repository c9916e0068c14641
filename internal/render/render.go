// Package render does to manifests, before they are applied, what the controller does in a cluster: each ConfigMap and
// Secret that a workload of the stream refers to gets an immutable copy, named by its content as the controller names
// revisions, and the workload refers to that.
//
// It is pure: text in, text out. What it does not change it gives back byte by byte.
package render

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
)

// Mode is what is done to workloads.
type Mode string

// The modes.
const (
	// Revision makes revisions, and refers to them. It is the default.
	Revision Mode = "revision"
	// Checksum makes nothing. It stamps the content that a template uses on it, so that a change is a rollout.
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

// Options say what to do. The zero Options will do.
type Options struct {
	Mode Mode
	// Namespace is that of objects that name none.
	Namespace string
	// Kinds are workloads beside those that confrev knows.
	Kinds []workload.Kind
	// References are fields of other objects that name sources.
	References []Reference
	// Keep are tools that must not delete a revision when it is no longer in the manifests.
	Keep []Tool
}

// Made is a revision that is in the stream now.
type Made struct {
	Source    pin.Source
	Namespace string
	Revision  string
}

// Output is what came of it.
type Output struct {
	Text []byte
	// Revisions are in the order in which they were needed.
	Revisions []Made
	// Warnings are for the user: annotations that say nothing that confrev understands, and the like.
	Warnings []string
}

// renderer is one rendering.
type renderer struct {
	Options
	documents []*document
	objects   []*object
	sources   map[place]*source
	// named are the sources that name their namespace.
	named     map[pin.Source]bool
	kinds     map[schema.GroupKind]workload.Kind
	revisions []*revision
	warnings  []warning
}

// warning is a note about an object.
type warning struct {
	object *object
	note   string
}

// Render renders files as one stream. A stream that is one ResourceList is rendered as a function of kustomize or kpt does
// it: its items, with the options of its functionConfig before those given. An error tells the file and the line. Nothing
// is to be written then but the Text of the Output, which is what a function has to say.
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
		return Output{Text: failed(list, err)}, err
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
		if err := r.refer(o); err != nil {
			return err
		}
	}
	for _, revision := range r.revisions {
		revision.write(r.Keep)
	}
	return nil
}

// refer lets an object refer to revisions.
func (r *renderer) refer(o *object) error {
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
	// Only the documents count from here. What was read of them may be many times as large as their text.
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
