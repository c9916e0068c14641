package cli

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/optin"
)

func controllerWith(args ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: controllerNamespace, Name: "confrev", Labels: map[string]string{"app.kubernetes.io/name": "confrev"}}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy"}, {Name: "confrev", Args: args}}
	return d
}

// Plans are made with the controller's own options, where the user may see them.
func TestFindInstallationReadsTheControllersOptions(t *testing.T) {
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: controllerNamespace, Name: "confrev"},
		Data: map[string]string{"workloads.yaml": `workloads:
- {group: example.com, version: v1, kind: WebApp, holder: {group: apps, version: v1, kind: ReplicaSet}}`},
	}
	d := controllerWith("--secrets", "--compat=reloader", "--injection=template", "--namespace=$(POD_NAMESPACE)",
		"--policy-prefix=rev", "--config=/etc/confrev/workloads.yaml", "--webhook-bind-address=:9443")
	found, err := findInstallation(t.Context(), fake.NewClientBuilder().WithObjects(d, config).Build())
	if err != nil || found.problem != nil || found.deployment == nil {
		t.Fatal(err, found)
	}
	o := found.options
	if !o.Secrets || !o.Compat.Reloader || o.Injection != optin.Template || o.Namespace != controllerNamespace || o.PolicyPrefix != "rev" ||
		len(o.Kinds) != 1 || o.Kinds[0].GVK.Kind != "WebApp" {
		t.Errorf("%+v", o)
	}
}

func TestFindInstallationWithout(t *testing.T) {
	found, err := findInstallation(t.Context(), fake.NewClientBuilder().Build())
	if err != nil || found.deployment != nil || found.options.PolicyPrefix != "confrev" {
		t.Errorf("%v, %+v", err, found)
	}
	found, err = findInstallation(t.Context(), fake.NewClientBuilder().WithObjects(controllerWith("--of-a-later-version")).Build())
	if err != nil || found.problem == nil || found.options.PolicyPrefix != "confrev" {
		t.Errorf("%v, %+v", err, found)
	}
}
