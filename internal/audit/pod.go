package audit

import (
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// Pod is what an audit needs of a pod.
type Pod struct {
	Namespace, Name string
	Owner           Owner
	Node            string
	Created         time.Time
	// Live is false for a pod that has ended, or is being deleted.
	Live bool
	// Generation distinguishes the templates of its workload: by the ReplicaSet, or by the hash of a ControllerRevision.
	Generation string
	// Reads are those of sources that users write.
	Reads []podspec.Read
	// Names are all ConfigMaps and Secrets that it names in any place.
	Names []pin.Source

	version version
	starts  map[string]start
}

// Owner is the controller of a pod; empty if there is none.
type Owner struct {
	// Kind and Name are empty, too, if no object can have them.
	Kind, Name string
	UID        types.UID
}

// start is when a container started that may have read a source.
type start struct {
	// at is zero if it is not known.
	at time.Time
	// ended is true for an init container that has done its work: it read everything while it ran.
	ended bool
}

var (
	kindForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)
	nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
)

// NewPod returns what an audit needs of a pod. It keeps nothing else of it.
func NewPod(pod *corev1.Pod) Pod {
	p := Pod{
		Namespace: pod.Namespace, Name: pod.Name, Node: pod.Spec.NodeName, Created: pod.CreationTimestamp.Time,
		Live:  pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed,
		Reads: userReads(&pod.Spec), Names: podspec.Named(&pod.Spec), version: versionOf(pod), starts: startsOf(pod),
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		p.Owner.UID = owner.UID
		// The API server takes any text for both, and the command that fixes a finding may name them.
		if kindForm.MatchString(owner.Kind) && nameForm.MatchString(owner.Name) {
			p.Owner.Kind, p.Owner.Name = strings.Clone(owner.Kind), strings.Clone(owner.Name)
		}
	}
	p.Generation = pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	if p.Generation == "" {
		p.Generation = string(p.Owner.UID)
	}
	return p
}

// userReads returns how a pod spec reads sources, except those that the cluster itself keeps writing (rule 10).
func userReads(spec *corev1.PodSpec) []podspec.Read {
	return slices.DeleteFunc(podspec.Reads(spec), func(r podspec.Read) bool { return r.OfCluster() })
}

// startsOf returns when the containers of a pod started, by their names. Containers that do not run, and will read again when they
// start, are left out (rule 25).
func startsOf(pod *corev1.Pod) map[string]start {
	starts := map[string]start{}
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if ended := status.State.Terminated; ended != nil {
			starts[status.Name] = start{at: ended.StartedAt.Time, ended: true}
		}
		running(starts, status)
	}
	for i := range pod.Status.ContainerStatuses {
		running(starts, &pod.Status.ContainerStatuses[i])
	}
	if len(pod.Status.ContainerStatuses) == 0 && pod.Status.Phase == corev1.PodRunning {
		// It runs, and nothing says since when.
		for i := range pod.Spec.Containers {
			starts[pod.Spec.Containers[i].Name] = start{}
		}
	}
	return starts
}

func running(starts map[string]start, status *corev1.ContainerStatus) {
	if r := status.State.Running; r != nil {
		starts[status.Name] = start{at: r.StartedAt.Time}
	}
}

// subject names what a pod belongs to, as kubectl takes it.
func (a *auditor) subject(pod *Pod) subject {
	if w := a.workloadOf(pod); w != nil {
		return subject{pod.Namespace, w.String(), w}
	}
	if pod.Owner.Kind != "" {
		return subject{pod.Namespace, strings.ToLower(pod.Owner.Kind) + "/" + pod.Owner.Name, nil}
	}
	return subject{pod.Namespace, "pod/" + pod.Name, nil}
}

// subject is what a finding is about.
type subject struct {
	namespace, object string
	workload          *Workload
}
