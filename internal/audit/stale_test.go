package audit

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

// at returns a time, in seconds.
func at(seconds int) metav1.Time {
	return metav1.NewTime(epoch.Add(time.Duration(seconds) * time.Second))
}

// wrote makes an entry of managed fields.
func wrote(seconds int, fields string) metav1.ManagedFieldsEntry {
	when := at(seconds)
	return metav1.ManagedFieldsEntry{Manager: "someone", Time: &when, FieldsV1: metav1.NewFieldsV1(fields)}
}

const (
	colorField    = `{"f:data":{".":{},"f:color":{}}}`
	levelField    = `{"f:data":{"f:level":{}}}`
	metadataField = `{"f:metadata":{"f:labels":{"f:x":{}}}}`
	appliedField  = `{"f:metadata":{"f:annotations":{"f:kubectl.kubernetes.io/last-applied-configuration":{}}}}`
	immutable     = `{"f:data":{"f:color":{}},"f:immutable":{}}`
)

// app makes the metadata of configmap/app.
func app(created int, entries ...metav1.ManagedFieldsEntry) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "app", CreationTimestamp: at(created), ManagedFields: entries, ResourceVersion: "10"}}
}

// Rule 26.
func TestWhenASourceChanged(t *testing.T) {
	untimed := wrote(0, colorField)
	untimed.Time = nil
	tests := map[string]struct {
		meta *metav1.PartialObjectMetadata
		keys []string
		want int
		why  string
	}{
		"the last client that wrote content":             {app(1, wrote(5, colorField), wrote(7, levelField)), nil, 7, ""},
		"of one key":                                     {app(1, wrote(5, colorField), wrote(7, levelField)), []string{"color"}, 5, ""},
		"of a key that no one has, which may be removed": {app(1, wrote(5, colorField), wrote(7, levelField)), []string{"size"}, 7, ""},
		"not the client that wrote metadata only":        {app(1, wrote(5, colorField), wrote(9, metadataField)), nil, 5, ""},
		"a manifest without content was applied":         {app(1, wrote(5, colorField), wrote(9, appliedField)), nil, 9, ""},
		"binary data":                                    {app(1, wrote(6, `{"f:binaryData":{"f:color":{}}}`)), []string{"color"}, 6, ""},
		"no earlier than it was created":                 {app(8, wrote(5, colorField)), nil, 8, ""},
		"managed fields that were cleared":               {app(3), nil, 3, "do not say who"},
		"only metadata has a writer":                     {app(3, wrote(5, metadataField)), nil, 3, "do not say who"},
		"an entry without a time":                        {app(3, untimed, wrote(4, levelField)), nil, 4, "do not say when"},
		"an entry without fields":                        {app(3, metav1.ManagedFieldsEntry{}), nil, 3, "do not say when"},
		"an entry that cannot be read":                   {app(3, wrote(5, `{"f:data":[]}`), wrote(4, levelField)), []string{"level"}, 4, "do not say when"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			source := NewSource(pin.ConfigMap, test.meta, false)
			changed, why := source.changed(test.keys)
			if !changed.Equal(at(test.want).Time) || !strings.Contains(why, test.why) || (why == "") != (test.why == "") {
				t.Errorf("%s, %q; want second %d, %q", changed, why, test.want, test.why)
			}
		})
	}
}

// pod makes a pod that runs since a second.
func pod(started int, spec *corev1.PodSpec) *corev1.Pod {
	spec.NodeName = "node"
	since := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(started)}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", CreationTimestamp: at(started), ResourceVersion: "20",
			ManagedFields: []metav1.ManagedFieldsEntry{wrote(started, "{}")}},
		Spec:   *spec,
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: since}}},
	}
}

// mounting mounts the first volume.
func mounting(subPath string) gen.PodSpecModifier {
	return func(spec *corev1.PodSpec) {
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "volume-0", SubPath: subPath})
	}
}

// inInit moves the container to the init containers, ended.
func inInit(started int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.InitContainers = pod.Spec.Containers
		pod.Spec.Containers = []corev1.Container{{Name: "main"}}
		ended := &corev1.ContainerStateTerminated{StartedAt: at(started), FinishedAt: at(started + 1)}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Terminated: ended}}}
		pod.Status.ContainerStatuses = nil
	}
}

