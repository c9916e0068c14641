package podspec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

// Rule 21: what counts as code, and what does not.
func TestWhatIsCode(t *testing.T) {
	field := func(version string) corev1.EnvVar {
		return corev1.EnvVar{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: version, FieldPath: "status.podIP"}}}
	}
	limit := func(divisor resource.Quantity) corev1.EnvVar {
		return corev1.EnvVar{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu", Divisor: divisor}}}
	}
	base := func() *corev1.PodSpec {
		return &corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "app", Image: "init:1"}},
			Containers: []corev1.Container{{Name: "app", Image: "app:1", Command: []string{"run"}, Args: []string{"-v"},
				Env: []corev1.EnvVar{{Name: "LOG", Value: "info"}, field("v1"), limit(resource.MustParse("0"))}}},
		}
	}
	first := func(change func(*corev1.Container)) func(*corev1.PodSpec) {
		return func(spec *corev1.PodSpec) { change(&spec.Containers[0]) }
	}
	tests := map[string]struct {
		change func(*corev1.PodSpec)
		want   []string
	}{
		"nothing":              {func(*corev1.PodSpec) {}, nil},
		"an image":             {first(func(c *corev1.Container) { c.Image = "app:2" }), []string{"containers/app/image"}},
		"an init container":    {func(s *corev1.PodSpec) { s.InitContainers[0].Image = "init:2" }, []string{"initContainers/app/image"}},
		"a command":            {first(func(c *corev1.Container) { c.Command = nil }), []string{"containers/app/command"}},
		"arguments":            {first(func(c *corev1.Container) { c.Args = []string{"-q"} }), []string{"containers/app/args"}},
		"one variable":         {first(func(c *corev1.Container) { c.Env[0].Value = "debug" }), []string{"containers/app/env/LOG"}},
		"a further variable":   {first(func(c *corev1.Container) { c.Env = append(c.Env, corev1.EnvVar{Name: "X"}) }), []string{"containers/app/env/X"}},
		"a further container":  {func(s *corev1.PodSpec) { s.Containers = append(s.Containers, corev1.Container{Name: "b"}) }, []string{"containers/b/image"}},
		"a whole source":       {first(func(c *corev1.Container) { c.EnvFrom = []corev1.EnvFromSource{{Prefix: "X"}} }), []string{"containers/app/envFrom"}},
		"resources":            {first(func(c *corev1.Container) { c.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")} }), nil},
		"affinity":             {func(s *corev1.PodSpec) { s.Affinity = &corev1.Affinity{} }, nil},
		"a volume":             {func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "x"}} }, nil},
		"the order of its env": {first(func(c *corev1.Container) { c.Env[0], c.Env[1] = c.Env[1], c.Env[0] }), nil},
		"an empty command":     {func(s *corev1.PodSpec) { s.InitContainers[0].Command = []string{} }, nil},
		"what the API server has not added yet": {first(func(c *corev1.Container) {
			c.Env[1], c.Env[2] = field(""), limit(resource.Quantity{})
		}), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			changed := base()
			test.change(changed)
			before, after := podspec.CodeOf(base()), podspec.CodeOf(changed)
			if diff := cmp.Diff(test.want, after.Differences(before)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before.Differences(after), after.Differences(before)); diff != "" {
				t.Errorf("it depends on which is first:\n%s", diff)
			}
			if same := before.Digest() == after.Digest(); same != (len(test.want) == 0) {
				t.Errorf("the digests are the same: %v", same)
			}
		})
	}
}

// With injection into the template, a holder names revisions where the manifest names sources.
func TestCodeNamesSources(t *testing.T) {
	written := podspec.CodeOf(gen.PodSpec(gen.EnvFrom("configmap/app"), gen.Env("secret/db", "k")))
	injected := gen.PodSpec(gen.EnvFrom("configmap/app-a"), gen.Env("secret/db-x", "k"))
	pins := gen.Pins("configmap/app=app-a@1,secret/db=db-x@2")
	if diff := cmp.Diff(written, podspec.CodeOf(injected, pins)); diff != "" {
		t.Errorf("(-written +injected):\n%s", diff)
	}
}
