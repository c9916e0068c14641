package workload_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/workload"
)

func templateOf(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}},
	}
}

// replicaSet makes one of the Deployment with uid "web".
func replicaSet(name, image string, second int64, change ...func(*appsv1.ReplicaSet)) appsv1.ReplicaSet {
	controller := true
	rs := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.Unix(second, 0),
		OwnerReferences: []metav1.OwnerReference{{UID: "web", Controller: &controller}},
	}}
	rs.Spec.Template = templateOf(image)
	rs.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = name
	for _, change := range change {
		change(&rs)
	}
	return rs
}

func terminating(rs *appsv1.ReplicaSet) { rs.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)} }

func numbered(number string) func(*appsv1.ReplicaSet) {
	return func(rs *appsv1.ReplicaSet) {
		rs.Annotations = map[string]string{"deployment.kubernetes.io/revision": number}
	}
}

func TestCurrentReplicaSetOfADeployment(t *testing.T) {
	tests := map[string]struct {
		paused    bool
		all       []appsv1.ReplicaSet
		want, err string
	}{
		"the one with its template":          {all: []appsv1.ReplicaSet{replicaSet("old", "app:1", 1), replicaSet("new", "app:2", 2)}, want: "new"},
		"none yet":                           {all: []appsv1.ReplicaSet{replicaSet("old", "app:1", 1, numbered("1"))}, err: `deployment "web" has no ReplicaSet of its present template`},
		"none while it is paused":            {paused: true, all: []appsv1.ReplicaSet{replicaSet("old", "app:1", 1, numbered("1"))}, err: `deployment "web" is paused`},
		"paused after it was made":           {paused: true, all: []appsv1.ReplicaSet{replicaSet("new", "app:2", 1)}, want: "new"},
		"an old one, as after an undo":       {all: []appsv1.ReplicaSet{replicaSet("old", "app:2", 1), replicaSet("new", "app:1", 2)}, want: "old"},
		"the oldest of several":              {all: []appsv1.ReplicaSet{replicaSet("b", "app:2", 2), replicaSet("a", "app:2", 1)}, want: "a"},
		"of one second, the first by name":   {all: []appsv1.ReplicaSet{replicaSet("b", "app:2", 1), replicaSet("a", "app:2", 1)}, want: "a"},
		"one that is being deleted is none":  {all: []appsv1.ReplicaSet{replicaSet("a", "app:2", 1, terminating)}, err: "has no ReplicaSet"},
		"one of another Deployment is none":  {all: []appsv1.ReplicaSet{replicaSet("a", "app:2", 1, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences[0].UID = "other" })}, err: "has no ReplicaSet"},
		"an annotation of the template says": {all: []appsv1.ReplicaSet{replicaSet("a", "app:2", 1, func(rs *appsv1.ReplicaSet) { rs.Spec.Template.Annotations = map[string]string{"a": "b"} })}, err: "has no ReplicaSet"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "web", Annotations: map[string]string{"deployment.kubernetes.io/revision": "1"}}}
			d.Spec.Template, d.Spec.Paused = templateOf("app:2"), tt.paused
			got, err := workload.Deployment.CurrentReplicaSet(d, tt.all)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, %v, want %s", got, err, tt.err)
				}
				return
			}
			if err != nil || got.Name != tt.want {
				t.Errorf("got %v, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestNewestReplicaSet(t *testing.T) {
	tests := map[string]struct {
		all  []appsv1.ReplicaSet
		want string
	}{
		"none":                               {},
		"the last":                           {[]appsv1.ReplicaSet{replicaSet("b", "", 1), replicaSet("a", "", 2), replicaSet("c", "", 1)}, "a"},
		"of one second, by its number":       {[]appsv1.ReplicaSet{replicaSet("b", "", 1, numbered("9")), replicaSet("a", "", 1, numbered("10"))}, "a"},
		"of one second and number, by name":  {[]appsv1.ReplicaSet{replicaSet("b", "", 1), replicaSet("a", "", 1)}, "b"},
		"one that is being deleted is none":  {[]appsv1.ReplicaSet{replicaSet("a", "", 1), replicaSet("b", "", 2, terminating)}, "a"},
		"only one, and it is being deleted":  {all: []appsv1.ReplicaSet{replicaSet("b", "", 2, terminating)}},
		"the order in which they are listed": {[]appsv1.ReplicaSet{replicaSet("a", "", 1), replicaSet("b", "", 1)}, "b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := workload.NewestReplicaSet(tt.all)
			if got == nil && tt.want != "" || got != nil && got.Name != tt.want {
				t.Errorf("got %v, want %q", got, tt.want)
			}
		})
	}
}

// Rule 21.3: what a holder shows is a rollback only if its code was there before what was rolled back from; Jobs are too few to tell.
func TestWhatWasThereBefore(t *testing.T) {
	ran := func(at int64, image string) client.Object {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(at, 0)}, Spec: appsv1.ReplicaSetSpec{Template: templateOf(image)}}
	}
	numbered := func(holder client.Object, number, earlier string) client.Object {
		holder.SetAnnotations(map[string]string{"deployment.kubernetes.io/revision": number, "deployment.kubernetes.io/revision-history": earlier})
		return holder
	}
	job := func(at int64, image string) client.Object {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(at, 0)}, Spec: batchv1.JobSpec{Template: templateOf(image)}}
	}
	for name, test := range map[string]struct {
		kind workload.Kind
		// The first is what was rolled back from, the second what is there now.
		holders []client.Object
		want    bool
	}{
		"it is older":  {workload.Deployment, []client.Object{ran(2, "2"), ran(1, "1")}, true},
		"it is as old": {workload.Deployment, []client.Object{ran(2, "2"), ran(2, "1")}, true},
		"it is of the same second, and newer": {workload.Deployment,
			[]client.Object{numbered(ran(2, "2"), "2", ""), numbered(ran(2, "1"), "3", "")}, false},
		"it is of the same second, and restored": {workload.Deployment,
			[]client.Object{numbered(ran(2, "2"), "4", ""), numbered(ran(2, "1"), "5", "1,3")}, true},
		"it is of the same second, and not restored yet": {workload.Deployment,
			[]client.Object{numbered(ran(2, "2"), "2", ""), numbered(ran(2, "1"), "1", "")}, true},
		"it is newer, and has a low number": {workload.Deployment,
			[]client.Object{numbered(ran(2, "2"), "2", ""), numbered(ran(3, "1"), "1", "")}, false},
		"it is what was rolled back from": {workload.Deployment,
			[]client.Object{numbered(ran(2, "2"), "4", "2"), numbered(ran(3, "2"), "5", "")}, true},
		"it is newer":                     {workload.Deployment, []client.Object{ran(2, "2"), ran(3, "1"), nil}, false},
		"an older one has its code":       {workload.Deployment, []client.Object{ran(2, "2"), ran(3, "1"), nil, ran(1, "1")}, true},
		"an older one has other code":     {workload.Deployment, []client.Object{ran(2, "2"), ran(3, "1"), ran(1, "0")}, false},
		"another new one has its code":    {workload.Deployment, []client.Object{ran(2, "2"), ran(3, "1"), ran(4, "1")}, false},
		"a newer Job of the same CronJob": {workload.CronJob, []client.Object{job(2, "2"), job(3, "1")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.kind.Restored(test.holders, 0, 1); got != test.want {
				t.Errorf("it was there before: %t", got)
			}
		})
	}
}
