package view

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// Two controllers that work in one namespace may undo what each other writes.
func TestDoctorFindsControllersInOneNamespace(t *testing.T) {
	everywhere := func(namespace string, replicas int32) appsv1.Deployment {
		d := controllerWith()
		d.Namespace, d.Spec.Replicas = namespace, &replicas
		return *d
	}
	for name, test := range map[string]struct {
		one, other appsv1.Deployment
		want       string
	}{
		"both in all namespaces":               {everywhere("x", 1), everywhere("y", 1), "it works in all namespaces, and so does x/confrev: each may undo what the other writes"},
		"one is limited":                       {everywhere("x", 1), *limitedTo("y", "a", "b"), "it works in a, b, and so does x/confrev: each may undo what the other writes"},
		"the other is limited":                 {*limitedTo("x", "a"), everywhere("y", 2), "it works in a, and so does x/confrev: each may undo what the other writes"},
		"both are limited, one namespace both": {*limitedTo("x", "a", "b"), *limitedTo("y", "b", "c"), "it works in b, and so does x/confrev: each may undo what the other writes"},
		"both are limited, to different ones":  {*limitedTo("x", "a"), *limitedTo("y", "b"), ""},
		"one does not run":                     {everywhere("x", 1), everywhere("y", 0), ""},
	} {
		d := &doctor{View: &View{Installation: Installation{Deployment: &test.one, others: []appsv1.Deployment{test.other}}}}
		if err := d.overlaps(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, f := range d.Findings {
			if f.Reason != "Overlap" || f.Severity != SeverityWarning || f.Namespace != "y" {
				t.Errorf("%s: %+v", name, f)
			}
			got += f.Message
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
