package crash

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
)

var taken = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const (
	newPins = "configmap/app=app-bbbbbbbbbb@2"
	oldPins = "configmap/app=app-aaaaaaaaaa@1"
)

func at(after time.Duration) metav1.Time { return metav1.NewTime(taken.Add(after)) }

func exited(code int32, after time.Duration) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: at(after), Message: "password: canary", Reason: "Error"}
}

func waits(reason string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "canary"}}
}

func runs(since time.Duration) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(since)}}
}

// crashed returns a container that ended so often and waits for its next start.
func crashed(times int32, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: "app", RestartCount: times - 1, State: waits("CrashLoopBackOff"), LastTerminationState: corev1.ContainerState{Terminated: exited(code, time.Second)},
	}
}

func pod(pins string, statuses ...corev1.ContainerStatus) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{keys.Pins: pins}}}
	p.Status.ContainerStatuses = statuses
	return p
}

func with(p corev1.Pod, change func(*corev1.Pod)) corev1.Pod {
	change(&p)
	return p
}

// Rule 41: what counts as a failure of a change, and what does not.
func TestFind(t *testing.T) {
	named := func(status corev1.ContainerStatus, name string) corev1.ContainerStatus {
		status.Name = name
		return status
	}
	again := crashed(2, 1)
	again.State, again.RestartCount = runs(2*time.Second), 2
	recovered := crashed(5, 1)
	recovered.State = runs(-time.Minute)
	before := crashed(5, 1)
	before.LastTerminationState.Terminated.FinishedAt = at(-time.Second)
	ended := corev1.ContainerStatus{Name: "app", RestartCount: 1, State: corev1.ContainerState{Terminated: exited(137, time.Second)}}
	inInit := func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{named(crashed(2, 1), "prepare")}
	}
	for name, test := range map[string]struct {
		pods  []corev1.Pod
		limit int
		want  string
	}{
		"nothing":                             {},
		"it runs":                             {pods: []corev1.Pod{pod(newPins, corev1.ContainerStatus{Name: "app", State: runs(0)})}},
		"it crashed once":                     {pods: []corev1.Pod{pod(newPins, crashed(1, 1))}},
		"it crashed twice":                    {pods: []corev1.Pod{pod(newPins, crashed(2, 1))}, want: "container app crashed 2 times"},
		"it crashed twice, and runs again":    {pods: []corev1.Pod{pod(newPins, again)}, want: "container app crashed 2 times"},
		"it has been running again for long":  {pods: []corev1.Pod{pod(newPins, recovered)}},
		"it was killed, the second time":      {pods: []corev1.Pod{pod(newPins, ended)}, want: "container app crashed 2 times"},
		"once in each of two pods":            {pods: []corev1.Pod{pod(newPins, crashed(1, 1)), pod(newPins, crashed(1, 137))}, want: "container app crashed 2 times"},
		"once is enough here":                 {pods: []corev1.Pod{pod(newPins, crashed(1, 1))}, limit: 1, want: "container app crashed once"},
		"twice is not enough here":            {pods: []corev1.Pod{pod(newPins, crashed(2, 1))}, limit: 3},
		"it ends without an error":            {pods: []corev1.Pod{pod(newPins, crashed(5, 0))}},
		"it crashed before the change":        {pods: []corev1.Pod{pod(newPins, before)}},
		"a reference cannot be resolved":      {pods: []corev1.Pod{pod(newPins, corev1.ContainerStatus{Name: "app", State: waits("CreateContainerConfigError")})}, want: "container app cannot start: CreateContainerConfigError"},
		"the runtime cannot start it":         {pods: []corev1.Pod{pod(newPins, corev1.ContainerStatus{Name: "app", State: waits("RunContainerError")})}, want: "container app cannot start: RunContainerError"},
		"the runtime cannot create it":        {pods: []corev1.Pod{pod(newPins, corev1.ContainerStatus{Name: "app", State: waits("CreateContainerError")})}, want: "container app cannot start: CreateContainerError"},
		"its image cannot be pulled":          {pods: []corev1.Pod{pod(newPins, corev1.ContainerStatus{Name: "app", State: waits("ImagePullBackOff")})}},
		"a container that was injected":       {pods: []corev1.Pod{pod(newPins, named(crashed(9, 1), "mesh"))}},
		"a container of the template's start": {pods: []corev1.Pod{with(pod(newPins), inInit)}, want: "container prepare crashed 2 times"},
		"a pod with other pins":               {pods: []corev1.Pod{pod(oldPins, crashed(9, 1))}},
		"old pods crash too":                  {pods: []corev1.Pod{pod(newPins, crashed(9, 1)), pod(oldPins, crashed(1, 1))}},
		"old pods cannot start either":        {pods: []corev1.Pod{pod(newPins, crashed(9, 1)), pod(oldPins, corev1.ContainerStatus{Name: "app", State: waits("CreateContainerConfigError")})}},
		"old pods crashed before":             {pods: []corev1.Pod{pod(newPins, crashed(2, 1)), pod(oldPins, before)}, want: "container app crashed 2 times"},
		"another container of old pods":       {pods: []corev1.Pod{pod(newPins, crashed(2, 1)), pod(oldPins, named(crashed(2, 1), "prepare"))}, want: "container app crashed 2 times"},
		"a pod that is deleted":               {pods: []corev1.Pod{with(pod(newPins, crashed(9, 1)), func(p *corev1.Pod) { now := at(0); p.DeletionTimestamp = &now })}},
		"a pod that was evicted by its node":  {pods: []corev1.Pod{with(pod(newPins, crashed(9, 1)), func(p *corev1.Pod) { p.Status.Reason = "Evicted" })}},
		"a pod that is evicted or preempted": {pods: []corev1.Pod{with(pod(newPins, crashed(9, 1)), func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		})}},
	} {
		t.Run(name, func(t *testing.T) {
			template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{keys.Pins: newPins}}}
			template.Spec.InitContainers = []corev1.Container{{Name: "prepare"}}
			template.Spec.Containers = []corev1.Container{{Name: "app"}}
			limit := test.limit
			if limit == 0 {
				limit = Default
			}
			got := Find(Change{template, taken, limit, 10 * time.Second}, test.pods, taken.Add(5*time.Second))
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if strings.Contains(got, "canary") {
				t.Error("it repeats what a container said")
			}
		})
	}
}
