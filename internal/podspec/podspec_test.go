package podspec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

var (
	app = gen.Source("configmap/app")
	web = gen.Source("configmap/web")
	db  = gen.Source("secret/db")
)

func keys(keys ...string) []string { return keys }

// Rule 1, form by form.
func TestUsesFindsEveryFormOfReference(t *testing.T) {
	whole := func(s pin.Source) []podspec.Use { return []podspec.Use{{Source: s, All: true, Required: true}} }
	oneKey := func(s pin.Source) []podspec.Use {
		return []podspec.Use{{Source: s, Keys: keys("k"), RequiredKeys: keys("k"), Required: true}}
	}
	tests := map[string]struct {
		spec *corev1.PodSpec
		want []podspec.Use
	}{
		"a ConfigMap volume":                  {gen.PodSpec(gen.Volume("configmap/app")), whole(app)},
		"a Secret volume":                     {gen.PodSpec(gen.Volume("secret/db")), whole(db)},
		"some keys of a ConfigMap volume":     {gen.PodSpec(gen.Volume("configmap/app", gen.Items("k"))), oneKey(app)},
		"some keys of a Secret volume":        {gen.PodSpec(gen.Volume("secret/db", gen.Items("k"))), oneKey(db)},
		"a projected ConfigMap":               {gen.PodSpec(gen.Projected(gen.Part("configmap/app"))), whole(app)},
		"a projected Secret":                  {gen.PodSpec(gen.Projected(gen.Part("secret/db"))), whole(db)},
		"some keys of a projected ConfigMap":  {gen.PodSpec(gen.Projected(gen.Part("configmap/app", gen.Items("k")))), oneKey(app)},
		"some keys of a projected Secret":     {gen.PodSpec(gen.Projected(gen.Part("secret/db", gen.Items("k")))), oneKey(db)},
		"envFrom a ConfigMap":                 {gen.PodSpec(gen.EnvFrom("configmap/app")), whole(app)},
		"envFrom a Secret":                    {gen.PodSpec(gen.EnvFrom("secret/db")), whole(db)},
		"a variable from a ConfigMap":         {gen.PodSpec(gen.Env("configmap/app", "k")), oneKey(app)},
		"a variable from a Secret":            {gen.PodSpec(gen.Env("secret/db", "k")), oneKey(db)},
		"envFrom in an init container":        {gen.PodSpec(gen.InitContainer("i", gen.EnvFrom("configmap/app"))), whole(app)},
		"envFrom a Secret in an init one":     {gen.PodSpec(gen.InitContainer("i", gen.EnvFrom("secret/db"))), whole(db)},
		"a variable in an init container":     {gen.PodSpec(gen.InitContainer("i", gen.Env("configmap/app", "k"))), oneKey(app)},
		"a Secret's variable in an init one":  {gen.PodSpec(gen.InitContainer("i", gen.Env("secret/db", "k"))), oneKey(db)},
		"envFrom in the second container":     {gen.PodSpec(gen.Container("b", gen.EnvFrom("configmap/app"))), whole(app)},
		"a variable in the second container":  {gen.PodSpec(gen.Container("b", gen.Env("secret/db", "k"))), oneKey(db)},
		"the second volume":                   {gen.PodSpec(emptyDir, gen.Volume("configmap/app")), whole(app)},
		"the second variable of a container":  {gen.PodSpec(fieldRef, gen.Env("configmap/app", "k")), oneKey(app)},
		"an empty list of items is all keys":  {gen.PodSpec(gen.Volume("configmap/app", gen.Items())), whole(app)},
		"an envFrom with a prefix":            {gen.PodSpec(gen.EnvFrom("configmap/app"), func(s *corev1.PodSpec) { s.Containers[0].EnvFrom[0].Prefix = "P_" }), whole(app)},
		"a projected volume of several parts": {gen.PodSpec(gen.Projected(gen.Part("secret/db"), corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}, gen.Part("configmap/app"))), append(whole(app), whole(db)...)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := test.spec.DeepCopy()
			if diff := cmp.Diff(test.want, podspec.Uses(test.spec)); diff != "" {
				t.Errorf("Uses (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.spec); diff != "" {
				t.Errorf("Uses changed the spec (-before +after):\n%s", diff)
			}
		})
	}
}

