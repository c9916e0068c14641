//go:build e2e

package e2e

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/view"
)

// Rule 10: the API server refuses pods with revisions of Secrets where their service account limits which they may use. So
// confrev pins none there, and the pods start.
func TestSecretsOfLimitedAccountAreNotPinned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name: "strict", Annotations: map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}}}
	account.Secrets = []corev1.ObjectReference{{Name: "db"}}
	w.Create(account, configMap("web", "color", "A"), secret("db", corev1.SecretTypeOpaque, "k", "v"), deployment("web", envFrom("web"),
		func(d *appsv1.Deployment) {
			spec := &d.Spec.Template.Spec
			spec.ServiceAccountName = "strict"
			spec.Containers[0].EnvFrom = append(spec.Containers[0].EnvFrom, corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "db"}}})
		}))
	w.WaitPinned("web", "web", "color", "A")
	if pins := w.PinsText("web"); strings.Contains(pins, "secret/db") {
		t.Errorf("pins %s", pins)
	}
	w.WaitEvent("SecretsLimited", "web", "service account strict")
	var d view.Diagnosis
	w.pluginJSON(&d, "doctor")
	if f := found(d, "SecretsLimited", "deployment/web"); f == nil || f.Fix == "" {
		t.Errorf("%+v", d.Findings)
	}
}
