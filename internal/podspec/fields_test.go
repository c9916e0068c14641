package podspec_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestEveryFieldThatCouldNameASourceIsJudged fails when a new version of the API can name ConfigMaps or Secrets in a
// place that no one has judged yet. Either podspec walks it, or it is listed here as what rule 1 leaves alone.
func TestEveryFieldThatCouldNameASourceIsJudged(t *testing.T) {
	references := []string{
		"containers.env.valueFrom.configMapKeyRef", "containers.env.valueFrom.secretKeyRef",
		"containers.envFrom.configMapRef", "containers.envFrom.secretRef",
		"initContainers.env.valueFrom.configMapKeyRef", "initContainers.env.valueFrom.secretKeyRef",
		"initContainers.envFrom.configMapRef", "initContainers.envFrom.secretRef",
		"volumes.configMap", "volumes.secret",
		"volumes.projected.sources.configMap", "volumes.projected.sources.secret",
	}
	leftAlone := []string{
		"ephemeralContainers.env.valueFrom.configMapKeyRef", "ephemeralContainers.env.valueFrom.secretKeyRef",
		"ephemeralContainers.envFrom.configMapRef", "ephemeralContainers.envFrom.secretRef",
		"imagePullSecrets",
		// Credentials of a storage driver, not configuration of the pod.
		"volumes.azureFile.secretName", "volumes.cephfs.secretFile", "volumes.cephfs.secretRef", "volumes.cinder.secretRef",
		"volumes.csi.nodePublishSecretRef",
		"volumes.flexVolume.secretRef", "volumes.iscsi.secretRef", "volumes.rbd.secretRef", "volumes.scaleIO.secretRef",
		"volumes.storageos.secretRef",
	}
	want := slices.Concat(references, leftAlone)
	got := naming(reflect.TypeFor[corev1.PodSpec](), "")
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the API's fields that could name a ConfigMap or Secret (-judged +found):\n%s", diff)
	}
}

// naming lists the paths of the fields below a type whose name or type mentions ConfigMaps or Secrets.
func naming(in reflect.Type, path string) []string {
	for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
		in = in.Elem()
	}
	if in.Kind() != reflect.Struct {
		return nil
	}
	var found []string
	for field := range in.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		below := strings.TrimPrefix(path+"."+name, ".")
		if name == "" {
			below = path
		}
		speaks := field.Type.String() + " " + field.Name
		if strings.Contains(speaks, "ConfigMap") || strings.Contains(speaks, "Secret") {
			found = append(found, below)
			continue
		}
		found = append(found, naming(field.Type, below)...)
	}
	return found
}
