package change

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// volumeRequest is a volume that is to be mounted.
type volumeRequest struct {
	kind, name, configMap, secret, claim, mountPath, subPath string
	containers                                               []string
	readOnly                                                 bool
}

// add returns the operations that mount the volume.
func (r volumeRequest) add(spec *corev1.PodSpec) ([]jsonpatch.Operation, error) {
	volume, err := r.volume()
	if err != nil {
		return nil, err
	}
	if !path.IsAbs(r.mountPath) {
		return nil, fmt.Errorf("--mount-path=%s: want an absolute path", r.mountPath)
	}
	var ops []jsonpatch.Operation
	existing := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name })
	switch {
	case existing < 0 && len(spec.Volumes) == 0:
		ops = append(ops, jsonpatch.NewOperation("add", "/volumes", []corev1.Volume{volume}))
	case existing < 0:
		ops = append(ops, jsonpatch.NewOperation("add", "/volumes/-", volume))
	case describeVolume(spec.Volumes[existing]) != describeVolume(volume):
		return nil, fmt.Errorf("volume %s is %s already; give another --name", volume.Name, describeVolume(spec.Volumes[existing]))
	}
	mounts, err := r.mounts(spec, corev1.VolumeMount{Name: volume.Name, MountPath: r.mountPath, SubPath: r.subPath, ReadOnly: r.readOnly})
	return append(ops, mounts...), err
}

// mounts returns the operations that mount a volume in the containers that are asked for.
func (r volumeRequest) mounts(spec *corev1.PodSpec, mount corev1.VolumeMount) ([]jsonpatch.Operation, error) {
	var ops []jsonpatch.Operation
	for _, name := range r.containers {
		if !slices.ContainsFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == name }) {
			return nil, fmt.Errorf("it has no container %s", name)
		}
	}
	for i, container := range spec.Containers {
		if len(r.containers) > 0 && !slices.Contains(r.containers, container.Name) {
			continue
		}
		at := slices.IndexFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == mount.MountPath })
		list := fmt.Sprintf("/containers/%d/volumeMounts", i)
		switch {
		case at >= 0 && container.VolumeMounts[at].Name == mount.Name && container.VolumeMounts[at].SubPath == mount.SubPath &&
			container.VolumeMounts[at].ReadOnly == mount.ReadOnly:
		case at >= 0:
			return nil, fmt.Errorf("container %s has volume %s mounted at %s already", container.Name, container.VolumeMounts[at].Name, mount.MountPath)
		case len(container.VolumeMounts) == 0:
			ops = append(ops, jsonpatch.NewOperation("add", list, []corev1.VolumeMount{mount}))
		default:
			ops = append(ops, jsonpatch.NewOperation("add", list+"/-", mount))
		}
	}
	return ops, nil
}

// volume makes the volume of a request.
func (r volumeRequest) volume() (corev1.Volume, error) {
	named := map[string]string{"configmap": r.configMap, "secret": r.secret, "pvc": r.claim, "emptydir": "scratch"}
	flags := map[string]string{"configmap": "--configmap-name", "secret": "--secret-name", "pvc": "--claim-name"}
	name, known := named[r.kind]
	if !known {
		return corev1.Volume{}, fmt.Errorf("--type=%s: want configmap, secret, pvc or emptydir", r.kind)
	}
	if name == "" {
		return corev1.Volume{}, fmt.Errorf("--type=%s needs %s", r.kind, flags[r.kind])
	}
	for kind, flag := range flags {
		if kind != r.kind && named[kind] != "" {
			return corev1.Volume{}, fmt.Errorf("%s does not go with --type=%s", flag, r.kind)
		}
	}
	volume := corev1.Volume{Name: r.name}
	if volume.Name == "" {
		volume.Name = strings.ReplaceAll(name, ".", "-")
	}
	if wrong := validation.IsDNS1123Label(volume.Name); len(wrong) > 0 {
		return volume, fmt.Errorf("%q is no name for a volume, give another with --name: %s", volume.Name, wrong[0])
	}
	switch r.kind {
	case "configmap":
		volume.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
	case "secret":
		volume.Secret = &corev1.SecretVolumeSource{SecretName: name}
	case "pvc":
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
	default:
		volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	return volume, nil
}

// removeVolume returns the operations that remove a volume and its mounts, the last of each list first.
func removeVolume(spec *corev1.PodSpec, name string) ([]jsonpatch.Operation, error) {
	if name == "" {
		return nil, fmt.Errorf("no volume given: name it with --name")
	}
	at := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("it has no volume %s", name)
	}
	ops := []jsonpatch.Operation{jsonpatch.NewOperation("remove", fmt.Sprintf("/volumes/%d", at), nil)}
	for list, containers := range map[string][]corev1.Container{"containers": spec.Containers, "initContainers": spec.InitContainers} {
		for i, container := range containers {
			for j, mount := range slices.Backward(container.VolumeMounts) {
				if mount.Name == name {
					ops = append(ops, jsonpatch.NewOperation("remove", fmt.Sprintf("/%s/%d/volumeMounts/%d", list, i, j), nil))
				}
			}
		}
	}
	return ops, nil
}

func describeVolume(v corev1.Volume) string {
	switch {
	case v.ConfigMap != nil:
		return "configmap/" + v.ConfigMap.Name
	case v.Secret != nil:
		return "secret/" + v.Secret.SecretName
	case v.PersistentVolumeClaim != nil:
		return "pvc/" + v.PersistentVolumeClaim.ClaimName
	case v.EmptyDir != nil:
		return "emptydir"
	case v.Projected != nil:
		return "projected"
	}
	return "another type"
}
