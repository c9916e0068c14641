package podspec

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/pin"
)

// Way is how a container reads a source.
type Way string

const (
	// Env is a variable. A container gets its variables when it starts, and again at each restart.
	Env Way = "env"
	// SubPath is a mount of a part of a volume. The kubelet mounts it when the container starts, and does not update it.
	SubPath Way = "subPath"
	// File is a mount of a volume. The kubelet updates its files while the container runs.
	File Way = "file"
)

// Read is one way in which one container reads one source.
type Read struct {
	pin.Source
	// Container is the name of a container or an init container.
	Container string
	Way       Way
	// Keys are those that it reads; nil means all of them.
	Keys []string
	// Optional is true if the container can start without the source.
	Optional bool
}

// Reads returns how the containers of a pod spec read sources, in the order of the spec. A volume that no container mounts is read by
// none.
func Reads(spec *corev1.PodSpec) []Read {
	var reads []Read
	volumes := map[string][]Read{}
	walk(spec, func(ref reference) {
		if !ref.source().IsValid() {
			return
		}
		read := Read{Source: ref.source(), Container: ref.container, Way: Env, Keys: ref.keys, Optional: isTrue(*ref.optional)}
		if ref.volume != "" {
			volumes[ref.volume] = append(volumes[ref.volume], read)
			return
		}
		reads = append(reads, read)
	})
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			reads = append(reads, mounted(&list[i], volumes)...)
		}
	}
	return reads
}

// mounted returns what a container reads of volumes.
func mounted(container *corev1.Container, volumes map[string][]Read) []Read {
	var reads []Read
	for _, mount := range container.VolumeMounts {
		for _, read := range volumes[mount.Name] {
			read.Container, read.Way = container.Name, File
			if mount.SubPath != "" || mount.SubPathExpr != "" {
				read.Way = SubPath
			}
			reads = append(reads, read)
		}
	}
	return reads
}

// Named returns all ConfigMaps and Secrets that a pod spec names in any place, each once and sorted: its references, and what rule 1
// leaves alone.
func Named(spec *corev1.PodSpec) []pin.Source {
	var named []pin.Source
	secret := func(name string) { named = append(named, pin.Source{Kind: pin.Secret, Name: name}) }
	ref := func(r *corev1.LocalObjectReference) {
		if r != nil {
			secret(r.Name)
		}
	}
	for _, use := range Uses(spec) {
		named = append(named, use.Source)
	}
	debug := corev1.PodSpec{}
	for _, container := range spec.EphemeralContainers {
		debug.Containers = append(debug.Containers, corev1.Container(container.EphemeralContainerCommon))
	}
	for _, use := range Uses(&debug) {
		named = append(named, use.Source)
	}
	for i := range spec.ImagePullSecrets {
		ref(&spec.ImagePullSecrets[i])
	}
	for i := range spec.Volumes {
		credentials(&spec.Volumes[i], secret, ref)
	}
	named = slices.DeleteFunc(named, func(s pin.Source) bool { return s.Name == "" })
	slices.SortFunc(named, pin.Source.Compare)
	return slices.Compact(named)
}

// credentials visits the Secrets with which a storage driver mounts a volume.
func credentials(v *corev1.Volume, secret func(string), ref func(*corev1.LocalObjectReference)) {
	if v.AzureFile != nil {
		secret(v.AzureFile.SecretName)
	}
	if v.CephFS != nil {
		ref(v.CephFS.SecretRef)
	}
	if v.Cinder != nil {
		ref(v.Cinder.SecretRef)
	}
	if v.CSI != nil {
		ref(v.CSI.NodePublishSecretRef)
	}
	if v.FlexVolume != nil {
		ref(v.FlexVolume.SecretRef)
	}
	if v.ISCSI != nil {
		ref(v.ISCSI.SecretRef)
	}
	if v.RBD != nil {
		ref(v.RBD.SecretRef)
	}
	if v.ScaleIO != nil {
		ref(v.ScaleIO.SecretRef)
	}
	if v.StorageOS != nil {
		ref(v.StorageOS.SecretRef)
	}
}
