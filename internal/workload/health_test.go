package workload_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		"one that has, on deletion":             {workload.StatefulSet, `{"spec":{"replicas":2,"updateStrategy":{"type":"OnDelete"}},"status":{"currentRevision":"a","updateRevision":"b","availableReplicas":2,"updatedReplicas":2}}`, "rolled-out", time.Time{}},
		"one whose last pod starts":             {workload.StatefulSet, `{"spec":{"replicas":2,"updateStrategy":{"type":"OnDelete"}},"status":{"currentRevision":"a","updateRevision":"b","availableReplicas":1,"updatedReplicas":2}}`, "", time.Time{}},
		"one that was never changed":            {workload.StatefulSet, `{"spec":{"replicas":2,"updateStrategy":{"type":"OnDelete"}},"status":{"currentRevision":"a","updateRevision":"a","availableReplicas":1,"updatedReplicas":1}}`, "rolled-out parked", time.Time{}},
		"one on deletion that was not seen":     {workload.StatefulSet, `{"metadata":{"generation":2},"spec":{"replicas":2,"updateStrategy":{"type":"OnDelete"}},"status":{"observedGeneration":1,"currentRevision":"a","updateRevision":"b","availableReplicas":2,"updatedReplicas":2}}`, "disturbed unseen", time.Time{}},
		"a partition that is reached":           {workload.StatefulSet, `{"spec":{"replicas":3,"updateStrategy":{"rollingUpdate":{"partition":2}}},"status":{"currentRevision":"a","updateRevision":"b","availableReplicas":3,"updatedReplicas":1}}`, "disturbed parked", time.Time{}},
		"a StatefulSet without replicas":        {workload.StatefulSet, `{"spec":{"replicas":0},"status":{"currentRevision":"a","updateRevision":"a"}}`, "idle", time.Time{}},
		"a DaemonSet":                           {workload.DaemonSet, `{"status":{"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":2}}`, "rolled-out", time.Time{}},
		"one with a pod that is being replaced": {workload.DaemonSet, `{"status":{"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":1}}`, "", time.Time{}},
		"one with an old pod, on deletion":      {workload.DaemonSet, `{"spec":{"updateStrategy":{"type":"OnDelete"}},"status":{"desiredNumberScheduled":2,"updatedNumberScheduled":1,"numberAvailable":2}}`, "disturbed parked", time.Time{}},
		"one that has no old one, on deletion":  {workload.DaemonSet, `{"spec":{"updateStrategy":{"type":"OnDelete"}},"status":{"desiredNumberScheduled":2,"updatedNumberScheduled":2,"numberAvailable":2}}`, "rolled-out", time.Time{}},
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

// Rules 39 and 40: a Deployment whose controller has not seen the latest change works with what it has if it had rolled that out before: the change
// may be an annotation. That is no evidence of a new template, even where its ReplicaSet exists.
func TestWhatWorksWhileTheControllerIsLate(t *testing.T) {
	withPins := func(pins string) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: 5},
			Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{keys.Pins: pins}}}},
			Status: appsv1.DeploymentStatus{ObservedGeneration: 4, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", Message: `ReplicaSet "web-a" has successfully progressed.`}}},
		}
	}
	rs := func(name string, of *appsv1.Deployment) client.Object {
		return workload.Deployment.Holder.Reduce(gen.ReplicaSet(name, of, 1))
	}
	a, b := withPins("configmap/app=app-a@1"), withPins("configmap/app=app-b@2")
	code, hashes, rolling, lost, old := a.DeepCopy(), a.DeepCopy(), a.DeepCopy(), a.DeepCopy(), a.DeepCopy()
	code.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:2"}}
	hashes.Spec.Template.Annotations[keys.Hashes] = "configmap/app=x"
	rolling.Status.Conditions[0].Reason, lost.Status.AvailableReplicas = "ReplicaSetUpdated", 0
	old.Status.Conditions = nil
	both := []client.Object{nil, rs("web-a", a), rs("web-b", b)}
	for name, test := range map[string]struct {
		of      *appsv1.Deployment
		holders []client.Object
		works   bool
	}{
		"only an annotation":            {a, both, true},
		"new pins":                      {b, both[:2], false},
		"new pins, with the ReplicaSet": {b, both, false},
		"new code":                      {code, both, false},
		"new hashes":                    {hashes, both, false},
		"in the middle of a rollout":    {rolling, both, false},
		"no pod is available":           {lost, both, false},
		"its controller said nothing":   {old, both, false},
		"the ReplicaSet is not known":   {a, both[2:], false},
		"one that is called like it":    {a, []client.Object{rs("web-a", b), rs("a", a)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			whole := test.of.DeepCopy()
			for range 2 {
				if h := workload.Deployment.HealthWith(test.holders, whole); h.Works != test.works || h.RolledOut || !h.Disturbed || !h.Unseen {
					t.Errorf("%+v", h)
				}
				workload.Deployment.Compact(whole)
			}
		})
	}
	seen := b.DeepCopy()
	seen.Generation = 4
	if h := workload.Deployment.HealthWith(nil, seen); !h.Works || !h.RolledOut {
		t.Errorf("its controller is not late: %+v", h)
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
	if !workload.Job.Facts(workload.Job.Reduce(job)).Succeeded {
		t.Error("it has succeeded")
	}
}

// A Rollout with workloadRef has another object's template: its own generation says nothing about what it has seen of that.
func TestHealthOfABorrowedTemplate(t *testing.T) {
	deployment := gen.Deployment("web")
	deployment.Generation = 2
	for seen, want := range map[string]bool{"": true, "1": false, "2": true} {
		borrower := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "web", "uid": "rollout", "generation": int64(1)},
			"status":   map[string]any{"observedGeneration": "1", "phase": "Healthy", "stableRS": "a", "currentPodHash": "a"},
		}}
		if seen != "" {
			if err := unstructured.SetNestedField(borrower.Object, seen, "status", "workloadObservedGeneration"); err != nil {
				t.Fatal(err)
			}
		}
		compact := borrower.DeepCopy()
		workload.Rollout.Compact(compact)
		for _, obj := range []*unstructured.Unstructured{borrower, compact} {
			if h := workload.Rollout.HealthOf(nil, obj, deployment); h.RolledOut != want || h.Works != want || h.Unseen == want || (h.Left == "") != want {
				t.Errorf("having seen generation %q: %+v", seen, h)
			}
			if h := workload.Rollout.HealthOf(nil, obj, obj); !h.RolledOut {
				t.Errorf("of its own template: %+v", h)
			}
		}
	}
}
