// Package podspec finds the ConfigMaps and Secrets that a pod spec refers to, and rewrites those references (rule 1).
//
// Finding and rewriting share one walk, so they can never disagree about what a reference is.
package podspec

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/pin"
)

// Use is how a pod spec uses one source, in all its references to it.
type Use struct {
	pin.Source
	// All is true if some reference takes the whole object (envFrom, a volume without items), so that every key counts.
	All bool
	// Keys are the keys that references name one by one, sorted.
	Keys []string
	// RequiredKeys are those of Keys without which a container cannot start, sorted.
	RequiredKeys []string
	// Required is true if the pod cannot start without the object.
	Required bool
}

// Uses returns the sources that spec refers to, each once, sorted by source. It does not change spec. What no object can have as its name is
// no source.
func Uses(spec *corev1.PodSpec) []Use {
	found := map[pin.Source]*Use{}
	walk(spec, func(ref reference) {
		use := found[ref.source()]
		if use == nil {
			if !ref.source().IsValid() {
				return
			}
			use = &Use{Source: ref.source()}
			found[use.Source] = use
		}
		use.add(ref)
	})
	uses := make([]Use, 0, len(found))
	for _, use := range found {
		use.Keys = sortedSet(use.Keys)
		use.RequiredKeys = sortedSet(use.RequiredKeys)
		uses = append(uses, *use)
	}
	slices.SortFunc(uses, func(a, b Use) int { return a.Compare(b.Source) })
	return uses
}

func (u *Use) add(ref reference) {
	u.Required = u.Required || !isTrue(*ref.optional)
	if ref.keys == nil {
		u.All = true
		return
	}
	u.Keys = append(u.Keys, ref.keys...)
	if !isTrue(*ref.optional) {
		u.RequiredKeys = append(u.RequiredKeys, ref.keys...)
	}
}

