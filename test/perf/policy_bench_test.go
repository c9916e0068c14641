//go:build perf

package perf

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

// The chart's policies, which must be installed under the release name "confrev".
const (
	mutatingPolicy   = "confrev-resolve-pins"
	validatingPolicy = "confrev-refuse-unresolved-pins"
)

const (
	// creates is how many pods each variant creates in one run.
	creates = 300
	// variantLabel is on the pods of one variant, and selects the copies of the policies that act on them.
	variantLabel = "confrev-perf-variant"
	// benchNamespace is one that the chart's policies leave alone, so that copies of them can be measured one by one.
	benchNamespace = metav1.NamespaceSystem
)

// BenchmarkPolicies measures what the admission policies add to the creation of a normal pod: two containers, three
// references, two pins. It creates pods with a server-side dry run, which passes the whole of admission but not etcd,
// so the ratios are higher than those of real creates. The variants take turns, so that a busy machine slows them all.
//
// One iteration is one pod of each variant; the metrics are medians in milliseconds and ratios to the pod that no
// policy looks at.
func BenchmarkPolicies(b *testing.B) {
	c := newClient(b)
	mutating, validating := loadPolicies(b, c)
	variants := []variant{
		{name: "no-policy", pins: normalPins},
		{name: "no-pins", mutate: true, validate: true},
		{name: "mutation", pins: normalPins, mutate: true},
		{name: "both", pins: normalPins, mutate: true, validate: true},
	}
	for i := range variants {
		variants[i].install(b, c, mutating, validating)
	}
	time.Sleep(policyDelay)
	for b.Loop() {
		for range creates {
			for i := range variants {
				variants[i].createPod(b, c)
			}
		}
	}
	report(b, variants)
}

// policyDelay is how long the API server may take to see a new policy: it has no status that says so.
const policyDelay = 3 * time.Second

const normalPins = "configmap/app=app-5f7d8c9b2k@3,configmap/web=web-9xk2l5c7dz@1"

type variant struct {
	name             string
	pins             string
	mutate, validate bool
	taken            []time.Duration
}

func (v *variant) install(b *testing.B, c client.Client, mutating *admissionv1.MutatingAdmissionPolicy, validating *admissionv1.ValidatingAdmissionPolicy) {
	name := "confrev-perf-" + v.name + "-" + rand.String(5)
	constraints := &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: benchNamespace}},
		ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{variantLabel: v.name}},
		ResourceRules:     validating.Spec.MatchConstraints.ResourceRules,
	}
	if v.mutate {
		policy := &admissionv1.MutatingAdmissionPolicy{Spec: *mutating.Spec.DeepCopy()}
		policy.Name, policy.Spec.MatchConstraints = name, constraints
		create(b, c, policy)
		binding := &admissionv1.MutatingAdmissionPolicyBinding{}
		binding.Name, binding.Spec.PolicyName = name, name
		create(b, c, binding)
	}
	if v.validate {
		policy := &admissionv1.ValidatingAdmissionPolicy{Spec: *validating.Spec.DeepCopy()}
		policy.Name, policy.Spec.MatchConstraints = name, constraints
		create(b, c, policy)
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
		binding.Name, binding.Spec.PolicyName = name, name
		binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
		create(b, c, binding)
	}
}

// createPod creates one pod and keeps the time it took.
func (v *variant) createPod(b *testing.B, c client.Client) {
	pod := normalPod()
	pod.Labels = map[string]string{variantLabel: v.name}
	if v.pins != "" {
		pod.Annotations = map[string]string{keys.Pins: v.pins}
	}
	start := time.Now()
	if err := c.Create(b.Context(), pod, client.DryRunAll); err != nil {
		b.Fatalf("create a pod of %s: %v", v.name, err)
	}
	v.taken = append(v.taken, time.Since(start))
	if resolved := pod.Spec.Volumes[0].ConfigMap.Name != "app"; resolved != v.mutatesPod() {
		b.Fatalf("pod of %s: references resolved is %t, want %t", v.name, resolved, v.mutatesPod())
	}
}

func (v *variant) mutatesPod() bool { return v.mutate && v.pins != "" }

func report(b *testing.B, variants []variant) {
	base := median(variants[0].taken)
	for _, v := range variants {
		b.ReportMetric(float64(median(v.taken).Microseconds())/1000, v.name+"-ms")
		b.ReportMetric(float64(median(v.taken))/float64(base), v.name+"-ratio")
	}
	b.ReportMetric(0, "ns/op") // the sum of all variants says nothing
}

func median(taken []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(taken))
	return sorted[len(sorted)/2]
}

// normalPod has two containers and three references to two ConfigMaps.
func normalPod() *corev1.Pod {
	app := corev1.LocalObjectReference{Name: "app"}
	web := corev1.LocalObjectReference{Name: "web"}
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name: name, Image: "example.com/" + name + ":1",
			Env:          []corev1.EnvVar{{Name: "MODE", Value: "production"}, {Name: "REGION", Value: "north"}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}},
		}
	}
	first, second := container("app"), container("sidecar")
	first.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: web}}}
	second.Env = append(second.Env, corev1.EnvVar{Name: "LEVEL", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: app, Key: "level"}}})
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "perf-", Namespace: benchNamespace},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{first, second},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: app}}}},
		},
	}
}

func newClient(b *testing.B) client.Client {
	b.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	if err != nil {
		b.Fatalf("read the kubeconfig that KUBECONFIG names: %v", err)
	}
	config.QPS = -1 // the client must not be what is measured
	c, err := client.New(config, client.Options{})
	if err != nil {
		b.Fatalf("make a client: %v", err)
	}
	return c
}

func loadPolicies(b *testing.B, c client.Client) (*admissionv1.MutatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicy) {
	b.Helper()
	mutating, validating := &admissionv1.MutatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicy{}
	for name, policy := range map[string]client.Object{mutatingPolicy: mutating, validatingPolicy: validating} {
		if err := c.Get(b.Context(), client.ObjectKey{Name: name}, policy); err != nil {
			b.Fatalf("get policy %s (install the chart as release confrev first): %v", name, err)
		}
	}
	return mutating, validating
}

// create creates an object and deletes it after the benchmark.
func create(b *testing.B, c client.Client, object client.Object) {
	b.Helper()
	if err := c.Create(b.Context(), object); err != nil {
		b.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
	b.Cleanup(func() {
		if err := c.Delete(context.Background(), object); err != nil {
			fmt.Fprintf(os.Stderr, "delete %T %s: %v\n", object, object.GetName(), err)
		}
	})
}
