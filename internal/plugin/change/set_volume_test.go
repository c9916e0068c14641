package change

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"confrev.io/confrev/internal/plugin/session"
)

// A flag that would have no effect is refused: the user expects one.
func TestSetVolumeRefusesFlagsWithoutEffect(t *testing.T) {
	for flags, want := range map[string]string{
		"":                                     "",
		"-t emptydir --name=a --mount-path=/a": "",
		"--remove --name=a":                    "",
		"--remove --name=a --type=emptydir":    "--remove and --type exclude each other",
		"--remove --name=a --containers=b":     "--remove and --containers exclude each other",
		"--remove --name=a --mount-path=/a":    "--remove and --mount-path exclude each other",
		"--remove --name=a --sub-path=b":       "--remove and --sub-path exclude each other",
		"--remove --name=a --read-only=false":  "--remove and --read-only exclude each other",
		"--remove --name=a --configmap-name=b": "--remove and --configmap-name exclude each other",
		"--name=a":                             "--name is for a volume to add or remove: give --type or --remove",
		"--containers=b":                       "--containers is for a volume to add, and no --type is given",
		"--sub-path=b":                         "--sub-path is for a volume to add, and no --type is given",
		"--read-only":                          "--read-only is for a volume to add, and no --type is given",
		"--claim-name=b":                       "--claim-name is for a volume to add, and no --type is given",
		"--type=":                              "--type is for a volume to add, and no --type is given",
	} {
		t.Run(flags, func(t *testing.T) {
			s, cmd := newVolumeSetter(&session.Session{IOStreams: genericiooptions.IOStreams{Out: &bytes.Buffer{}}})
			err := cmd.ParseFlags(strings.Fields(flags))
			if err == nil {
				err = s.Fill(cmd, []string{"deployment/web"})
			}
			if !says(err, want) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// A volume that only has the same name and object may hold other files.
func TestAVolumeIsTheSameOnlyWithTheSameSettings(t *testing.T) {
	configMap := func(modify func(*corev1.ConfigMapVolumeSource)) corev1.VolumeSource {
		source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "app"}}
		modify(source)
		return corev1.VolumeSource{ConfigMap: source}
	}
	app := volumeRequest{kind: "configmap", configMap: "app", name: "v", mountPath: "/v"}
	db := volumeRequest{kind: "secret", secret: "db", name: "v", mountPath: "/v"}
	scratch := volumeRequest{kind: "emptydir", name: "v", mountPath: "/v"}
	for name, test := range map[string]struct {
		request  volumeRequest
		existing corev1.VolumeSource
		says     string
	}{
		"as it is asked for":                             {app, configMap(func(*corev1.ConfigMapVolumeSource) {}), ""},
		"with the default mode that the API server sets": {app, configMap(func(s *corev1.ConfigMapVolumeSource) { s.DefaultMode = new(int32(0o644)) }), ""},
		"with another mode":                              {app, configMap(func(s *corev1.ConfigMapVolumeSource) { s.DefaultMode = new(int32(0o400)) }), "volume v is configmap/app already, with other settings; give another --name"},
		"with some keys":                                 {app, configMap(func(s *corev1.ConfigMapVolumeSource) { s.Items = []corev1.KeyToPath{{Key: "a", Path: "a"}} }), "with other settings"},
		"a Secret, by default":                           {db, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "db", DefaultMode: new(int32(0o644))}}, ""},
		"a Secret, that is private":                      {db, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "db", DefaultMode: new(int32(0o600))}}, "volume v is secret/db already, with other settings"},
		"a scratch volume":                               {scratch, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, ""},
		"in memory":                                      {scratch, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}, "volume v is emptydir already, with other settings"},
		"of another object":                              {app, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, "volume v is emptydir already; give another --name"},
	} {
		t.Run(name, func(t *testing.T) {
			before := test.existing.DeepCopy()
			spec := &corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}, Volumes: []corev1.Volume{{Name: "v", VolumeSource: test.existing}}}
			if _, err := test.request.add(spec); !says(err, test.says) {
				t.Errorf("it says %v", err)
			}
			if spec.Volumes[0].String() != (&corev1.Volume{Name: "v", VolumeSource: *before}).String() {
				t.Errorf("the template became %v", spec.Volumes)
			}
		})
	}
}
