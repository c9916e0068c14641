//go:build perf

package perf

import (
	"context"
	"fmt"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// confinement is the policy of the kinds that have their template at spec.template.
const confinement = "confrev-confine-spec.template"

// BenchmarkConfinement measures what the policy that confines confrev's own account adds to a patch of a Deployment: to confrev's own
// patch of the pins, and to the same patch by another, who pays one look at the user's name. The Deployments have 3 and 2,000
// references. Each is in a namespace with a copy of the policy and in one without, for which the chart's own is removed. Patches
// are dry runs, as in BenchmarkGuards, and take turns.
//
// The metrics are medians in milliseconds, and ratios to the same without the policy.
func BenchmarkConfinement(b *testing.B) {
	w := newWorld(b)
	with := confinedNamespace(b)
	for name, user := range map[string]string{"own": "system:serviceaccount:" + env.Namespace + ":confrev", "others": "someone"} {
		for _, references := range []int{3, 2000} {
			b.Run(fmt.Sprintf("%s/%d", name, references), func(b *testing.B) {
				variants := [2]confined{{Client: named(b, user), namespace: w.NS}, {Client: named(b, user), namespace: with}}
				for i := range variants {
					variants[i].create(b, references)
				}
				compare(b, "confined-ms", func(variant int) time.Duration { return variants[variant].patch(b) })
			})
		}
	}
}

// confinedNamespace makes a namespace in which alone a copy of the chart's policy acts, in place of the chart's own.
func confinedNamespace(b *testing.B) string {
	b.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	if err := cluster.Client.Get(b.Context(), client.ObjectKey{Name: confinement}, policy); err != nil {
		b.Fatalf("get the policy (install the chart first): %v", err)
	}
	if err := cluster.Install(b.Context(), "selfConfinement.enabled=false"); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := cluster.Install(context.Background()); err != nil {
			b.Error(err)
		}
	})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "perf-confined-"}}
	env.Create(b, cluster.Client, ns)
	duplicate := &admissionv1.ValidatingAdmissionPolicy{Spec: *policy.Spec.DeepCopy()}
	duplicate.Name = ns.Name
	duplicate.Spec.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns.Name}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
	binding.Name, binding.Spec.PolicyName = ns.Name, ns.Name
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	env.Create(b, cluster.Client, duplicate)
	env.Create(b, cluster.Client, binding)
	probe := confined{Client: named(b, "system:serviceaccount:"+env.Namespace+":confrev"), namespace: ns.Name}
	probe.create(b, 1)
	for end := time.Now().Add(patience); probe.send(b.Context(), `{"spec":{"paused":true}}`) == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("the API server does not act on the copy of the policy")
		}
	}
	return ns.Name
}

// confined is a Deployment and who patches it.
type confined struct {
	client.Client
	namespace, name string
}

func (c *confined) create(b *testing.B, references int) {
	b.Helper()
	labels := map[string]string{"app": "confined"}
	container := corev1.Container{Name: "app", Image: "example.com/app:1"}
	for i := range references {
		container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("V%d", i), ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "app"}, Key: fmt.Sprint(i)}}})
	}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, GenerateName: "confined-", Annotations: map[string]string{keys.Track: "configmap/none"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}},
			},
		},
	}
	env.Create(b, cluster.Client, d)
	c.name = d.Name
}

func (c *confined) send(ctx context.Context, patch string) error {
	obj := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
	obj.Namespace, obj.Name = c.namespace, c.name
	return c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
}

func (c *confined) patch(b *testing.B) time.Duration {
	b.Helper()
	start := time.Now()
	if err := c.send(b.Context(), `{"spec":{"template":{"metadata":{"annotations":{"`+keys.Pins+`":"configmap/app=app-5f7d8c9b2k@1"}}}}}`); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}

// named returns a client with a name, and every right.
func named(b *testing.B, user string) client.Client {
	b.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return c
}