func sortedSet(keys []string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Rewrite replaces, in place, the name in every reference whose source resolve knows, and returns what it replaced.
func Rewrite(spec *corev1.PodSpec, resolve func(pin.Source) (name string, known bool)) []Replacement {
	return replace(spec, resolve, func(name *string, with string) { *name = with })
}

// Replacements returns what Rewrite would replace, and changes nothing.
func Replacements(spec *corev1.PodSpec, resolve func(pin.Source) (name string, known bool)) []Replacement {
	return replace(spec, resolve, func(*string, string) {})
}

func replace(spec *corev1.PodSpec, resolve func(pin.Source) (string, bool), set func(name *string, with string)) []Replacement {
	var replaced []Replacement
	walk(spec, func(ref reference) {
		if name, known := resolve(ref.source()); known && name != *ref.name {
			set(ref.name, name)
			replaced = append(replaced, Replacement{Pointer: ref.pointer, Name: name})
		}
	})
	return replaced
}

// Original returns a pod spec as the user wrote it: with injection into the template, references name the revisions of pins, and
// Original makes them name the sources again. The references may be older than the newest pins, so several sets may be passed. It
// returns a copy if there are such references, otherwise spec itself.
func Original(spec *corev1.PodSpec, pins ...pin.Set) *corev1.PodSpec {
	sources := pin.Inverse(pins...)
	injected := false
	walk(spec, func(ref reference) {
		_, is := sources[ref.source()]
		injected = injected || is
	})
	if !injected {
		return spec
	}
	original := spec.DeepCopy()
	Rewrite(original, func(named pin.Source) (string, bool) {
		source, is := sources[named]
		return source.Name, is
	})
	return original
}

// Replacement is a reference that now names something else.
type Replacement struct {
	// Pointer is the JSON pointer of the name within the pod spec: "/volumes/0/configMap/name".
	Pointer string
	Name    string
}

// MaxReferences is the number of references that a pod may have for its pins to be resolved. The API server's limit on the cost of
// CEL allows a fifth more with MaxPins pins, and half more with one pin of the longest name (Kubernetes 1.36). Also, each reference
// makes the creation of the pod slower.
const MaxReferences = 4000

// References returns the number of references in spec, with repetitions. The work of admission for a pod grows with it.
func References(spec *corev1.PodSpec) int {
	count := 0
	walk(spec, func(reference) { count++ })
	return count
}

// reference is one place in a pod spec that names a source.
type reference struct {
	kind pin.Kind
	name *string
	// pointer is the JSON pointer of the name within the pod spec.
	pointer string
	// keys are the keys that it takes; nil means all of them.
	keys []string
	// optional points to the reference's own field of that name.
	optional **bool
	// container is the name of the container that it is in; volume is that of the volume. One of them is empty.
	container, volume string
}

func (r reference) source() pin.Source { return pin.Source{Kind: r.kind, Name: *r.name} }

// walk visits every reference of spec, in the spec's order. References without a name are skipped: the API server accepts some of
// them, and they refer to nothing. Ephemeral containers are not in templates (rule 1).
func walk(spec *corev1.PodSpec, visit func(reference)) {
	named := func(ref reference) {
		if *ref.name != "" {
			visit(ref)
		}
	}
	for i := range spec.Volumes {
		walkVolume(&spec.Volumes[i], at("/volumes/", i), named)
	}
	for i := range spec.InitContainers {
		walkContainer(&spec.InitContainers[i], at("/initContainers/", i), named)
	}
	for i := range spec.Containers {
		walkContainer(&spec.Containers[i], at("/containers/", i), named)
	}
}

// newReference returns a reference, without where it is.
func newReference(kind pin.Kind, name *string, pointer string, keys []string, optional **bool) reference {
	return reference{kind: kind, name: name, pointer: pointer, keys: keys, optional: optional}
}

func at(list string, i int) string { return list + strconv.Itoa(i) }

func walkVolume(volume *corev1.Volume, path string, visitAny func(reference)) {
	visit := func(ref reference) {
		ref.volume = volume.Name
		visitAny(ref)
	}
	if v := volume.ConfigMap; v != nil {
		visit(newReference(pin.ConfigMap, &v.Name, path+"/configMap/name", itemKeys(v.Items), &v.Optional))
	}
	if v := volume.Secret; v != nil {
		visit(newReference(pin.Secret, &v.SecretName, path+"/secret/secretName", itemKeys(v.Items), &v.Optional))
	}
	if volume.Projected == nil {
		return
	}
	for i := range volume.Projected.Sources {
		path := path + at("/projected/sources/", i)
		if p := volume.Projected.Sources[i].ConfigMap; p != nil {
			visit(newReference(pin.ConfigMap, &p.Name, path+"/configMap/name", itemKeys(p.Items), &p.Optional))
		}
		if p := volume.Projected.Sources[i].Secret; p != nil {
			visit(newReference(pin.Secret, &p.Name, path+"/secret/name", itemKeys(p.Items), &p.Optional))
		}
	}
}

func walkContainer(container *corev1.Container, path string, visitAny func(reference)) {
	visit := func(ref reference) {
		ref.container = container.Name
		visitAny(ref)
	}
	for i := range container.EnvFrom {
		path := path + at("/envFrom/", i)
		if from := container.EnvFrom[i].ConfigMapRef; from != nil {
			visit(newReference(pin.ConfigMap, &from.Name, path+"/configMapRef/name", nil, &from.Optional))
		}
		if from := container.EnvFrom[i].SecretRef; from != nil {
			visit(newReference(pin.Secret, &from.Name, path+"/secretRef/name", nil, &from.Optional))
		}
	}
	for i := range container.Env {
		path := path + at("/env/", i) + "/valueFrom"
		from := container.Env[i].ValueFrom
		if from == nil {
			continue
		}
		if ref := from.ConfigMapKeyRef; ref != nil {
			visit(newReference(pin.ConfigMap, &ref.Name, path+"/configMapKeyRef/name", []string{ref.Key}, &ref.Optional))
		}
		if ref := from.SecretKeyRef; ref != nil {
			visit(newReference(pin.Secret, &ref.Name, path+"/secretKeyRef/name", []string{ref.Key}, &ref.Optional))
		}
	}
}

// itemKeys returns the keys of a volume's items, or nil, for all keys, if it lists none.
func itemKeys(items []corev1.KeyToPath) []string {
	if len(items) == 0 {
		return nil
	}
	keys := make([]string, 0, len(items))
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	return keys
}

func isTrue(b *bool) bool { return b != nil && *b }

// Resolution is a field of a pod spec that admission changes (rule 1): the name in a reference, or whether it is optional.
type Resolution struct {
	// Pointer is the JSON pointer of the field within the pod spec.
	Pointer string
	Value   any
}

// Resolve changes a pod as admission does, in place, and returns what it changed. References to a pinned source then name its
// revision, and references to a whole revision are no longer optional, so that a pod whose revision is lost waits instead of
// starting without its configuration. If a reference names keys, `optional` is about the keys too, and is kept.
func Resolve(spec *corev1.PodSpec, pins pin.Set) []Resolution {
	all := newResolver(pins)
	walk(spec, all.visit)
	return all.resolved
}

type resolver struct {
	pins      pin.Set
	revisions map[pin.Source]pin.Source
	resolved  []Resolution
}

func newResolver(pins pin.Set) *resolver { return &resolver{pins: pins, revisions: pin.Inverse(pins)} }

func (r *resolver) visit(ref reference) {
	name, pinned := r.pins.Resolve(ref.source())
	// With injection into the template, the reference names the revision already.
	_, injected := r.revisions[ref.source()]
	if pinned && name != *ref.name {
		*ref.name = name
		r.resolved = append(r.resolved, Resolution{ref.pointer, name})
	}
	if (pinned || injected) && ref.keys == nil && isTrue(*ref.optional) {
		*ref.optional = new(false)
		r.resolved = append(r.resolved, Resolution{ref.pointer[:strings.LastIndex(ref.pointer, "/")] + "/optional", false})
	}
}
