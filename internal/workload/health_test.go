package workload_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rule 37: how each kind takes its newest template, from a whole object and from one that the cache keeps.
func TestHealth(t *testing.T) {
	const available = `"conditions":[{"type":"Available","status":"True"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","message":"m","lastUpdateTime":"2026-11-22T12:00:00Z"}]`
	since := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		kind workload.Kind
		text string
		want string
		at   time.Time
	}{
		"a Deployment":                          {workload.Deployment, `{"spec":{"replicas":2},"status":{"replicas":2,"updatedReplicas":2,"availableReplicas":2,` + available + `}}`, "rolled-out", since},
		"one whose pod is being replaced":       {workload.Deployment, `{"spec":{"replicas":2},"status":{"replicas":2,"updatedReplicas":2,"availableReplicas":1,` + available + `}}`, "rolled-out", since},
		"one that is scaled up":                 {workload.Deployment, `{"spec":{"replicas":5},"status":{"replicas":3,"updatedReplicas":3,"availableReplicas":2,` + available + `}}`, "rolled-out", since},
		"one that lost all pods":                {workload.Deployment, `{"spec":{"replicas":2},"status":{"replicas":2,"updatedReplicas":2,"availableReplicas":0,` + available + `}}`, "", time.Time{}},
		"one with an old pod":                   {workload.Deployment, `{"spec":{"replicas":2},"status":{"replicas":3,"updatedReplicas":2,"availableReplicas":3,` + available + `}}`, "disturbed", time.Time{}},
		"one that was not seen":                 {workload.Deployment, `{"metadata":{"generation":2},"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"availableReplicas":1,` + available + `}}`, "disturbed unseen", time.Time{}},
		"one in the middle":                     {workload.Deployment, `{"spec":{"replicas":1},"status":{"replicas":1,"updatedReplicas":1,"availableReplicas":0,"conditions":[{"type":"Progressing","reason":"ReplicaSetUpdated"}]}}`, "disturbed", time.Time{}},
		"one that is out of time":               {workload.Deployment, `{"spec":{"replicas":1},"status":{"replicas":1,"updatedReplicas":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}}`, "disturbed failed", time.Time{}},
		"one without a deadline":                {workload.Deployment, `{"spec":{"replicas":1},"status":{"replicas":1,"updatedReplicas":1,"availableReplicas":1}}`, "rolled-out", time.Time{}},
		"one without replicas":                  {workload.Deployment, `{"spec":{"replicas":0},"status":{` + available + `}}`, "idle", time.Time{}},
		"a StatefulSet":                         {workload.StatefulSet, `{"spec":{"replicas":2},"status":{"currentRevision":"a","updateRevision":"a","availableReplicas":1,"updatedReplicas":2}}`, "rolled-out", time.Time{}},
		"one in the middle of a rollout":        {workload.StatefulSet, `{"spec":{"replicas":2},"status":{"currentRevision":"a","updateRevision":"b","availableReplicas":2,"updatedReplicas":1}}`, "disturbed", time.Time{}},
		"one that rolls out on deletion":        {workload.StatefulSet, `{"spec":{"replicas":2,"updateStrategy":{"type":"OnDelete"}},"status":{"currentRevision":"a","updateRevision":"b","availableReplicas":2,"updatedReplicas":1}}`, "disturbed parked", time.Time{}},
		"one that has, on deletion":             {workload.StatefulSet, `{"spec":{"replicas":2,"updateStrategy":{"type":"OnDelete"}},"status":{"currentRevision":"a","updateRevision":"b","availableReplicas":2,"updatedReplicas":2}}`, "rolled-out disturbed", time.Time{}},
		"a partition that is reached":           {workload.StatefulSet, `{"spec":{"replicas":3,"updateStrategy":{"rollingUpdate":{"partition":2}}},"status":{"currentRevision":"a","updateRevision":"b","availableReplicas":3,"updatedReplicas":1}}`, "disturbed parked", time.Time{}},
		"a StatefulSet without replicas":        {workload.StatefulSet, `{"spec":{"replicas":0},"status":{"currentRevision":"a","updateRevision":"a"}}`, "idle", time.Time{}},
		"a DaemonSet":                           {workload.DaemonSet, `{"status":{"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":2}}`, "rolled-out", time.Time{}},
		"one with a pod that is being replaced": {workload.DaemonSet, `{"status":{"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":1}}`, "", time.Time{}},
		"one with an old pod, on deletion":      {workload.DaemonSet, `{"spec":{"updateStrategy":{"type":"OnDelete"}},"status":{"desiredNumberScheduled":2,"updatedNumberScheduled":1,"numberAvailable":2}}`, "disturbed parked", time.Time{}},
		"one without nodes":                     {workload.DaemonSet, `{"status":{"desiredNumberScheduled":0}}`, "rolled-out idle", time.Time{}},
		"a Rollout":                             {workload.Rollout, `{"apiVersion":"argoproj.io/v1alpha1","kind":"Rollout","metadata":{"generation":2},"spec":{"replicas":2},"status":{"observedGeneration":"2","phase":"Healthy","stableRS":"x","currentPodHash":"x"}}`, "rolled-out", time.Time{}},
		"one at a step for a person": {workload.Rollout, `{"apiVersion":"argoproj.io/v1alpha1","kind":"Rollout","metadata":{"generation":2},"spec":{"strategy":{"canary":{"steps":[{"pause":{}}]}}},
			"status":{"observedGeneration":"2","phase":"Paused","currentStepIndex":0}}`, "disturbed parked", time.Time{}},
		"one that was aborted": {workload.Rollout, `{"apiVersion":"argoproj.io/v1alpha1","kind":"Rollout","metadata":{"generation":2},"status":{"observedGeneration":"2","phase":"Degraded"}}`, "disturbed failed", time.Time{}},
		"a CronJob":            {workload.CronJob, `{}`, "rolled-out", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := read(t, test.kind.New(), test.text)
			for range 2 {
				h := test.kind.Health(obj)
				var got string
				for _, said := range []struct {
					is   bool
					what string
				}{{h.RolledOut, "rolled-out"}, {h.Disturbed, "disturbed"}, {h.NeedsAction, "parked"}, {h.Failed, "failed"}, {h.Idle, "idle"}, {h.Unseen, "unseen"}} {
					if said.is && got != "" {
						got += " "
					}
					if said.is {
						got += said.what
					}
				}
				if got != test.want || !h.Since.Equal(test.at) {
					t.Errorf("%q since %s, want %q since %s", got, h.Since, test.want, test.at)
				}
				test.kind.Compact(obj)
			}
		})
	}
}

