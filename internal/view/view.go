// Package view answers questions about what confrev does, as data that marshals to JSON: which configuration each workload runs,
// what became of it before, who uses a source, what is wrong, and what an edit would lead to. The plugin prints it; a dashboard
// could serve it. It asks the API server with the rights of the user who asks, and writes nothing. It imports no cobra, no printers and
// nothing of kubectl.
package view

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/snapshot"
	"confrev.io/confrev/internal/workload"
)

// APIVersion is that of all data of this package. docs/cli.md describes the types; a field keeps its meaning within a version.
const APIVersion = "cli.confrev.io/v1alpha1"

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: APIVersion, Kind: kind}
}

// View is what one look at a namespace, or at all of them, shows.
type View struct {
	*Planner
	Installation installation.Installation
	// Notes say what is not shown, and why.
	Notes []string
	live  client.WithWatch
	// namespace is empty for all.
	namespace string
}

// Take takes a snapshot of a namespace, or of all when it is empty, with the pods in it.
func Take(ctx context.Context, live client.WithWatch, installed installation.Installation, namespace string) (*View, error) {
	v := &View{Installation: installed, live: live, namespace: namespace}
	return v, v.take(ctx)
}

// take takes the snapshot, again if there is one.
func (v *View) take(ctx context.Context) (err error) {
	if v.Planner, err = NewPlanner(ctx, v.live, v.Installation.Options, v.namespace); err != nil {
		return err
	}
	if err := v.Snapshot.TakePods(ctx); err != nil {
		return err
	}
	v.Notes = v.Installation.Notes()
	if v.Installation.Deployment == nil && !v.secretsHandled() {
		v.Options.Secrets = false
	}
	return v.noteLimits()
}

// Object names an object that the user asked about.
type Object struct {
	schema.GroupKind
	// Resource is the kind as messages of the API server have it: deployments.apps.
	Resource schema.GroupResource
	// Name is empty for all of the kind.
	Name string
}

// Source returns the source that it names, if it is one.
func (o Object) Source() (pin.Source, bool) {
	i := slices.IndexFunc(pin.Kinds, func(kind pin.Kind) bool { return revision.GVK(kind).GroupKind() == o.GroupKind })
	if i < 0 {
		return pin.Source{}, false
	}
	return pin.Source{Kind: pin.Kinds[i], Name: o.Name}, true
}

// findWorkload finds a workload by its name. One that refers to another for its pod template leads there.
func (v *View) findWorkload(o Object) (rollout.Assessment, error) {
	found, err := v.findNamed(o)
	if err != nil {
		return rollout.Assessment{}, err
	}
	named, name, refers := found.Kind.WorkloadRef(found.Workload)
	if !refers {
		return found, nil
	}
	// One step: references may go in a circle.
	resource := schema.GroupResource{Group: named.Group, Resource: strings.ToLower(named.Kind) + "s"}
	return v.findNamed(Object{GroupKind: named, Resource: resource, Name: name})
}

// findNamed finds the workload that has a name itself.
func (v *View) findNamed(o Object) (rollout.Assessment, error) {
	i := slices.IndexFunc(v.Kinds, func(k workload.Kind) bool { return k.GVK.GroupKind() == o.GroupKind })
	if i < 0 {
		return rollout.Assessment{}, fmt.Errorf("%s are not a kind of workload that confrev handles", o.Resource)
	}
	kind := v.Kinds[i]
	if err := v.Snapshot.Refused(kind.GVK); err != nil {
		return rollout.Assessment{}, err
	}
	obj := v.Workload(kind, client.ObjectKey{Namespace: v.namespace, Name: o.Name})
	if obj == nil {
		return rollout.Assessment{}, apierrors.NewNotFound(o.Resource, o.Name)
	}
	return rollout.Assessment{Kind: kind, Workload: obj}, nil
}

// note adds a note, once.
func (v *View) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(v.Notes, text) {
		v.Notes = append(v.Notes, text)
	}
}

