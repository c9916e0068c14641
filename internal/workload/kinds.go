package workload

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds is the set of kinds of workloads that confrev handles: those that the cluster serves and that confrev may read. It grows
// when a custom resource is installed while confrev runs. It is safe for concurrent use.
type Kinds struct {
	mu     sync.RWMutex
	served []Kind
}

// Add adds a kind.
func (k *Kinds) Add(kind Kind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.served = append(slices.Clone(k.served), kind)
}

// All returns the kinds, in a slice that the caller must not change.
func (k *Kinds) All() []Kind {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.served
}

// Holders returns the kinds of holders, each once.
func (k *Kinds) Holders() []HolderKind {
	var holders []HolderKind
	for _, kind := range k.All() {
		if !slices.Contains(holders, kind.Holder) {
			holders = append(holders, kind.Holder)
		}
	}
	return holders
}

// Referring returns the kinds whose objects may use the template of another workload (Kind.Refers).
func (k *Kinds) Referring() []Kind {
	return slices.DeleteFunc(slices.Clone(k.All()), func(kind Kind) bool { return !kind.Refers })
}

// Of returns the kind of the workload that an owner reference names, and reports whether it is one of the kinds.
func (k *Kinds) Of(reference metav1.OwnerReference) (Kind, bool) {
	named := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).GroupKind()
	for _, kind := range k.All() {
		if kind.GVK.GroupKind() == named {
			return kind, true
		}
	}
	return Kind{}, false
}

// IsWorkload reports whether an owner reference names a workload.
func (k *Kinds) IsWorkload(reference metav1.OwnerReference) bool {
	_, is := k.Of(reference)
	return is
}

// IsUser reports whether an owner reference names a workload or a holder.
func (k *Kinds) IsUser(reference metav1.OwnerReference) bool {
	named := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).GroupKind()
	return k.IsWorkload(reference) || slices.ContainsFunc(k.Holders(), func(h HolderKind) bool { return h.GVK.GroupKind() == named })
}