func emptyDir(s *corev1.PodSpec) {
	s.Volumes = append(s.Volumes, corev1.Volume{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
}

func fieldRef(s *corev1.PodSpec) {
	s.Containers[0].Env = append(s.Containers[0].Env, corev1.EnvVar{Name: "PLAIN", Value: "app"}, corev1.EnvVar{Name: "IP",
		ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}})
}

// Rule 3 needs to know which keys count, rule 6 which of them must be there.
func TestUsesSumsUpAllReferencesToOneSource(t *testing.T) {
	tests := map[string]struct {
		spec *corev1.PodSpec
		want podspec.Use
	}{
		"some keys here and all keys there are all keys": {
			gen.PodSpec(gen.Env("configmap/app", "a"), gen.EnvFrom("configmap/app")),
			podspec.Use{All: true, Keys: keys("a"), RequiredKeys: keys("a"), Required: true},
		},
		"keys are sorted and named once": {
			gen.PodSpec(gen.Env("configmap/app", "c"), gen.Env("configmap/app", "a"), gen.Volume("configmap/app", gen.Items("c", "b"))),
			podspec.Use{Keys: keys("a", "b", "c"), RequiredKeys: keys("a", "b", "c"), Required: true},
		},
		"an optional key counts but need not be there": {
			gen.PodSpec(gen.Env("configmap/app", "a", gen.Optional(true))),
			podspec.Use{Keys: keys("a")},
		},
		"a key that one reference requires is required": {
			gen.PodSpec(gen.Env("configmap/app", "a", gen.Optional(true)), gen.Env("configmap/app", "a")),
			podspec.Use{Keys: keys("a"), RequiredKeys: keys("a"), Required: true},
		},
		"the same in the other order": {
			gen.PodSpec(gen.Env("configmap/app", "a"), gen.Env("configmap/app", "a", gen.Optional(true))),
			podspec.Use{Keys: keys("a"), RequiredKeys: keys("a"), Required: true},
		},
		"a required key next to an optional one": {
			gen.PodSpec(gen.Env("configmap/app", "a", gen.Optional(true)), gen.Env("configmap/app", "b")),
			podspec.Use{Keys: keys("a", "b"), RequiredKeys: keys("b"), Required: true},
		},
		"optional: false is required": {
			gen.PodSpec(gen.EnvFrom("configmap/app", gen.Optional(false))),
			podspec.Use{All: true, Required: true},
		},
		"an optional volume": {gen.PodSpec(gen.Volume("configmap/app", gen.Optional(true))), podspec.Use{All: true}},
		"an optional volume with items needs none of them": {
			gen.PodSpec(gen.Volume("configmap/app", gen.Items("a"), gen.Optional(true))), podspec.Use{Keys: keys("a")},
		},
		"an optional part of a projected volume": {
			gen.PodSpec(gen.Projected(gen.Part("configmap/app", gen.Optional(true)))), podspec.Use{All: true},
		},
		"an optional volume and a required envFrom": {
			gen.PodSpec(gen.Volume("configmap/app", gen.Optional(true)), gen.EnvFrom("configmap/app")),
			podspec.Use{All: true, Required: true},
		},
		"an optional envFrom": {gen.PodSpec(gen.EnvFrom("configmap/app", gen.Optional(true))), podspec.Use{All: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.want.Source = app
			if diff := cmp.Diff([]podspec.Use{test.want}, podspec.Uses(test.spec)); diff != "" {
				t.Errorf("Uses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOptionalIsReadInEveryForm(t *testing.T) {
	for _, source := range []string{"configmap/app", "secret/db"} {
		for name, make := range map[string]func(...gen.RefOption) gen.PodSpecModifier{
			"volume":    func(o ...gen.RefOption) gen.PodSpecModifier { return gen.Volume(source, o...) },
			"projected": func(o ...gen.RefOption) gen.PodSpecModifier { return gen.Projected(gen.Part(source, o...)) },
			"envFrom":   func(o ...gen.RefOption) gen.PodSpecModifier { return gen.EnvFrom(source, o...) },
			"env":       func(o ...gen.RefOption) gen.PodSpecModifier { return gen.Env(source, "k", o...) },
		} {
			for optional, options := range map[bool][]gen.RefOption{true: {gen.Optional(true)}, false: nil} {
				if uses := podspec.Uses(gen.PodSpec(make(options...))); uses[0].Required == optional {
					t.Errorf("%s of %s, optional %v: Required = %v", name, source, optional, uses[0].Required)
				}
			}
		}
	}
}

func TestUsesAreSortedBySource(t *testing.T) {
	spec := gen.PodSpec(gen.EnvFrom("secret/db"), gen.EnvFrom("configmap/web"), gen.Volume("configmap/app"), gen.EnvFrom("secret/app"))
	var got []pin.Source
	for _, use := range podspec.Uses(spec) {
		got = append(got, use.Source)
	}
	if diff := cmp.Diff([]pin.Source{app, web, gen.Source("secret/app"), db}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsNoReference(t *testing.T) {
	local := &corev1.LocalObjectReference{Name: "app"}
	volume := func(from corev1.VolumeSource) gen.PodSpecModifier {
		return func(s *corev1.PodSpec) { s.Volumes = append(s.Volumes, corev1.Volume{VolumeSource: from}) }
	}
	tests := map[string]*corev1.PodSpec{
		"an empty spec":        {},
		"a container":          gen.PodSpec(),
		"imagePullSecrets":     gen.PodSpec(func(s *corev1.PodSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{*local} }),
		"ephemeral containers": gen.PodSpec(gen.EphemeralContainer("debug", gen.EnvFrom("configmap/app"), gen.Env("secret/db", "k"))),
		"a CSI volume's secret": gen.PodSpec(volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
			Driver: "x", NodePublishSecretRef: local}})),
		"a Ceph volume's secret": gen.PodSpec(volume(corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{SecretRef: local}})),
		"an Azure volume's secret": gen.PodSpec(volume(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{
			SecretName: "app"}})),
		"an empty volume":             gen.PodSpec(volume(corev1.VolumeSource{})),
		"an empty projected volume":   gen.PodSpec(gen.Projected()),
		"an empty projection":         gen.PodSpec(gen.Projected(corev1.VolumeProjection{})),
		"an empty envFrom":            gen.PodSpec(func(s *corev1.PodSpec) { s.Containers[0].EnvFrom = []corev1.EnvFromSource{{}} }),
		"an empty valueFrom":          gen.PodSpec(func(s *corev1.PodSpec) { s.Containers[0].Env = []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{}}} }),
		"plain and downward values":   gen.PodSpec(fieldRef),
		"a volume without a name":     gen.PodSpec(gen.Volume("configmap/"), gen.Volume("secret/")),
		"a projection without a name": gen.PodSpec(gen.Projected(gen.Part("configmap/"), gen.Part("secret/"))),
		"an environment without name": gen.PodSpec(gen.EnvFrom("configmap/"), gen.EnvFrom("secret/"), gen.Env("configmap/", "k"), gen.Env("secret/", "k")),
	}
	for name, spec := range tests {
		t.Run(name, func(t *testing.T) {
			before := spec.DeepCopy()
			if uses := podspec.Uses(spec); len(uses) != 0 {
				t.Errorf("found %+v", uses)
			}
			if n := podspec.References(spec); n != 0 {
				t.Errorf("counted %d references", n)
			}
			rewrite := func(pin.Source) (string, bool) { return "revision", true }
			if n := podspec.Rewrite(spec, rewrite); len(n) != 0 {
				t.Errorf("rewrote %v", n)
			}
			if diff := cmp.Diff(before, spec); diff != "" {
				t.Errorf("Rewrite changed it (-before +after):\n%s", diff)
			}
		})
	}
}

// The API server takes any text for a name in a reference. What no object can have as its name is no source: it could not be read, and a
// command that repeats it would be the user's own.
func TestNamesThatNoObjectCanHave(t *testing.T) {
	for _, name := range []string{"a/b", "a%2fb", "..", "App", "a_b", "x; reboot; echo a", "$(reboot)", "a\nb", strings.Repeat("n", pin.MaxName+1)} {
		t.Run(name, func(t *testing.T) {
			spec := gen.PodSpec(gen.EnvFrom("configmap/app"), func(s *corev1.PodSpec) {
				optional := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{Optional: new(true)}}}
				optional.ConfigMap.Name = name
				s.Volumes = append(s.Volumes, optional)
				s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v"}}
			})
			if diff := cmp.Diff([]podspec.Use{{Source: app, All: true, Required: true}}, podspec.Uses(spec)); diff != "" {
				t.Errorf("Uses (-want +got):\n%s", diff)
			}
			if reads := podspec.Reads(spec); len(reads) != 1 || reads[0].Source != app {
				t.Errorf("Reads: %v", reads)
			}
			// Admission looks at each of them.
			if n := podspec.References(spec); n != 2 {
				t.Errorf("%d references", n)
			}
		})
	}
}

