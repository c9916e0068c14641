package workload

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// HolderKind adapts one kind of holder: an object that keeps one template of a workload alive, and owns the revisions that the
// template pins (rule 12).
type HolderKind struct {
	GVK schema.GroupVersionKind
	// Path is the path of the pod template, for configured kinds only.
	Path string
}

// The kinds of holders that confrev knows without configuration.
var (
	ReplicaSet         = HolderKind{GVK: appsv1.SchemeGroupVersion.WithKind("ReplicaSet")}
	ControllerRevision = HolderKind{GVK: appsv1.SchemeGroupVersion.WithKind("ControllerRevision")}
	Job                = HolderKind{GVK: batchv1.SchemeGroupVersion.WithKind("Job")}
)

// New returns an empty object to read into.
func (h HolderKind) New() client.Object { return newObject(h.GVK) }

// NewList returns an empty list to read into.
func (h HolderKind) NewList() client.ObjectList { return newList(h.GVK) }

// Facts are the few properties of a holder that confrev keeps in memory (rules 4 and 12), as JSON with short names.
type Facts struct {
	// Order is the higher, the later the workload last rolled out this template.
	Order int64 `json:"o,omitempty"`
	// First is the order of the first time, for ReplicaSets only: their controllers note it. 0 if no one noted it.
	First int64 `json:"f,omitempty"`
	// Pins and Hashes are annotations of the template, which may be malformed.
	Pins   string `json:"p,omitempty"`
	Hashes string `json:"h,omitempty"`
	// Code is a digest of what the template runs (podspec.Code).
	Code string `json:"c,omitempty"`
	// Succeeded is true for a Job that has.
	Succeeded bool `json:"s,omitempty"`
	// Failed is true for a Job that has.
	Failed bool `json:"x,omitempty"`
	// References are the sources that the template's pod spec names: "configmap/app".
	References []string `json:"r,omitempty"`
}

// sameTemplate reports whether two holders, or a workload and a holder, have the same template, as far as confrev cares.
func (f Facts) sameTemplate(as Facts) bool {
	return f.Code != "" && f.Code == as.Code && f.Pins == as.Pins && f.Hashes == as.Hashes
}

// factsPrefix begins the finalizer in which a reduced holder keeps its Facts; in a map of annotations, they would take 300 bytes more. The API server would
// refuse a finalizer with spaces, so it cannot come from a user.
const factsPrefix = "reduced "

// Facts returns the facts of an object from the API server, or of one that was reduced. It returns none if the object is not
// a holder after all.
func (h HolderKind) Facts(obj client.Object) Facts {
	if kept := obj.GetFinalizers(); len(kept) == 1 {
		if text, reduced := strings.CutPrefix(kept[0], factsPrefix); reduced {
			var facts Facts
			if err := json.Unmarshal([]byte(text), &facts); err == nil {
				return facts
			}
		}
	}
	return factsOf(obj, h.Path)
}

// Template returns the pod template of a holder from the API server, which the caller must not change. It does not work on one that
// was reduced.
func (h HolderKind) Template(obj client.Object) (*corev1.PodTemplateSpec, error) {
	return templateOf(obj, h.Path)
}

// Facts returns the facts of a workload's template, in the same form as those of its holders.
func (k Kind) Facts(obj client.Object) Facts { return factsOf(obj, k.Path) }

func factsOf(obj client.Object, path string) Facts {
	template, err := templateOf(obj, path)
	if err != nil {
		return Facts{}
	}
	facts := Facts{Order: order(obj), First: first(obj), Pins: template.Annotations[keys.Pins], Hashes: template.Annotations[keys.Hashes], Succeeded: ended(obj, batchv1.JobComplete), Failed: ended(obj, batchv1.JobFailed)}
	// Malformed pins have injected nothing.
	pins, _ := pin.Parse(facts.Pins)
	facts.Code = podspec.CodeOf(&template.Spec, pins).Digest()
	for _, use := range podspec.Uses(&template.Spec) {
		facts.References = append(facts.References, use.String())
	}
	return facts
}

// orderAnnotations are the annotations in which controllers number the templates that they roll out. `kubectl rollout undo` and
// its counterpart for Argo Rollouts raise the number (k8s.io/kubectl/pkg/util/deployment, argo-rollouts/utils/annotations).
var orderAnnotations = []string{"deployment.kubernetes.io/revision", "rollout.argoproj.io/revision"}

// historySuffix makes them the annotations in which the same controllers note the numbers that a template had before it was rolled out again: "1,3".
const historySuffix = "-history"

