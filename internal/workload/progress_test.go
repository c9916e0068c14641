package workload

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestProgress(t *testing.T) {
	other := Kind{GVK: Rollout.GVK.GroupVersion().WithKind("WebApp"), Path: "spec.template", Holder: ReplicaSet}
	for name, test := range map[string]struct {
		kind   Kind
		fields string
		want   string
		then   string // what follows: "failed", or "stays" without a person
	}{
		"a Deployment that was not seen":  {Deployment, `{"metadata":{"generation":2},"status":{"observedGeneration":1}}`, "its controller has not seen the change yet", ""},
		"a Deployment with old pods only": {Deployment, `{"spec":{"replicas":3},"status":{"replicas":3,"updatedReplicas":1}}`, "1 of 3 pods are new", ""},
		"a Deployment with an old pod":    {Deployment, `{"spec":{"replicas":3},"status":{"replicas":4,"updatedReplicas":3,"availableReplicas":3}}`, "1 old pods are left", ""},
		"a Deployment with an unready":    {Deployment, `{"status":{"replicas":1,"updatedReplicas":1}}`, "0 of 1 pods are available", ""},
		"a Deployment":                    {Deployment, `{"spec":{"replicas":2},"status":{"replicas":2,"updatedReplicas":2,"availableReplicas":2}}`, "", ""},
		"a Deployment of none":            {Deployment, `{"spec":{"replicas":0}}`, "", ""},
		"a StatefulSet during a rollout":  {StatefulSet, `{"spec":{"replicas":2},"status":{"updatedReplicas":1,"availableReplicas":2}}`, "1 of 2 pods are new", ""},
		"a StatefulSet with a partition": {StatefulSet, `{"spec":{"replicas":2,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1}}},
			"status":{"updatedReplicas":1,"availableReplicas":2}}`, "1 of 2 pods are new; pods below partition 1 stay", "stays"},
		"a StatefulSet above its partition": {StatefulSet, `{"spec":{"replicas":3,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1}}},
			"status":{"updatedReplicas":1,"availableReplicas":3}}`, "1 of 3 pods are new; pods below partition 1 stay", ""},
		"a StatefulSet with a partition, unready": {StatefulSet, `{"spec":{"replicas":2,"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1}}},
			"status":{"updatedReplicas":1,"availableReplicas":1}}`, "1 of 2 pods are new; pods below partition 1 stay", ""},
		"a Deployment that is out of time": {Deployment, `{"spec":{"replicas":1},"status":{"replicas":2,"updatedReplicas":1,"availableReplicas":1,
			"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}}`, "it exceeded its progress deadline: 1 old pods are left", "failed"},
		"a Deployment that was out of time before its last change": {Deployment, `{"metadata":{"generation":2},"spec":{"replicas":1},"status":{"observedGeneration":1,
			"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}}`, "its controller has not seen the change yet", ""},
		"a DaemonSet with OnDelete": {DaemonSet, `{"spec":{"updateStrategy":{"type":"OnDelete"}},"status":{"desiredNumberScheduled":3,"updatedNumberScheduled":1,"numberAvailable":3}}`,
			"1 of 3 pods are new; pods are replaced only when they are deleted (updateStrategy OnDelete)", "stays"},
		"a Rollout that is degraded": {Rollout, `{"metadata":{"generation":2},"status":{"observedGeneration":"2","phase":"Degraded","message":"RolloutAborted: analysis failed"}}`,
			"Degraded: RolloutAborted: analysis failed", "failed"},
		"a Rollout in a canary that continues": {Rollout, `{"metadata":{"generation":2},"spec":{"strategy":{"canary":{"steps":[{"setWeight":5},{"pause":{"duration":"1m"}}]}}},
			"status":{"observedGeneration":"2","phase":"Paused","message":"CanaryPauseStep","currentStepIndex":1}}`, "Paused: CanaryPauseStep", ""},
		"a Rollout in a canary that waits for a person": {Rollout, `{"metadata":{"generation":2},"spec":{"strategy":{"canary":{"steps":[{"pause":{}}]}}},
			"status":{"observedGeneration":"2","phase":"Paused","message":"CanaryPauseStep","currentStepIndex":0}}`, "Paused: CanaryPauseStep", "stays"},
		"a blue-green Rollout that promotes itself": {Rollout, `{"metadata":{"generation":2},"spec":{"strategy":{"blueGreen":{"autoPromotionSeconds":30}}},
			"status":{"observedGeneration":"2","phase":"Paused","message":"BlueGreenPause"}}`, "Paused: BlueGreenPause", ""},
		"a StatefulSet with OnDelete": {StatefulSet, `{"spec":{"updateStrategy":{"type":"OnDelete"}},"status":{"availableReplicas":1}}`,
			"0 of 1 pods are new; pods are replaced only when they are deleted (updateStrategy OnDelete)", "stays"},
		"a DaemonSet":                  {DaemonSet, `{"status":{"desiredNumberScheduled":3,"updatedNumberScheduled":3,"numberAvailable":3}}`, "", ""},
		"a DaemonSet during a rollout": {DaemonSet, `{"status":{"desiredNumberScheduled":3,"updatedNumberScheduled":2,"numberAvailable":3}}`, "2 of 3 pods are new", ""},
		"a CronJob, which rolls none":  {CronJob, `{"metadata":{"generation":2}}`, "", ""},
		"a Rollout that was not seen":  {Rollout, `{"metadata":{"generation":2},"status":{"observedGeneration":"1","phase":"Healthy"}}`, "its controller has not seen the change yet", ""},
		"a Rollout in a canary": {Rollout, `{"metadata":{"generation":2},"status":{"observedGeneration":"2","phase":"Paused","message":"CanaryPauseStep"}}`,
			"Paused: CanaryPauseStep", "stays"},
		"a Rollout that is not stable": {Rollout, `{"metadata":{"generation":2},"status":{"observedGeneration":"2","phase":"Healthy","stableRS":"a","currentPodHash":"b"}}`,
			"the new ReplicaSet is not stable yet", ""},
		"a Rollout": {Rollout, `{"metadata":{"generation":2},"status":{"observedGeneration":"2","phase":"Healthy","stableRS":"a","currentPodHash":"a"}}`, "", ""},
		"another kind during a rollout": {other, `{"metadata":{"generation":1},"spec":{"replicas":2},"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":1}}`,
			"1 of 2 pods are new", ""},
		"another kind that says nothing": {other, `{"metadata":{"generation":1}}`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := &unstructured.Unstructured{}
			if err := o.UnmarshalJSON([]byte(`{"kind":"` + test.kind.GVK.Kind + `",` + test.fields[1:])); err != nil {
				t.Fatal(err)
			}
			obj := test.kind.New()
			if u, ok := obj.(*unstructured.Unstructured); ok {
				u.Object = o.Object
			} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, obj); err != nil {
				t.Fatal(err)
			}
			want := Progress{Left: test.want, Failed: test.then == "failed", NeedsAction: test.then == "stays"}
			if got := test.kind.Progress(obj); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	if got := desiredReplicas(new(int32(0))); got != 0 || desiredReplicas(appsv1.DeploymentSpec{}.Replicas) != 1 {
		t.Error(got)
	}
}
