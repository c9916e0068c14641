package podspec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

// What rule 1 leaves alone is still named: a copy that only it names is in use.
func TestNamedFindsWhatIsNoReference(t *testing.T) {
	local := &corev1.LocalObjectReference{Name: "db"}
	volume := func(source corev1.VolumeSource) *corev1.PodSpec {
		return &corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: source}}}
	}
	debugging := &corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *local}}},
	}}}}
	for name, spec := range map[string]*corev1.PodSpec{
		"a pull secret":          {ImagePullSecrets: []corev1.LocalObjectReference{*local}},
		"an ephemeral container": debugging,
		"Azure Files":            volume(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "db"}}),
		"CephFS":                 volume(corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{SecretRef: local}}),
		"Cinder":                 volume(corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{SecretRef: local}}),
		"CSI":                    volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: local}}),
		"a FlexVolume":           volume(corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{SecretRef: local}}),
		"iSCSI":                  volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: local}}),
		"RBD":                    volume(corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{SecretRef: local}}),
		"ScaleIO":                volume(corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: local}}),
		"StorageOS":              volume(corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: local}}),
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff([]pin.Source{db}, podspec.Named(spec)); diff != "" {
				t.Errorf("Named (-want +got):\n%s", diff)
			}
			if uses := podspec.Uses(spec); len(uses) > 0 {
				t.Errorf("these are references, and tested elsewhere: %v", uses)
			}
		})
	}
}

func TestNamedIsSortedAndHasEachOnce(t *testing.T) {
	spec := gen.PodSpec(gen.Volume("secret/db"), gen.EnvFrom("configmap/web"), gen.EnvFrom("configmap/app"), gen.Env("configmap/web", "k"))
	// A driver whose Secret has no name, and one that needs none.
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{}}},
		corev1.Volume{Name: "w", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}})
	if diff := cmp.Diff([]pin.Source{app, web, db}, podspec.Named(spec)); diff != "" {
		t.Errorf("Named (-want +got):\n%s", diff)
	}
}

// Replacements returns what Rewrite does, and leaves the spec alone.
func TestReplacementsAreThoseOfRewrite(t *testing.T) {
	resolve := func(s pin.Source) (string, bool) { return s.Name + "-1", s == app }
	spec := gen.PodSpec(gen.Volume("configmap/app"), gen.EnvFrom("secret/db"), gen.Env("configmap/app", "k"))
	before := spec.DeepCopy()
	found := podspec.Replacements(spec, resolve)
	if diff := cmp.Diff(before, spec); diff != "" {
		t.Errorf("the spec changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(podspec.Rewrite(spec, resolve), found); diff != "" || len(found) != 2 {
		t.Errorf("(-rewritten +found):\n%s", diff)
	}
	if again := podspec.Replacements(spec, resolve); len(again) != 0 {
		t.Errorf("what has its new name is replaced again: %v", again)
	}
}
