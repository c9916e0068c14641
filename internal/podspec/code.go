package podspec

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"confrev.io/confrev/internal/pin"
)

// Code is what the containers of a pod spec run, field by field: "containers/app/image" is `"app:1"`. Two pod specs with equal
// code may differ in everything else (rule 21).
type Code map[string]string

// CodeOf returns the code of a pod spec, with the sources' own names where the spec names revisions of pins. It includes the API
// server's defaults even if the spec does not have them yet: some holders keep templates as they were written.
func CodeOf(spec *corev1.PodSpec, pins ...pin.Set) Code {
	code := Code{}
	spec = Original(spec, pins...)
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", spec.InitContainers}, {"containers", spec.Containers}} {
		for i := range list.containers {
			code.add(list.name, &list.containers[i])
		}
	}
	return code
}

func (c Code) add(list string, container *corev1.Container) {
	at := list + "/" + container.Name + "/"
	c[at+"image"] = encoded(container.Image)
	if len(container.Command) > 0 {
		c[at+"command"] = encoded(container.Command)
	}
	if len(container.Args) > 0 {
		c[at+"args"] = encoded(container.Args)
	}
	if len(container.EnvFrom) > 0 {
		c[at+"envFrom"] = encoded(container.EnvFrom)
	}
	// Each variable is a field of its own, so that one which is set during an incident leaves the others unchanged.
	for _, variable := range container.Env {
		c[at+"env/"+variable.Name] = encoded(defaulted(variable))
	}
}

// defaulted returns a variable as the API server stores it.
func defaulted(variable corev1.EnvVar) corev1.EnvVar {
	variable = *variable.DeepCopy()
	if from := variable.ValueFrom; from != nil && from.FieldRef != nil && from.FieldRef.APIVersion == "" {
		from.FieldRef.APIVersion = "v1"
	}
	if from := variable.ValueFrom; from != nil && from.ResourceFieldRef != nil && from.ResourceFieldRef.Divisor.IsZero() {
		from.ResourceFieldRef.Divisor = resource.MustParse("0")
	}
	return variable
}

func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		// Strings, lists and API types always encode.
		panic("podspec: a field does not encode: " + err.Error())
	}
	return string(text)
}

// Differences returns the fields in which code differs from other, sorted.
func (c Code) Differences(other Code) []string {
	fields := map[string]bool{}
	for field, value := range c {
		fields[field] = other[field] != value
	}
	for field, value := range other {
		fields[field] = c[field] != value
	}
	maps.DeleteFunc(fields, func(_ string, differs bool) bool { return !differs })
	return slices.Sorted(maps.Keys(fields))
}

// Digest returns a short hash of the code, which is cheap to keep and to compare.
func (c Code) Digest() string {
	sum := sha256.Sum256([]byte(encoded(c)))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}
