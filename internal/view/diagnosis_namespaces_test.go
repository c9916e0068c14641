package view

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/installation"
)

// controllerIn returns a controller that works in some namespaces, or in all.
func controllerIn(namespace string, replicas int32, watched ...string) appsv1.Deployment {
	d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "confrev"}}
	d.Spec.Replicas = &replicas
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "confrev"}}
	if len(watched) > 0 {
		d.Spec.Template.Spec.Containers[0].Args = []string{"--injection=template", "--watch-namespaces=" + strings.Join(watched, ",")}
	}
	return d
}

// Two controllers that work in one namespace may undo what each other writes.
func TestDoctorFindsControllersInOneNamespace(t *testing.T) {
	for name, test := range map[string]struct {
		one, other appsv1.Deployment
		want       string
	}{
		"both in all namespaces":               {controllerIn("x", 1), controllerIn("y", 1), "it works in all namespaces, and so does x/confrev: each may undo what the other writes"},
		"one is limited":                       {controllerIn("x", 1), controllerIn("y", 1, "a", "b"), "it works in a, b, and so does x/confrev: each may undo what the other writes"},
		"the other is limited":                 {controllerIn("x", 1, "a"), controllerIn("y", 2), "it works in a, and so does x/confrev: each may undo what the other writes"},
		"both are limited, one namespace both": {controllerIn("x", 1, "a", "b"), controllerIn("y", 1, "b", "c"), "it works in b, and so does x/confrev: each may undo what the other writes"},
		"both are limited, to different ones":  {controllerIn("x", 1, "a"), controllerIn("y", 1, "b"), ""},
		"one does not run":                     {controllerIn("x", 1), controllerIn("y", 0), ""},
	} {
		d := &doctor{View: &View{Installation: installation.Installation{Deployment: &test.one, Others: []appsv1.Deployment{test.other}}}}
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