// Assess plans for one workload of the snapshot. What the user may not see is a note, and no warning about the workload.
func (v *View) Assess(ctx context.Context, kind workload.Kind, obj client.Object) (rollout.Assessment, error) {
	look, err := v.Planner.Assess(ctx, kind, obj)
	look.Warnings = slices.DeleteFunc(look.Warnings, func(w notice.Notice) bool {
		if w.Reason == revision.KeyHidden {
			v.note("%s", w.Text)
		}
		return w.Reason == revision.KeyHidden
	})
	return look, err
}

// metadataOf returns the metadata of a source or revision, if it exists and may be seen.
func (v *View) metadataOf(namespace string, source pin.Source) (meta *metav1.PartialObjectMetadata, exists bool) {
	found, err := v.Snapshot.Indexed(revision.GVK(source.Kind), snapshot.ByName, namespace+"/"+source.Name)
	if err != nil || len(found) == 0 {
		return nil, false
	}
	return found[0].(*metav1.PartialObjectMetadata), true
}

func (v *View) seesPods() bool { return v.Snapshot.Refused(snapshot.Pod) == nil }

// secretsHandled reports whether there is a trace of the controller handling Secrets, for users who may not look at the
// controller: it leaves a revision, or a note on a template, of every Secret that it handles.
func (v *View) secretsHandled() bool {
	if slices.ContainsFunc(v.Snapshot.Sources(pin.Secret), revision.IsRevision) {
		return true
	}
	for _, look := range v.Workloads() {
		template, err := look.Kind.Template(look.Workload)
		if err == nil && strings.Contains(template.Annotations[keys.Pins]+template.Annotations[keys.Hashes], string(pin.Secret)+"/") {
			return true
		}
	}
	return false
}

// noteLimits notes where the controller does not work, and what the user may not see. With no kind of workloads to see, that is an error.
func (v *View) noteLimits() error {
	if elsewhere := v.Installation.Elsewhere(v.namespace); elsewhere != "" {
		v.note("%s", elsewhere)
	}
	if !slices.ContainsFunc(v.Kinds, func(kind workload.Kind) bool { return v.Snapshot.Refused(kind.GVK) == nil }) {
		return v.Snapshot.Refused(workload.Deployment.GVK)
	}
	for _, gvk := range v.Snapshot.RefusedKinds() {
		if gvk.Kind == "Namespace" && v.Options.Namespaced() {
			// The controller does not read them either.
			continue
		}
		v.note("you may not list %ss%s", strings.ToLower(gvk.Kind), v.meaning(gvk))
	}
	return nil
}

// meaning returns what it means that the user may not list a kind.
func (v *View) meaning(gvk schema.GroupVersionKind) string {
	switch gvk.Kind {
	case "Pod":
		return ": pods are not counted"
	case "Namespace":
		return ": the label " + keys.Track + " of namespaces is not considered"
	case "ConfigMap", "Secret":
		return ": what became of those is not known"
	}
	if slices.ContainsFunc(v.Kinds, func(kind workload.Kind) bool { return kind.GVK == gvk }) {
		return ": they are left out"
	}
	return ": a workload that was rolled back may look as if it were advancing"
}

// resourceName names an object as kubectl takes it: deployment/web.
func resourceName(kind, name string) string { return strings.ToLower(kind) + "/" + name }

// WorkloadRef names the workload that an entry is about.
type WorkloadRef struct {
	Namespace string `json:"namespace"`
	// Workload is as kubectl takes it: deployment/web.
	Workload string `json:"workload"`

	gvk schema.GroupVersionKind
}

func refOf(look rollout.Assessment) WorkloadRef {
	return WorkloadRef{Namespace: look.Workload.GetNamespace(), Workload: look.String(), gvk: look.Kind.GVK}
}

// Metadata returns the name of the workload as an object of its kind.
func (r WorkloadRef) Metadata() *metav1.PartialObjectMetadata {
	_, name, _ := strings.Cut(r.Workload, "/")
	return nameOnly(r.gvk, r.Namespace, name)
}

func nameOnly(gvk schema.GroupVersionKind, namespace, name string) *metav1.PartialObjectMetadata {
	meta := metadata.New(gvk)
	meta.Namespace, meta.Name = namespace, name
	return meta
}
