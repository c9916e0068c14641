package view

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// examined returns what one step of doctor finds.
func examined(t *testing.T, s seen, now time.Time, step func(*doctor)) []Finding {
	t.Helper()
	d := &doctor{View: s.view(t), DiagnosisOptions: DiagnosisOptions{Long: 24 * time.Hour, Now: now}}
	step(d)
	return d.Findings
}

// Only a Deployment records since when it is paused, and only for it is there a command of kubectl's that resumes it.
func TestDoctorKnowsHowLongAPauseLasts(t *testing.T) {
	now := gen.Created.Add(120 * 24 * time.Hour)
	deployment := func(modifiers ...gen.DeploymentModifier) *appsv1.Deployment {
		d := gen.Web("app:1", modifiers...)
		d.CreationTimestamp, d.Spec.Paused = gen.Created, true
		return d
	}
	since := func(d *appsv1.Deployment) {
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: "DeploymentPaused", LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	}
	argo := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"paused": true}}}
	argo.SetNamespace(gen.Namespace)
	argo.SetName("web")
	argo.SetCreationTimestamp(gen.Created)
	for name, test := range map[string]struct {
		kind     workload.Kind
		obj      client.Object
		severity Severity
		message  string
		fix      string
	}{
		"a Deployment": {workload.Deployment, deployment(since), SeverityInfo, "paused for 60m: spec.paused is set", "kubectl rollout resume deployment/web -n default"},
		"a Deployment of which it is not recorded": {workload.Deployment, deployment(), SeverityInfo, "paused: spec.paused is set", "kubectl rollout resume deployment/web -n default"},
		"a Deployment that confrev paused when it was created": {workload.Deployment, deployment(gen.Annotated(keys.Paused, "configmap/app")), SeverityWarning,
			"paused for 120d: confrev paused it at its creation, until there is configmap/app", "kubectl rollout resume deployment/web -n default"},
		"an Argo Rollout": {workload.Rollout, argo, SeverityInfo, "paused: spec.paused is set", `kubectl patch rollout/web -n default --type merge -p '{"spec":{"paused":false}}'`},
	} {
		look := rollout.Assessment{Kind: test.kind, Workload: test.obj, Follows: true, Rollers: []rollout.Roller{{Kind: test.kind, Object: test.obj}}}
		found := examined(t, seen{}, now, func(d *doctor) { d.pause(look) })
		if len(found) != 1 || found[0].Severity != test.severity || found[0].Message != test.message || found[0].Fix != "once it may roll out: "+test.fix {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// In mode restart there is no revision of the present content, whose age would be that of the change that was undone.
func TestDoctorKnowsHowOldUndoneContentIs(t *testing.T) {
	now := gen.Created.Add(48 * time.Hour)
	changed := gen.App("b")
	changed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:k":{}}}`), Time: &gen.Created}}
	unknown := gen.App("b")
	unknown.CreationTimestamp = gen.Created
	for name, test := range map[string]struct {
		source   *corev1.ConfigMap
		severity Severity
		message  string
	}{
		"its managed fields record it": {changed, SeverityWarning, "it was rolled back from the present content of configmap/app, which is 2d old, and stays on aaa@1"},
		"it is not known":              {unknown, SeverityInfo, "it was rolled back from the present content of configmap/app, and stays on aaa@1"},
	} {
		look := rollout.Assessment{Kind: workload.Deployment, Workload: gen.Web("app:1"), Hashes: plan.Plan{Decisions: []plan.Decision{
			{Source: gen.Source("configmap/app"), Verdict: plan.Held, From: pin.Pin{Revision: "aaa", Number: 1}, Current: pin.Pin{Revision: "bbb", Number: 2}}}}}
		found := examined(t, seen{objects: []client.Object{test.source}}, now, func(d *doctor) { d.holds(look) })
		if len(found) != 1 || found[0].Severity != test.severity || found[0].Message != test.message {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// A command may be pasted where another namespace is the default.
func TestDoctorNamesTheNamespaceOfALeak(t *testing.T) {
	leak := gen.RevisionOfApp("a", "1")
	leak.CreationTimestamp = gen.Created
	found := examined(t, seen{objects: []client.Object{gen.App("b"), leak}}, gen.Created.Add(time.Hour), func(d *doctor) {
		if err := d.revisions(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if len(found) != 1 || !strings.HasSuffix(found[0].Fix, "kubectl get configmap "+leak.Name+" -n default -o yaml") {
		t.Errorf("%+v", found)
	}
}
