package rollout

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// mounting adds a volume of a CSI driver, as that of Secrets Store is.
func mounting(d *appsv1.Deployment) {
	d.Spec.Template.Spec.Volumes = append(d.Spec.Template.Spec.Volumes, corev1.Volume{Name: "store", VolumeSource: corev1.VolumeSource{
		CSI: &corev1.CSIVolumeSource{Driver: "secrets-store.csi.k8s.io"}}})
}

// Rule 7: a driver makes the Secret when the first pod mounts its volume. Waiting for it without a pod would never end.
func TestNoPauseForASecretThatAMountMayMake(t *testing.T) {
	both := gen.Template(gen.Env("secret/db", "password"), gen.EnvFrom("configmap/app"))
	secret := gen.Template(gen.Env("secret/db", "password"))
	tests := map[string]struct {
		obj    *appsv1.Deployment
		paused string
	}{
		"a Secret is missing":                              {gen.Deployment("web", gen.Tracking("all"), secret), "secret/db"},
		"a Secret is missing, with a CSI volume":           {gen.Deployment("web", gen.Tracking("all"), secret, mounting), ""},
		"a ConfigMap is missing too, that no driver makes": {gen.Deployment("web", gen.Tracking("all"), both, mounting), "configmap/app"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newAdmissionWorld(t, workload.Deployment)
			w.Options.Secrets = true
			test.obj.UID, test.obj.Generation = "", 0
			got := w.admitted(t, test.obj, nil, false).(*appsv1.Deployment)
			if got.Annotations[keys.Paused] != test.paused || got.Spec.Paused != (test.paused != "") {
				t.Errorf("paused: %v, for %q, want %q", got.Spec.Paused, got.Annotations[keys.Paused], test.paused)
			}
		})
	}
}
