//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// podWith returns a pod with pins and a spec, which gets a container if it has none.
func podWith(pins string, spec corev1.PodSpec) *corev1.Pod {
	if len(spec.Containers) == 0 {
		spec.Containers = []corev1.Container{{Name: "app", Image: "example.com/app:1"}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{keys.Pins: pins}},
		Spec:       spec,
	}
}

// volumeOf returns a spec with one volume of a source.
func volumeOf(kind, name string) corev1.PodSpec {
	volume := corev1.Volume{Name: "config"}
	if pin.Kind(kind) == pin.Secret {
		volume.Secret = &corev1.SecretVolumeSource{SecretName: name}
	} else {
		volume.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
	}
	return corev1.PodSpec{Volumes: []corev1.Volume{volume}}
}

// allForms returns a spec for each form of reference (rule 1), with one reference to the source app.
func allForms(kind string) map[string]corev1.PodSpec {
	ref := sourceRef{kind: pin.Kind(kind), name: "app"}
	withEnv := func(name string) []corev1.Container {
		return []corev1.Container{{Name: name, Image: "example.com/app:1", Env: []corev1.EnvVar{ref.env("A")}}}
	}
	withEnvFrom := func(name string) []corev1.Container {
		return []corev1.Container{{Name: name, Image: "example.com/app:1", EnvFrom: []corev1.EnvFromSource{ref.envFrom()}}}
	}
	return map[string]corev1.PodSpec{
		"a volume":                  volumeOf(kind, "app"),
		"a projected volume":        {Volumes: []corev1.Volume{projected("all", ref)}},
		"env":                       {Containers: withEnv("app")},
		"envFrom":                   {Containers: withEnvFrom("app")},
		"env of initContainers":     {InitContainers: withEnv("init")},
		"envFrom of initContainers": {InitContainers: withEnvFrom("init")},
	}
}

// sourceRef is a reference to write into a pod in any of its forms.
type sourceRef struct {
	kind     pin.Kind
	name     string
	optional *bool
	items    []corev1.KeyToPath
}

func (r sourceRef) local() corev1.LocalObjectReference {
	return corev1.LocalObjectReference{Name: r.name}
}

func (r sourceRef) env(variable string) corev1.EnvVar {
	from := &corev1.EnvVarSource{}
	if r.kind == pin.Secret {
		from.SecretKeyRef = &corev1.SecretKeySelector{LocalObjectReference: r.local(), Key: "key", Optional: r.optional}
	} else {
		from.ConfigMapKeyRef = &corev1.ConfigMapKeySelector{LocalObjectReference: r.local(), Key: "key", Optional: r.optional}
	}
	return corev1.EnvVar{Name: variable, ValueFrom: from}
}

func (r sourceRef) envFrom() corev1.EnvFromSource {
	if r.kind == pin.Secret {
		return corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: r.local(), Optional: r.optional}}
	}
	return corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: r.local(), Optional: r.optional}}
}

func (r sourceRef) projection() corev1.VolumeProjection {
	if r.kind == pin.Secret {
		return corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: r.local(), Items: r.items, Optional: r.optional}}
	}
	return corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: r.local(), Items: r.items, Optional: r.optional}}
}

func (r sourceRef) volume(name string) corev1.Volume {
	volume := volumeOf(string(r.kind), r.name).Volumes[0]
	volume.Name = name
	if r.kind == pin.Secret {
		volume.Secret.Optional, volume.Secret.Items = r.optional, r.items
	} else {
		volume.ConfigMap.Optional, volume.ConfigMap.Items = r.optional, r.items
	}
	return volume
}

func projected(name string, refs ...sourceRef) corev1.Volume {
	volume := corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}
	for _, ref := range refs {
		volume.Projected.Sources = append(volume.Projected.Sources, ref.projection())
	}
	return volume
}

// volumesOfWidePod is how many references of a wide pod are in volumes.
const volumesOfWidePod = 2

// widePod returns a pod with many references: in initContainers, whose paths are the longest, and one each in a volume and
// a projected volume. They take turns over the pins, whose names have the given length. Those to whole sources are optional, which
// is the most work for admission.
func widePod(references, pins, nameLength, perContainer int, whole bool) (*corev1.Pod, pin.Set) {
	set := pin.Set{}
	// Names that differ at their beginning, since what revisions are called is cut at the end.
	name := func(i int) string { return fmt.Sprintf("%03d", i%pins) + strings.Repeat("0", nameLength-3) }
	for i := range pins {
		set[pin.Source{Kind: pin.ConfigMap, Name: name(i)}] = pin.Pin{Revision: pin.Base(name(i)) + "-5f7d8c9b2k", Number: pin.MaxNumber}
	}
	var containers []corev1.Container
	for i := range references {
		if i%perContainer == 0 {
			containers = append(containers, corev1.Container{Name: fmt.Sprintf("init-%d", i), Image: "example.com/app:1"})
		}
		last := &containers[len(containers)-1]
		if whole {
			last.EnvFrom = append(last.EnvFrom, sourceRef{kind: pin.ConfigMap, name: name(i), optional: new(true)}.envFrom())
			continue
		}
		last.Env = append(last.Env, sourceRef{kind: pin.ConfigMap, name: name(i)}.env(fmt.Sprintf("V%d", i)))
	}
	ref := sourceRef{kind: pin.ConfigMap, name: name(0), optional: new(true)}
	automount := false
	return podWith(set.String(), corev1.PodSpec{
		InitContainers:               containers,
		Volumes:                      []corev1.Volume{ref.volume("one"), projected("two", ref)},
		AutomountServiceAccountToken: &automount, // it would add a reference
	}), set
}

