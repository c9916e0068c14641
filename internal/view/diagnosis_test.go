package view

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
