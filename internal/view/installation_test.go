package view

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/optin"
)

func controllerWith(args ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: ControllerNamespace, Name: "confrev", Labels: map[string]string{"app.kubernetes.io/name": "confrev"}}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy"}, {Name: "confrev", Args: args}}
	return d
}

// Plans are made with the controller's own options, where the user may see them.
func TestFindInstallationReadsTheControllersOptions(t *testing.T) {
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: ControllerNamespace, Name: "confrev"},
		Data: map[string]string{"workloads.yaml": `workloads:
- {group: example.com, version: v1, kind: WebApp, holder: {group: apps, version: v1, kind: ReplicaSet}}`},
	}
	d := controllerWith("--secrets", "--compat=reloader", "--injection=template", "--namespace=$(POD_NAMESPACE)",
		"--policy-prefix=rev", "--config=/etc/confrev/workloads.yaml", "--webhook-bind-address=:9443")
	found, err := FindInstallation(t.Context(), fake.NewClientBuilder().WithObjects(d, config).Build(), "")
	if err != nil || found.Problem != nil || found.Deployment == nil {
		t.Fatal(err, found)
	}
	o := found.Options
	if !o.Secrets || !o.Compat.Reloader || o.Injection != optin.Template || o.Namespace != ControllerNamespace || o.PolicyPrefix != "rev" ||
		len(o.Kinds) != 1 || o.Kinds[0].GVK.Kind != "WebApp" {
		t.Errorf("%+v", o)
	}
}

func TestFindInstallationWithout(t *testing.T) {
	found, err := FindInstallation(t.Context(), fake.NewClientBuilder().Build(), "")
	if err != nil || found.Deployment != nil || found.Options.PolicyPrefix != "confrev" {
		t.Errorf("%v, %+v", err, found)
	}
	found, err = FindInstallation(t.Context(), fake.NewClientBuilder().WithObjects(controllerWith("--of-a-later-version")).Build(), "")
	if err != nil || found.Problem == nil || found.Options.PolicyPrefix != "confrev" {
		t.Errorf("%v, %+v", err, found)
	}
}

// The chart may be installed in any namespace, under any name. A label alone may be anyone's.
func TestFindInstallationInWhateverNamespace(t *testing.T) {
	in := func(namespace, name string, replicas int32) *appsv1.Deployment {
		d := controllerWith("--policy-prefix=" + namespace)
		d.Namespace, d.Name, d.Spec.Replicas = namespace, name, &replicas
		return d
	}
	labelled := in("apps", "labelled", 1)
	labelled.Spec.Template.Spec.Containers = labelled.Spec.Template.Spec.Containers[:1]
	for name, test := range map[string]struct {
		objects   []client.Object
		namespace string
		forbidden string // the namespace that may not be listed; all of them when it is empty
		want      string
		others    int
	}{
		"elsewhere":                           {objects: []client.Object{in("platform", "rev", 2)}, forbidden: "-", want: "platform/rev"},
		"none, but a label":                   {objects: []client.Object{labelled}, forbidden: "-"},
		"several, one in the usual namespace": {objects: []client.Object{in("a", "rev", 1), in(ControllerNamespace, "rev", 1)}, forbidden: "-", want: ControllerNamespace + "/rev", others: 1},
		"several, one of them runs":           {objects: []client.Object{in(ControllerNamespace, "rev", 0), in("b", "rev", 1)}, forbidden: "-", want: "b/rev", others: 1},
		"several, and one is chosen":          {objects: []client.Object{in("a", "rev", 1), in("b", "rev", 1)}, namespace: "b", forbidden: "-", want: "b/rev"},
		"not where it is said to be":          {objects: []client.Object{in("a", "rev", 1)}, namespace: "b", forbidden: "-"},
		"only the usual namespace is allowed": {objects: []client.Object{in("a", "rev", 1), in(ControllerNamespace, "rev", 1)}, want: ControllerNamespace + "/rev"},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(test.objects...).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					asked := client.ListOptions{}
					asked.ApplyOptions(options)
					if asked.Namespace == test.forbidden {
						return apierrors.NewForbidden(appsv1.Resource("deployments"), "", nil)
					}
					return c.List(ctx, list, options...)
				},
			}).Build()
			found, err := FindInstallation(t.Context(), c, test.namespace)
			got := ""
			if found.Deployment != nil {
				got = found.Deployment.Namespace + "/" + found.Deployment.Name
			}
			if err != nil || got != test.want || len(found.others) != test.others || len(found.Notes()) != test.others {
				t.Errorf("found %q and %q, %v, want %q", got, found.others, err, test.want)
			}
			if got != "" && (found.Options.PolicyPrefix != found.Deployment.Namespace || found.Options.Namespace != found.Deployment.Namespace) {
				t.Errorf("%+v", found.Options)
			}
		})
	}
}
