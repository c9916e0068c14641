// Package gen makes objects for tests from modifiers:
//
//	gen.Deployment("web", gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/app")))
//
// Sources are written as pins write them: "configmap/app", "secret/db". A slip in one panics: it is a slip of the test.
package gen

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/pin"
)

// PodSpecModifier changes a pod spec that is being made.
type PodSpecModifier func(*corev1.PodSpec)

// PodSpec makes a pod spec with one container, "app".
func PodSpec(modifiers ...PodSpecModifier) *corev1.PodSpec {
	spec := &corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}}
	for _, modify := range modifiers {
		modify(spec)
	}
	return spec
}

// Container adds a container that has what the modifiers give the container "app" otherwise.
func Container(name string, modifiers ...PodSpecModifier) PodSpecModifier {
	return func(spec *corev1.PodSpec) {
		spec.Containers = append(spec.Containers, container(name, modifiers))
	}
}

// InitContainer adds an init container that has what the modifiers give the container "app" otherwise.
func InitContainer(name string, modifiers ...PodSpecModifier) PodSpecModifier {
	return func(spec *corev1.PodSpec) {
		spec.InitContainers = append(spec.InitContainers, container(name, modifiers))
	}
}

// EphemeralContainer adds an ephemeral container that has what the modifiers give the container "app" otherwise.
func EphemeralContainer(name string, modifiers ...PodSpecModifier) PodSpecModifier {
	return func(spec *corev1.PodSpec) {
		common := corev1.EphemeralContainerCommon(container(name, modifiers))
		spec.EphemeralContainers = append(spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: common})
	}
}

func container(name string, modifiers []PodSpecModifier) corev1.Container {
	made := PodSpec(modifiers...).Containers[0]
	made.Name = name
	return made
}

// EnvFrom makes the first container take all keys of a source as its environment.
func EnvFrom(source string, options ...RefOption) PodSpecModifier {
	ref := parse(source, options)
	var from corev1.EnvFromSource
	if ref.Kind == pin.Secret {
		from.SecretRef = &corev1.SecretEnvSource{LocalObjectReference: ref.object(), Optional: ref.optional}
	} else {
		from.ConfigMapRef = &corev1.ConfigMapEnvSource{LocalObjectReference: ref.object(), Optional: ref.optional}
	}
	return func(spec *corev1.PodSpec) {
		spec.Containers[0].EnvFrom = append(spec.Containers[0].EnvFrom, from)
	}
}

// Env makes the first container take one key of a source as a variable.
func Env(source, key string, options ...RefOption) PodSpecModifier {
	ref := parse(source, options)
	from := &corev1.EnvVarSource{}
	if ref.Kind == pin.Secret {
		from.SecretKeyRef = &corev1.SecretKeySelector{LocalObjectReference: ref.object(), Key: key, Optional: ref.optional}
	} else {
		from.ConfigMapKeyRef = &corev1.ConfigMapKeySelector{LocalObjectReference: ref.object(), Key: key, Optional: ref.optional}
	}
	return func(spec *corev1.PodSpec) {
		c := &spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VAR_%d", len(c.Env)), ValueFrom: from})
	}
}

// Volume adds a volume with a source: all its keys, or those of Items.
func Volume(source string, options ...RefOption) PodSpecModifier {
	ref := parse(source, options)
	var from corev1.VolumeSource
	if ref.Kind == pin.Secret {
		from.Secret = &corev1.SecretVolumeSource{SecretName: ref.Name, Items: ref.items, Optional: ref.optional}
	} else {
		from.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: ref.object(), Items: ref.items, Optional: ref.optional}
	}
	return volume(from)
}

// Projected adds a projected volume with the given parts; see Part.
func Projected(parts ...corev1.VolumeProjection) PodSpecModifier {
	return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: parts}})
}

// Part makes one part of a projected volume.
func Part(source string, options ...RefOption) corev1.VolumeProjection {
	ref := parse(source, options)
	if ref.Kind == pin.Secret {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: ref.object(), Items: ref.items, Optional: ref.optional}}
	}
	return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: ref.object(), Items: ref.items, Optional: ref.optional}}
}

func volume(from corev1.VolumeSource) PodSpecModifier {
	return func(spec *corev1.PodSpec) {
		name := fmt.Sprintf("volume-%d", len(spec.Volumes))
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: from})
	}
}

// RefOption changes a reference that is being made.
type RefOption func(*reference)

// Optional sets the reference's field optional.
func Optional(optional bool) RefOption { return func(r *reference) { r.optional = &optional } }

// Items makes a volume take these keys only.
func Items(keys ...string) RefOption {
	return func(r *reference) {
		r.items = []corev1.KeyToPath{}
		for _, key := range keys {
			r.items = append(r.items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
}

type reference struct {
	pin.Source
	items    []corev1.KeyToPath
	optional *bool
}

func (r reference) object() corev1.LocalObjectReference {
	return corev1.LocalObjectReference{Name: r.Name}
}

func parse(text string, options []RefOption) reference {
	ref := reference{Source: Source(text)}
	for _, option := range options {
		option(&ref)
	}
	return ref
}

// Source reads "configmap/app". Unlike pin.ParseSource it takes an empty name, which the API server accepts in places.
func Source(text string) pin.Source {
	for _, kind := range []pin.Kind{pin.ConfigMap, pin.Secret} {
		if prefix := string(kind) + "/"; len(text) >= len(prefix) && text[:len(prefix)] == prefix {
			return pin.Source{Kind: kind, Name: text[len(prefix):]}
		}
	}
	panic(fmt.Sprintf("gen: %q is not a source", text))
}

// Pins reads pins in their text form. Unlike pin.Parse it takes any names for revisions, as hashes have, so that tests of what
// follows from pins can use short ones.
func Pins(text string) pin.Set {
	pins, err := pin.ParseHashes(text)
	if err != nil {
		panic("gen: " + err.Error())
	}
	return pins
}

// Notes reads the text form of notes.
func Notes(text string) pin.Notes {
	notes, err := pin.ParseNotes(text)
	if err != nil {
		panic(err)
	}
	return notes
}