// Rule 37: a workload whose controller has not seen the latest change is in the middle of a rollout, unless the newest holder has its template:
// then the change is an annotation of a Deployment, or a scaling.
func TestHealthWhileTheControllerIsLate(t *testing.T) {
	seen := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Generation: 5, Annotations: map[string]string{"example.com/new": "yes"}},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 4, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Reason: "NewReplicaSetAvailable"}}},
	}
	withPins := func(d *appsv1.Deployment, pins string) *appsv1.Deployment {
		d = d.DeepCopy()
		d.Spec.Template.Annotations = map[string]string{keys.Pins: pins}
		return d
	}
	rs := func(of *appsv1.Deployment, order int64) client.Object {
		set := gen.ReplicaSet("x", of, order)
		workload.Deployment.Holder.Compact(set)
		return set
	}
	a, b := withPins(seen, "configmap/app=app-a@1"), withPins(seen, "configmap/app=app-b@2")
	other := a.DeepCopy()
	other.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:2"}}
	middle := b.DeepCopy()
	middle.Status.Conditions[0].Reason, middle.Status.AvailableReplicas = "ReplicaSetUpdated", 0
	for name, test := range map[string]struct {
		of          *appsv1.Deployment
		holders     []client.Object
		well, unsee bool
	}{
		"only an annotation":         {b, []client.Object{rs(a, 1), rs(b, 2)}, true, false},
		"in the middle of a rollout": {middle, []client.Object{rs(a, 1), rs(b, 2)}, false, false},
		"new pins":                   {b, []client.Object{rs(a, 1)}, false, true},
		"an undo":                    {a, []client.Object{rs(a, 1), rs(b, 2)}, false, true},
		"new code":                   {other, []client.Object{rs(a, 1)}, false, true},
		"one is yet to come":         {b, []client.Object{rs(a, 1), rs(b, 2), nil}, false, true},
		"there is none":              {b, nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			if h := workload.Deployment.HealthWith(test.holders, test.of); h.RolledOut != test.well || h.Unseen != test.unsee || h.Disturbed == test.well {
				t.Errorf("%+v", h)
			}
		})
	}
	revision := &appsv1.ControllerRevision{Revision: 1}
	revision.Data.Raw = []byte(`{"spec":{"template":{}}}`)
	for _, test := range []struct {
		kind   workload.Kind
		text   string
		holder client.Object
	}{
		{workload.StatefulSet, `{"metadata":{"generation":5},"status":{"observedGeneration":4,"currentRevision":"a","updateRevision":"a","availableReplicas":1}}`, revision},
		{workload.DaemonSet, `{"metadata":{"generation":5},"status":{"observedGeneration":4,"numberAvailable":1}}`, revision},
		{workload.Rollout, `{"apiVersion":"argoproj.io/v1alpha1","kind":"Rollout","metadata":{"generation":5},"spec":{"template":{}},"status":{"observedGeneration":"4","phase":"Healthy","availableReplicas":1}}`, rs(seen, 1)},
	} {
		obj := read(t, test.kind.New(), test.text)
		if h := test.kind.HealthWith([]client.Object{test.holder}, obj); h.Unseen || h.Disturbed || obj.GetGeneration() != 5 {
			t.Errorf("%s: %+v", test.kind.Resource(), h)
		}
	}
}

// Rule 40: the controller of a Deployment watches for progress only in a ReplicaSet that is new, and not where the Deployment goes back to one.
func TestWhoWatchesForProgress(t *testing.T) {
	const going = `{"spec":{"replicas":1,"progressDeadlineSeconds":5},"status":{"replicas":1,"conditions":[{"type":"Progressing","status":"True","reason":%q}]}}`
	for reason, want := range map[string]time.Duration{"NewReplicaSetAvailable": 5 * time.Second, "ReplicaSetUpdated": 0} {
		obj := read(t, workload.Deployment.New(), fmt.Sprintf(going, reason))
		for range 2 {
			if got := workload.Deployment.Health(obj).Deadline; got != want {
				t.Errorf("%s: %s, want %s", reason, got, want)
			}
			workload.Deployment.Compact(obj)
		}
	}
}

// Rule 37: a Job shows whether the content is good once it has succeeded, also from the cache.
func TestAJobThatHasSucceeded(t *testing.T) {
	job := &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}}}
	if workload.Job.Facts(job).Succeeded {
		t.Error("it has failed")
	}
	job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue})
	workload.Job.Compact(job)
	if !workload.Job.Facts(job).Succeeded {
		t.Error("it has succeeded")
	}
}