// sourceNames are few, so that references and pins meet, and related, so that a prefix would be mistaken for a name.
var sourceNames = []string{"app", "app2", "app.v1-x", "a", "0", "web", "db", "kube-root-ca.crt"}

var kinds = []pin.Kind{pin.ConfigMap, pin.Secret}

func drawRef(t *rapid.T) sourceRef {
	names := append(slices.Clone(sourceNames), "") // a name may be missing
	ref := sourceRef{kind: rapid.SampledFrom(kinds).Draw(t, "kind"), name: rapid.SampledFrom(names).Draw(t, "name")}
	if rapid.Bool().Draw(t, "says optional") {
		optional := rapid.Bool().Draw(t, "optional")
		ref.optional = &optional
	}
	if rapid.Bool().Draw(t, "has items") {
		ref.items = []corev1.KeyToPath{{Key: "key", Path: "file"}}
	}
	return ref
}

func drawPins(t *rapid.T) pin.Set {
	pins := pin.Set{}
	for range rapid.IntRange(1, 8).Draw(t, "pins") {
		source := pin.Source{
			Kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
			Name: rapid.SampledFrom(append(slices.Clone(sourceNames), "unused")).Draw(t, "name"),
		}
		if source.OfCluster() {
			continue
		}
		pins[source] = pin.Pin{
			Revision: source.Name + rapid.StringMatching(`-[bcdfghjklmnpqrstvwxz2456789]{10}`).Draw(t, "hash"),
			Number:   rapid.Int64Range(1, pin.MaxNumber).Draw(t, "number"),
		}
	}
	return pins
}

// drawPinsText returns pins, most with something wrong.
func drawPinsText(t *rapid.T) string {
	text := drawPins(t).String()
	broken := rapid.SampledFrom([]string{"", ",", "=", "@", "0", "A", " ", "/", "-", ".", "_", "\n", "é", "configmap/app=x@1,"})
	for range rapid.IntRange(0, 2).Draw(t, "insertions") {
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		text = text[:at] + broken.Draw(t, "broken") + text[at:]
	}
	return strings.ToValidUTF8(text, "")
}

func drawPod(t *rapid.T) *corev1.Pod {
	spec := corev1.PodSpec{}
	for i := range rapid.IntRange(0, 3).Draw(t, "init containers") {
		container := drawContainer(t, fmt.Sprintf("init-%d", i))
		if rapid.Bool().Draw(t, "sidecar") {
			always := corev1.ContainerRestartPolicyAlways
			container.RestartPolicy = &always
		}
		spec.InitContainers = append(spec.InitContainers, container)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "containers") {
		spec.Containers = append(spec.Containers, drawContainer(t, fmt.Sprintf("app-%d", i)))
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "volumes") {
		spec.Volumes = append(spec.Volumes, drawVolume(t, fmt.Sprintf("volume-%d", i)))
	}
	pod := podWith("", spec)
	pod.Spec.Containers = spec.Containers // a pod may lack them, and must meet the API server's own refusal
	return pod
}

// injectSome lets some references name the revisions of their sources already, as those of a template with injection do.
func injectSome(t *rapid.T, pod *corev1.Pod, pins pin.Set) {
	podspec.Rewrite(&pod.Spec, func(source pin.Source) (string, bool) {
		revision, pinned := pins.Resolve(source)
		return revision, pinned && rapid.IntRange(0, 2).Draw(t, "injected") == 0
	})
}

func drawContainer(t *rapid.T, name string) corev1.Container {
	container := corev1.Container{Name: name, Image: "example.com/app:1"}
	if rapid.Bool().Draw(t, "empty lists") {
		container.Env, container.EnvFrom = []corev1.EnvVar{}, []corev1.EnvFromSource{}
	}
	for range rapid.IntRange(0, 3).Draw(t, "envFrom") {
		container.EnvFrom = append(container.EnvFrom, drawRef(t).envFrom())
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "env") {
		container.Env = append(container.Env, drawEnv(t, fmt.Sprintf("V%d", i)))
	}
	return container
}

func drawEnv(t *rapid.T, name string) corev1.EnvVar {
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		return corev1.EnvVar{Name: name, Value: "app"}
	case 1:
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
	default:
		return drawRef(t).env(name)
	}
}

func drawVolume(t *rapid.T, name string) corev1.Volume {
	switch rapid.IntRange(0, 3).Draw(t, "form") {
	case 0:
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	case 1:
		return drawRef(t).volume(name)
	default:
		return drawProjected(t, name)
	}
}

func drawProjected(t *rapid.T, name string) corev1.Volume {
	volume := projected(name)
	if rapid.Bool().Draw(t, "empty list") {
		volume.Projected.Sources = []corev1.VolumeProjection{}
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "sources") {
		ref := drawRef(t)
		for j := range ref.items {
			// Two files of one path would be refused, with the name of a source.
			ref.items[j].Path = fmt.Sprintf("file-%d", i)
		}
		projection := ref.projection()
		if rapid.IntRange(0, 3).Draw(t, "other form") == 0 {
			projection = corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}
		}
		volume.Projected.Sources = append(volume.Projected.Sources, projection)
	}
	return volume
}
