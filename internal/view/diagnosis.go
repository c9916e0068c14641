package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Severity is how much a finding matters.
type Severity string

const (
	// SeverityError means that the promise is not kept, or nothing works.
	SeverityError Severity = "Error"
	// SeverityWarning means that someone should act.
	SeverityWarning Severity = "Warning"
	// SeverityInfo is no fault.
	SeverityInfo Severity = "Info"
)

// Diagnosis is what `doctor` prints as JSON and YAML.
type Diagnosis struct {
	metav1.TypeMeta `json:",inline"`
	Versions        Versions  `json:"versions"`
	Findings        []Finding `json:"findings"`
	// Notes say what the user may not see, so that it was not judged.
	Notes []string `json:"notes,omitempty"`
}

// Versions are those of all components; empty if the user may not see them.
type Versions struct {
	Server     string `json:"server"`
	Plugin     string `json:"plugin"`
	Controller string `json:"controller,omitempty"`
}

// Finding is one problem, or one thing worth knowing.
type Finding struct {
	Severity Severity `json:"severity"`
	// Reason is one word for scripts.
	Reason    string `json:"reason"`
	Namespace string `json:"namespace,omitempty"`
	// Object is the object as kubectl takes it: deployment/web.
	Object  string `json:"object"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`

	about *metav1.PartialObjectMetadata
}

// Metadata returns the name of the object as an object of its kind.
func (f Finding) Metadata() *metav1.PartialObjectMetadata { return f.about }

// DiagnosisOptions are the options of a diagnosis.
type DiagnosisOptions struct {
	// Server is the version of the API server.
	Server string
	// Long is how long a hold or a pause may last before it is a warning.
	Long time.Duration
	Now  time.Time
}

// Diagnose looks at the installation and at the workloads, revisions and pods of the view.
func (v *View) Diagnose(ctx context.Context, options DiagnosisOptions) (*Diagnosis, error) {
	d := &doctor{View: v, DiagnosisOptions: options, Diagnosis: Diagnosis{TypeMeta: typeMeta("Diagnosis"), Findings: []Finding{}}}
	for _, examine := range []func(context.Context) error{
		d.versions, d.admission, d.controller, d.overlaps, d.unwatched, d.rights, d.schemas, d.workloads, d.revisions, d.pods,
	} {
		if err := examine(ctx); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(d.Findings, compareFindings)
	d.Diagnosis.Notes = v.Notes
	return &d.Diagnosis, nil
}

// compareFindings compares findings by how much they matter, then by what they are about and say.
func compareFindings(a, b Finding) int {
	order := []Severity{SeverityError, SeverityWarning, SeverityInfo}
	return cmp.Or(cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity)),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
}

// doctor gathers what it finds.
type doctor struct {
	*View
	Diagnosis
	DiagnosisOptions
}

func (d *doctor) addFinding(s Severity, reason string, gvk schema.GroupVersionKind, obj client.ObjectKey, fix, format string, args ...any) {
	d.Findings = append(d.Findings, Finding{
		Severity: s, Reason: reason, Namespace: obj.Namespace, Object: resourceName(gvk.Kind, obj.Name),
		Message: fmt.Sprintf(format, args...), Fix: fix, about: nameOnly(gvk, obj.Namespace, obj.Name),
	})
}

// read reads an object. It returns none if it does not exist. If the user may not see it, that is noted, and not an error.
func (d *doctor) read(ctx context.Context, obj client.Object, namespace, name string) (found, seen bool, err error) {
	err = d.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return false, true, nil
	case apierrors.IsForbidden(err):
		d.note("not judged: %v", err)
		return false, false, nil
	}
	return err == nil, err == nil, err
}

// Faulty reports whether something is wrong.
func (d *Diagnosis) Faulty() bool {
	return slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Severity != SeverityInfo })
}