// Rules 25 and 27: what is known about a container that reads configmap/app.
func TestWhatIsKnownAboutARead(t *testing.T) {
	env, file, subPath := []gen.PodSpecModifier{gen.EnvFrom("configmap/app")},
		[]gen.PodSpecModifier{gen.Volume("configmap/app"), mounting("")}, []gen.PodSpecModifier{gen.Volume("configmap/app"), mounting("color")}
	projected := []gen.PodSpecModifier{gen.Projected(gen.Part("configmap/app")), mounting("")}
	edited := app(1000, wrote(2000, colorField))
	older := func(p *corev1.Pod) { p.CreationTimestamp = at(1500) }
	tests := map[string]struct {
		meta    *metav1.PartialObjectMetadata // nil: it does not exist
		reads   []gen.PodSpecModifier
		started int
		change  func(*corev1.Pod)
		hidden  bool
		want    Reason
		why     string
	}{
		"variables from before the change":              {edited, env, 1500, nil, false, StalePods, ""},
		"a mount of a part from before the change":      {edited, subPath, 1500, nil, false, StalePods, ""},
		"files that the kubelet updates":                {edited, file, 1500, nil, false, FilesChanged, ""},
		"projected files that the kubelet updates":      {edited, projected, 1500, nil, false, FilesChanged, ""},
		"an init container that ended before":           {edited, file, 1500, inInit(1500), false, StalePods, ""},
		"an init container that started after":          {edited, file, 1500, inInit(2500), false, "", ""},
		"well after the change":                         {edited, env, 2500, nil, false, "", ""},
		"in the same second":                            {edited, env, 2000, nil, false, StalenessUnknown, "at most 3m0s after"},
		"a new pod, after the change":                   {edited, env, 2001, nil, false, "", ""},
		"restarted in place, soon after the change":     {edited, env, 2180, older, false, StalenessUnknown, "at most 3m0s after"},
		"files, restarted in place":                     {edited, file, 2100, older, false, StalenessUnknown, "at most 3m0s after"},
		"restarted in place, after the margin":          {edited, env, 2181, older, false, "", ""},
		"created together with its source":              {app(1000, wrote(1000, colorField)), env, 1000, nil, false, StalenessUnknown, "at most 3m0s after"},
		"a source that was recreated":                   {app(2000, wrote(2000, colorField)), env, 1500, nil, false, StalePods, ""},
		"recreated, with managed fields that are gone":  {app(2000), env, 1500, nil, false, StalePods, ""},
		"managed fields that are gone":                  {app(1000), env, 1500, nil, false, StalenessUnknown, "who wrote"},
		"only metadata changed":                         {app(1000, wrote(1000, colorField), wrote(2000, metadataField)), env, 1500, nil, false, "", ""},
		"another key changed":                           {app(1000, wrote(1000, colorField), wrote(2000, levelField)), []gen.PodSpecModifier{gen.Env("configmap/app", "color")}, 1500, nil, false, "", ""},
		"a source that is gone":                         {nil, env, 1500, nil, false, SourceMissing, ""},
		"an optional source that is gone, or never was": {nil, []gen.PodSpecModifier{gen.EnvFrom("configmap/app", gen.Optional(true))}, 1500, nil, false, StalenessUnknown, "does not exist"},
		"a source that the user may not see":            {nil, env, 1500, nil, true, StalenessUnknown, "may not list ConfigMaps"},
		"a container that waits to start again": {edited, env, 1500, func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
		}, false, "", ""},
		"a container that was restarted after the change": {edited, env, 2500, older, false, "", ""},
		"a container that does not say since when": {edited, env, 0, func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{}
		}, false, StalenessUnknown, "does not say when"},
		"a pod without any status of its containers":      {edited, env, 0, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, false, StalenessUnknown, "does not say when"},
		"written after the pod was, without a record":     {edited, env, 2500, func(p *corev1.Pod) { p.ResourceVersion = "5" }, false, StalenessUnknown, "a key is removed"},
		"files of an immutable source that was recreated": {app(2000, wrote(2000, immutable)), file, 1500, nil, false, StalePods, ""},
		"an immutable source that was recreated after the pod, started since": {app(2000, wrote(2000, immutable)), env, 2500,
			older, false, StalenessUnknown, "kubelet may serve"},
		"an immutable source that is older than the pod": {app(1000, wrote(1000, immutable)), env, 2500, nil, false, "", ""},
		"what the cluster itself keeps writing":          {nil, []gen.PodSpecModifier{gen.EnvFrom("configmap/kube-root-ca.crt")}, 1500, nil, false, "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reading := pod(test.started, gen.PodSpec(test.reads...))
			if test.change != nil {
				test.change(reading)
			}
			snapshot := Snapshot{Margin: margin, Pods: []Pod{NewPod(reading)}, Hidden: map[pin.Kind]bool{pin.ConfigMap: test.hidden}}
			if test.meta != nil {
				snapshot.Sources = []Source{NewSource(pin.ConfigMap, test.meta, false)}
			}
			found := Run(snapshot).Findings
			if test.want == "" {
				if len(found) > 0 {
					t.Errorf("found %+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Reason != test.want || found[0].Pods != 1 || !strings.Contains(found[0].Message, test.why) || found[0].Fix == "" {
				t.Errorf("found %+v, want %s with %q", found, test.want, test.why)
			}
		})
	}
}

// A pod that has ended, or is being deleted, concerns no one.
func TestPodsThatEndAreNotJudged(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"it succeeded":        func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"it failed":           func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"it is being deleted": func(p *corev1.Pod) { now := at(1); p.DeletionTimestamp = &now },
	} {
		t.Run(name, func(t *testing.T) {
			ended := pod(1500, gen.PodSpec(gen.EnvFrom("configmap/app")))
			change(ended)
			report := Run(Snapshot{Pods: []Pod{NewPod(ended)}, Sources: []Source{NewSource(pin.ConfigMap, app(1, wrote(2000, colorField)), false)}})
			if len(report.Findings) > 0 || report.Summary.Pods != 0 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// Each way of each container is a read of its own.
func TestReadsOfContainers(t *testing.T) {
	spec := gen.PodSpec(gen.Volume("configmap/app"), gen.Container("idle"), gen.InitContainer("first", gen.Env("secret/db", "password")))
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "volume-0"}, {Name: "volume-0", SubPathExpr: "$(X)"}}
	want := map[podspec.Way]string{podspec.Env: "first secret/db", podspec.File: "app configmap/app", podspec.SubPath: "app configmap/app"}
	reads := podspec.Reads(spec)
	for _, read := range reads {
		if got := read.Container + " " + read.String(); got != want[read.Way] {
			t.Errorf("%s: %s", read.Way, got)
		}
	}
	if len(reads) != 3 {
		t.Errorf("%+v", reads)
	}
}