func TestRewriteChangesReferenceNamesOnly(t *testing.T) {
	everything := func(app, db string, other ...gen.PodSpecModifier) *corev1.PodSpec {
		return gen.PodSpec(append([]gen.PodSpecModifier{
			gen.Volume(app), gen.Volume(db, gen.Items("k"), gen.Optional(true)),
			gen.Projected(gen.Part(app), gen.Part(db, gen.Items("k")), gen.Part("configmap/web")),
			gen.EnvFrom(app), gen.EnvFrom(db), gen.Env(app, "k"), gen.Env(db, "k", gen.Optional(false)),
			gen.Container("sidecar", gen.EnvFrom(app), gen.Env("secret/app", "k")),
			gen.InitContainer("init", gen.EnvFrom(db), gen.Env(app, "k")),
			gen.EphemeralContainer("debug", gen.EnvFrom("configmap/app")),
		}, other...)...)
	}
	spec := everything("configmap/app", "secret/db")
	pins := gen.Pins("configmap/app=app-x@1,secret/db=db-y@2,configmap/unused=unused-z@1")
	if n := podspec.Rewrite(spec, pins.Resolve); len(n) != 11 {
		t.Errorf("rewrote %v, want 11", n)
	}
	if diff := cmp.Diff(everything("configmap/app-x", "secret/db-y"), spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := podspec.References(spec); n != 13 {
		t.Errorf("counted %d references, want 13", n)
	}
}
