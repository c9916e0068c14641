package view

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/operator"
	"confrev.io/confrev/test/gen"
)

// unusedRevision returns one that nothing has used for longer than the controller takes to delete it.
func unusedRevision() *corev1.ConfigMap {
	data := map[string]string{"color": "blue"}
	hash := content.FromConfigMap(gen.ConfigMap("app", data)).Hash()
	cm := gen.ConfigMap(content.RevisionName("app", hash, 0), data)
	cm.Immutable = new(true)
	cm.UID = "1"
	cm.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
	cm.Labels = map[string]string{keys.Content: string(hash), keys.Source: "app"}
	cm.Annotations = map[string]string{keys.SourceName: "app", keys.Number: "1"}
	return cm
}

// A sweep may delete a revision while doctor looks at it: that is what doctor wants, and no reason to fail.
func TestDoctorFindsNoLeakInWhatIsGoneMeanwhile(t *testing.T) {
	for _, gone := range []bool{false, true} {
		live := fake.NewClientBuilder().WithObjects(unusedRevision()).Build()
		planner, err := NewPlannerOf(t.Context(), live, operator.Options{Grace: time.Minute}, "default", nil)
		if err != nil {
			t.Fatal(err)
		}
		d := &doctor{View: &View{Planner: planner}, DiagnosisOptions: DiagnosisOptions{Now: time.Now()}}
		if gone {
			if err := live.Delete(t.Context(), unusedRevision()); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.revisions(t.Context()); err != nil {
			t.Errorf("gone %t: %v", gone, err)
		}
		leaks := 0
		for _, f := range d.Findings {
			if f.Reason == "Leak" && f.Metadata().Name == unusedRevision().Name {
				leaks++
			}
		}
		if want := map[bool]int{false: 1, true: 0}[gone]; leaks != want || len(d.Findings) != want {
			t.Errorf("gone %t: found %+v", gone, d.Findings)
		}
	}
}

// What is found in any order is listed in one, so that two runs can be compared.
func TestFindingsHaveOneOrder(t *testing.T) {
	about := func(severity Severity, object, reason, message string) Finding {
		return Finding{Severity: severity, Object: object, Reason: reason, Message: message}
	}
	want := []Finding{
		about(SeverityError, "b", "NotReady", "z"), about(SeverityError, "b", "RightMissing", "may not get"), about(SeverityError, "b", "RightMissing", "may not list"),
		about(SeverityWarning, "a", "Leak", "a"), about(SeverityInfo, "a", "Held", "a"),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	if slices.SortStableFunc(got, compareFindings); !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}

// A source that many workloads use is worth a setting, unless it has one.
func TestDoctorSuggestsThatChangesSpread(t *testing.T) {
	for name, test := range map[string]struct {
		users       int
		annotations map[string]string
		want        int
	}{
		"few":          {users: 20},
		"many":         {users: 21, want: 1},
		"they spread":  {users: 21, annotations: map[string]string{keys.MaxRolling: "5"}},
		"none is said": {users: 21, annotations: map[string]string{keys.Safety: "none"}},
	} {
		t.Run(name, func(t *testing.T) {
			source := gen.ConfigMap("app", map[string]string{"color": "blue"})
			source.Annotations = test.annotations
			objects := []client.Object{source, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: source.Namespace}}}
			for i := range test.users {
				d := gen.Deployment(fmt.Sprintf("web-%02d", i), gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/app")))
				objects = append(objects, d)
			}
			planner, err := NewPlanner(t.Context(), fake.NewClientBuilder().WithObjects(objects...).Build(), operator.Options{Grace: time.Minute}, source.Namespace)
			if err != nil {
				t.Fatal(err)
			}
			d := &doctor{View: &View{Planner: planner}, DiagnosisOptions: DiagnosisOptions{Now: time.Now()}}
			if err := d.workloads(t.Context()); err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, f := range d.Findings {
				if f.Reason == "SpreadsAtOnce" && f.Object == "configmap/app" && f.Severity == SeverityInfo {
					found++
				}
			}
			if found != test.want {
				t.Errorf("found %+v", d.Findings)
			}
		})
	}
}