// first returns the lowest number that a ReplicaSet ever had, or 0.
func first(obj client.Object) int64 {
	rs, ok := obj.(*appsv1.ReplicaSet)
	if !ok {
		return 0
	}
	var lowest int64
	for _, key := range orderAnnotations {
		for text := range strings.SplitSeq(rs.Annotations[key]+","+rs.Annotations[key+historySuffix], ",") {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && (lowest == 0 || n < lowest) {
				lowest = n
			}
		}
	}
	return lowest
}

// order returns when a template was last rolled out, relative to others of its workload. A ReplicaSet that has no number yet has
// order 0.
func order(obj client.Object) int64 {
	switch o := obj.(type) {
	case *appsv1.ReplicaSet:
		var highest int64
		for _, key := range orderAnnotations {
			if n, err := strconv.ParseInt(o.Annotations[key], 10, 64); err == nil {
				highest = max(highest, n)
			}
		}
		return highest
	case *appsv1.ControllerRevision:
		return o.Revision
	}
	return obj.GetCreationTimestamp().UnixNano()
}

// Restored reports whether the holder at index to may show a rollback from that at index from: some holder as old as from has its code. Otherwise it is
// of a later deploy, and what was rolled back to is pruned. Of a CronJob, only the last Jobs are left, so it may.
func (k Kind) Restored(all []client.Object, from, to int) bool {
	code := k.Holder.Facts(all[to]).Code
	return k.RunsJobs() || slices.ContainsFunc(all, func(h client.Object) bool {
		return h != nil && k.Holder.Facts(h).Code == code && k.Holder.asOld(h, all[from])
	})
}

// asOld reports whether a holder is as old as another one. Times of creation are in whole seconds; within one, the numbers of ReplicaSets tell.
func (h HolderKind) asOld(one, other client.Object) bool {
	if by := one.GetCreationTimestamp().Compare(other.GetCreationTimestamp().Time); by != 0 {
		return by < 0
	}
	return h.Facts(one).First <= h.Facts(other).Order
}

// Reduce returns what the cache keeps of a holder from the API server: its identity, its owners and its Facts. A holder of any kind is as small, which a
// Go type of its own would not be.
func (h HolderKind) Reduce(obj client.Object) *metav1.PartialObjectMetadata {
	text, err := json.Marshal(h.Facts(obj))
	if err != nil {
		// Strings and a number always encode.
		panic("workload: facts do not encode: " + err.Error())
	}
	// In one piece, of a size that hardly anything that is decoded has: what is thrown away leaves no holes between those that stay.
	piece := &struct {
		metav1.PartialObjectMetadata
		owners [1]metav1.OwnerReference
		facts  [1]string
	}{facts: [1]string{factsPrefix + string(text)}}
	reduced := &piece.PartialObjectMetadata
	reduced.SetGroupVersionKind(h.GVK)
	reduced.ObjectMeta = metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		CreationTimestamp: obj.GetCreationTimestamp(), DeletionTimestamp: obj.GetDeletionTimestamp(),
		Finalizers: piece.facts[:],
	}
	if owners := obj.GetOwnerReferences(); len(owners) > 0 {
		reduced.OwnerReferences = append(piece.owners[:0], owners...)
	}
	metadata.Share(reduced)
	return reduced
}

// Restore fills a list of NewList with what Reduce has left of holders.
func (h HolderKind) Restore(into client.ObjectList, reduced []metav1.PartialObjectMetadata) error {
	pointer, err := meta.GetItemsPtr(into)
	if err != nil {
		return err
	}
	items := reflect.ValueOf(pointer).Elem()
	items.Set(reflect.MakeSlice(items.Type(), len(reduced), len(reduced)))
	for i := range reduced {
		obj, ok := reflect.TypeAssert[client.Object](items.Index(i).Addr())
		if !ok {
			return fmt.Errorf("%T does not list holders", into)
		}
		obj.GetObjectKind().SetGroupVersionKind(h.GVK)
		setMeta(obj, reduced[i].ObjectMeta)
	}
	return nil
}

func setMeta(o client.Object, m metav1.ObjectMeta) {
	o.SetName(m.Name)
	o.SetNamespace(m.Namespace)
	o.SetUID(m.UID)
	o.SetResourceVersion(m.ResourceVersion)
	o.SetCreationTimestamp(m.CreationTimestamp)
	o.SetDeletionTimestamp(m.DeletionTimestamp)
	o.SetOwnerReferences(m.OwnerReferences)
	o.SetFinalizers(m.Finalizers)
}
