package installation

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/optin"
)

func controllerWith(args ...string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: DefaultNamespace, Name: "confrev", Labels: map[string]string{"app.kubernetes.io/name": "confrev"}}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy"}, {Name: "confrev", Args: args}}
	return d
}

// Plans are made with the controller's own options, where the user may see them.
func TestFindReadsTheControllersOptions(t *testing.T) {
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: "confrev"},
		Data: map[string]string{"workloads.yaml": `workloads:
- {group: example.com, version: v1, kind: WebApp, holder: {group: apps, version: v1, kind: ReplicaSet}}`},
	}
	d := controllerWith("--secrets", "--compat=reloader", "--injection=template", "--namespace=$(POD_NAMESPACE)",
		"--policy-prefix=rev", "--config=/etc/confrev/workloads.yaml", "--webhook-bind-address=:9443")
	found, err := Find(t.Context(), fake.NewClientBuilder().WithObjects(d, config).Build(), "", "")
	if err != nil || found.Problem != nil || found.Deployment == nil {
		t.Fatal(err, found)
	}
	o := found.Options
	if !o.Secrets || !o.Compat.Reloader || o.Injection != optin.Template || o.Namespace != DefaultNamespace || o.PolicyPrefix != "rev" ||
		len(o.Kinds) != 1 || o.Kinds[0].GVK.Kind != "WebApp" {
		t.Errorf("%+v", o)
	}
}

// limitedTo returns a controller that works in some namespaces only.
func limitedTo(namespace string, watched ...string) *appsv1.Deployment {
	d := controllerWith("--policy-prefix="+namespace, "--injection=template", "--watch-namespaces="+strings.Join(watched, ","))
	d.Namespace, d.Spec.Replicas = namespace, new(int32(1))
	return d
}

// boundTo returns what the chart creates in a namespace to which the controller in another one is limited.
func boundTo(namespace, controller string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "confrev", Labels: map[string]string{"app.kubernetes.io/name": "confrev"}},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: controller, Name: "confrev"}},
	}
}

// Someone who may see nothing but their own namespace learns from it that confrev is limited, and where it is.
func TestFindThatIsHidden(t *testing.T) {
	for name, test := range map[string]struct {
		objects []client.Object
		limited bool
		in      string
	}{
		"limited":       {[]client.Object{boundTo("team-a", "platform")}, true, "platform"},
		"in all, maybe": {nil, false, DefaultNamespace},
	} {
		c := fake.NewClientBuilder().WithObjects(test.objects...).WithInterceptorFuncs(interceptor.Funcs{
			List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
				return apierrors.NewForbidden(appsv1.Resource("deployments"), "", nil)
			},
		}).Build()
		found, err := Find(t.Context(), c, "", "team-a")
		if err != nil || found.Refused == "" || found.Options.Namespaced() != test.limited || found.Namespace != test.in {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
		if test.limited && (found.Options.Injection != optin.Template || found.Elsewhere("team-a") != "" || !strings.Contains(found.Elsewhere("team-b"), "platform")) {
			t.Errorf("%s: %+v, elsewhere %q", name, found.Options, found.Elsewhere("team-b"))
		}
	}
}

func TestFindWithout(t *testing.T) {
	found, err := Find(t.Context(), fake.NewClientBuilder().Build(), "", "")
	if err != nil || found.Deployment != nil || found.Options.PolicyPrefix != "confrev" {
		t.Errorf("%v, %+v", err, found)
	}
	found, err = Find(t.Context(), fake.NewClientBuilder().WithObjects(controllerWith("--of-a-later-version")).Build(), "", "")
	if err != nil || found.Problem == nil || found.Options.PolicyPrefix != "confrev" {
		t.Errorf("%v, %+v", err, found)
	}
}

// The chart may be installed in any namespace, under any name. A label alone may be anyone's.
func TestFindInWhateverNamespace(t *testing.T) {
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
		target    string
		forbidden string // the namespace that may not be listed; all of them when it is empty
		want      string
		others    int
	}{
		"elsewhere":                           {objects: []client.Object{in("platform", "rev", 2)}, forbidden: "-", want: "platform/rev"},
		"none, but a label":                   {objects: []client.Object{labelled}, forbidden: "-"},
		"several, one in the usual namespace": {objects: []client.Object{in("a", "rev", 1), in(DefaultNamespace, "rev", 1)}, forbidden: "-", want: DefaultNamespace + "/rev", others: 1},
		"several, one of them runs":           {objects: []client.Object{in(DefaultNamespace, "rev", 0), in("b", "rev", 1)}, forbidden: "-", want: "b/rev", others: 1},
		"several, and one is chosen":          {objects: []client.Object{in("a", "rev", 1), in("b", "rev", 1)}, namespace: "b", forbidden: "-", want: "b/rev"},
		"not where it is said to be":          {objects: []client.Object{in("a", "rev", 1)}, namespace: "b", forbidden: "-"},
		"limited, one for each team":          {objects: []client.Object{limitedTo("a", "team-a"), limitedTo("b", "team-b")}, target: "team-b", forbidden: "-", want: "b/confrev", others: 1},
		"limited, and one for all namespaces": {objects: []client.Object{limitedTo("a", "team-a"), in("z", "rev", 1)}, target: "team-b", forbidden: "-", want: "z/rev", others: 1},
		"limited, where it is installed":      {objects: []client.Object{limitedTo("team-a", "team-a")}, target: "team-a", want: "team-a/confrev"},
		"limited, where its binding says":     {objects: []client.Object{limitedTo("a", "team-a"), boundTo("team-a", "a")}, target: "team-a", want: "a/confrev"},
		"only the usual namespace is allowed": {objects: []client.Object{in("a", "rev", 1), in(DefaultNamespace, "rev", 1)}, want: DefaultNamespace + "/rev"},
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
			found, err := Find(t.Context(), c, test.namespace, test.target)
			got := ""
			if found.Deployment != nil {
				got = found.Deployment.Namespace + "/" + found.Deployment.Name
			}
			if err != nil || got != test.want || len(found.Others) != test.others || len(found.Notes()) != test.others {
				t.Errorf("found %q and %d more, %v, want %q", got, len(found.Others), err, test.want)
			}
			if got != "" && (found.Options.PolicyPrefix != found.Deployment.Namespace || found.Options.Namespace != found.Deployment.Namespace) {
				t.Errorf("%+v", found.Options)
			}
		})
	}
}
