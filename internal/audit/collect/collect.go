// Package collect asks the API server for what an audit needs, with the rights of the user who asks, and audits it. It only gets and
// lists.
package collect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/audit"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/snapshot"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/internal/workload"
)

// Audit is what `audit` prints as JSON and YAML.
type Audit struct {
	metav1.TypeMeta `json:",inline"`
	audit.Report    `json:",inline"`
	// Notes say what the user may not see, so that it was not judged.
	Notes []string `json:"notes,omitempty"`
}

// Options are the options of an audit.
type Options struct {
	// Namespace is empty for all.
	Namespace string
	// Kinds are the kinds of workloads.
	Kinds []workload.Kind
	// Controller is the namespace of confrev's controller.
	Controller string
	// Margin is how long after a change a container may still have read the old content.
	Margin time.Duration
	// Progress is called after each object that was read, with its kind in the plural and how many of it were read. It may be called by
	// several goroutines.
	Progress func(kind string, n int)
}

// Run audits a namespace, or all. It only lists, and of ConfigMaps and Secrets only metadata (rule 24).
func Run(ctx context.Context, c client.Client, options Options) (*Audit, error) {
	l := &lists{Reader: c, Options: options, namespaces: map[string]client.Object{}, refused: map[schema.GroupVersionKind]error{},
		Snapshot: audit.Snapshot{
			Margin: options.Margin, Hidden: map[pin.Kind]bool{}, LeftAlone: []string{metav1.NamespaceSystem, options.Controller}}}
	if err := l.read(ctx); err != nil {
		return nil, err
	}
	if err := l.blind(); err != nil {
		return nil, err
	}
	notes := l.hide()
	l.workloads()
	return &Audit{TypeMeta: metav1.TypeMeta{APIVersion: view.APIVersion, Kind: "Audit"}, Report: audit.Run(l.Snapshot), Notes: notes}, nil
}

// blind returns an error if the user may see nothing that is worth an audit.
func (l *lists) blind() error {
	err := l.refused[snapshot.Pod]
	if err != nil && l.Namespace == "" {
		return fmt.Errorf("you may not list pods in all namespaces; audit one namespace instead, with -n NAMESPACE: %w", err)
	}
	if !slices.ContainsFunc(l.Kinds, func(kind workload.Kind) bool { return l.refused[kind.GVK] == nil }) {
		return l.refused[workload.Deployment.GVK]
	}
	return nil
}

// hide notes for the audit what the user may not see, and returns it as text.
func (l *lists) hide() []string {
	var notes []string
	for gvk := range l.refused {
		kind := plural(gvk)
		meaning := ": an object that nothing seems to use may be used by one of them"
		switch source, isSource := sourceKind(gvk); {
		case isSource:
			l.Hidden[source] = true
			meaning = ": whether pods have their present content is not known"
		case gvk == snapshot.Pod:
			l.PodsHidden = true
			meaning = ": they are neither judged nor counted"
		case gvk == namespaceKind:
			meaning = ": their labels and annotations are not considered"
		default:
			if slices.ContainsFunc(l.Kinds, func(k workload.Kind) bool { return k.GVK == gvk }) {
				meaning = ": they are left out"
			} else if slices.ContainsFunc(l.Kinds, func(k workload.Kind) bool { return k.Holder.GVK == gvk }) {
				meaning = ": pods are reported without their workloads, and an object that nothing seems to use may be used by one of them"
			}
			l.HiddenUsers = append(l.HiddenUsers, kind)
		}
		notes = append(notes, "you may not list "+kind+meaning)
	}
	slices.Sort(notes)
	slices.Sort(l.HiddenUsers)
	return notes
}

func plural(gvk schema.GroupVersionKind) string {
	if name := strings.ToLower(gvk.Kind); strings.HasSuffix(name, "s") {
		return name + "es"
	}
	return strings.ToLower(gvk.Kind) + "s"
}

func sourceKind(gvk schema.GroupVersionKind) (pin.Kind, bool) {
	i := slices.IndexFunc(pin.Kinds, func(kind pin.Kind) bool { return revision.GVK(kind) == gvk })
	if i < 0 {
		return "", false
	}
	return pin.Kinds[i], true
}

// workloads hands the workloads over, each with its template, which may be that of another.
func (l *lists) workloads() {
	type named struct {
		schema.GroupKind
		namespace, name string
	}
	byName := map[named]foundWorkload{}
	for _, f := range l.found {
		byName[named{f.kind.GVK.GroupKind(), f.obj.GetNamespace(), f.obj.GetName()}] = f
	}
	lends, borrows := map[client.Object]bool{}, map[client.Object]foundWorkload{}
	for _, f := range l.found {
		if kind, name, refers := f.kind.WorkloadRef(f.obj); refers {
			if lender, seen := byName[named{kind, f.obj.GetNamespace(), name}]; seen {
				borrows[f.obj], lends[lender.obj] = lender, true
			}
		}
	}
	for _, f := range l.found {
		from, lent := f, types.UID("")
		if lender, does := borrows[f.obj]; does {
			from, lent = lender, lender.obj.GetUID()
		}
		w := audit.Workload{Kind: f.kind, Namespace: f.obj.GetNamespace(), Name: f.obj.GetName(), UID: f.obj.GetUID(), Created: f.obj.GetCreationTimestamp().Time,
			Annotations: optin.Merge(from.obj.GetAnnotations(), f.obj.GetAnnotations()), Lender: lent, LendsTemplate: lends[f.obj]}
		// What cannot be read has no template that names anything.
		if template, err := from.kind.Template(from.obj); err == nil {
			w.Template = template
		}
		namespace := l.namespaces[w.Namespace]
		if namespace == nil {
			namespace = index.Namespace()
		}
		asks := from.obj
		if asks != f.obj {
			// Reloader and Wave look at the object that refers to the template.
			asks = asks.DeepCopyObject().(client.Object)
			asks.SetAnnotations(w.Annotations)
		}
		w.Config = from.kind.Config(asks, namespace, optin.Defaults{Compat: optin.Compat{Reloader: true, Wave: true}})
		l.Workloads = append(l.Workloads, w)
	}
}

// foundWorkload is a workload of some kind.
type foundWorkload struct {
	kind workload.Kind
	obj  client.Object
}

// holderOf returns what an audit needs of a holder.
func holderOf(kind workload.HolderKind, obj client.Object) audit.Holder {
	h := audit.Holder{Namespace: obj.GetNamespace(), UID: obj.GetUID()}
	if owner := metav1.GetControllerOf(obj); owner != nil {
		h.Controller = owner.UID
	}
	// ControllerRevisions of unknown kinds may record anything.
	if template, err := kind.Template(obj); err == nil {
		h.Names = podspec.Named(&template.Spec)
	}
	return h
}
