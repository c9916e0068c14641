package controller

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/workload"
)

// kinds are the kinds of workloads that are at work: those that the cluster serves and that confrev may read. More come
// while it runs, when a custom resource is installed after it.
type kinds struct {
	mu     sync.RWMutex
	served []workload.Kind
}

func (k *kinds) add(kind workload.Kind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.served = append(slices.Clone(k.served), kind)
}

// all gives the kinds; the caller does not change the slice.
func (k *kinds) all() []workload.Kind {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.served
}

// holders gives the kinds of holders, each once.
func (k *kinds) holders() []workload.HolderKind {
	var holders []workload.HolderKind
	for _, kind := range k.all() {
		if !slices.Contains(holders, kind.Holder) {
			holders = append(holders, kind.Holder)
		}
	}
	return holders
}

// referring gives the kinds whose objects may name another workload that has their template.
func (k *kinds) referring() []workload.Kind {
	return slices.DeleteFunc(slices.Clone(k.all()), func(kind workload.Kind) bool { return !kind.Refers })
}

// of gives the kind of a workload that an owner reference names.
func (k *kinds) of(reference metav1.OwnerReference) (workload.Kind, bool) {
	named := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).GroupKind()
	for _, kind := range k.all() {
		if kind.GVK.GroupKind() == named {
			return kind, true
		}
	}
	return workload.Kind{}, false
}

// IsWorkload tells whether an owner reference names a workload.
func (k *kinds) IsWorkload(reference metav1.OwnerReference) bool {
	_, is := k.of(reference)
	return is
}

// IsUser tells whether an owner reference names a workload or a holder.
func (k *kinds) IsUser(reference metav1.OwnerReference) bool {
	named := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).GroupKind()
	return k.IsWorkload(reference) || slices.ContainsFunc(k.holders(), func(h workload.HolderKind) bool { return h.GVK.GroupKind() == named })
}
