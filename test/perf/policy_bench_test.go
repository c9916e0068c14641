//go:build perf

package perf

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// The chart's objects, which must be installed under the release name "confrev".
const (
	mutatingPolicy   = "confrev-resolve-pins"
	validatingPolicy = "confrev-refuse-unresolved-pins"
	workloadWebhook  = "confrev-pin-workloads"
)

const (
	// creates is how many pods each variant creates in one run.
	creates = 300
	// variantLabel is on the pods of one variant, and selects the copies of the policies that act on them.
	variantLabel = "confrev-perf-variant"
	// benchNamespace is one that the chart's policies leave alone, so that copies of them can be measured one by one.
	benchNamespace = metav1.NamespaceSystem
)

// BenchmarkPolicies measures what the admission policies, and the pod webhook in place of the mutating one, add to the
// creation of a normal pod: two containers, three references, two pins. It creates pods with a server-side dry run, which
// passes the whole of admission but not etcd, so the ratios are higher than those of real creates. The variants take turns,
// so that a busy machine slows them all.
//
// One iteration is one pod of each variant; the metrics are medians in milliseconds and ratios to the pod that nothing
// looks at. Where a cluster has a Service, the webhook has a relay here, which costs about a tenth of a millisecond.
func BenchmarkPolicies(b *testing.B) {
	c := cluster.Client
	newWorld(b).start()
	installed := load(b, c)
	variants := []variant{
		{name: "no-policy", pins: normalPins},
		{name: "no-pins", mutate: true, validate: true},
		{name: "no-pins-webhook", webhook: true, validate: true},
		{name: "mutation", pins: normalPins, mutate: true},
		{name: "webhook", pins: normalPins, webhook: true},
		{name: "both", pins: normalPins, mutate: true, validate: true},
		{name: "both-webhook", pins: normalPins, webhook: true, validate: true},
	}
	for i := range variants {
		variants[i].install(b, c, installed)
	}
	for i := range variants {
		variants[i].wait(b, c)
	}
	for b.Loop() {
		for range creates {
			for i := range variants {
				variants[i].createPod(b, c)
			}
		}
	}
	report(b, variants)
}

const normalPins = "configmap/app=app-5f7d8c9b2k@3,configmap/web=web-9xk2l5c7dz@1"

type variant struct {
	name                      string
	pins                      string
	mutate, webhook, validate bool
	taken                     []time.Duration
}

// originals are the chart's objects, of which each variant has copies for its own pods.
type originals struct {
	mutating   *admissionv1.MutatingAdmissionPolicy
	validating *admissionv1.ValidatingAdmissionPolicy
	webhook    *admissionv1.MutatingWebhook
}

func (v *variant) install(b *testing.B, c client.Client, installed originals) {
	name := "confrev-perf-" + v.name + "-" + rand.String(5)
	constraints := &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: benchNamespace}},
		ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{variantLabel: v.name}},
		ResourceRules:     installed.validating.Spec.MatchConstraints.ResourceRules,
	}
	if v.mutate {
		policy := &admissionv1.MutatingAdmissionPolicy{Spec: *installed.mutating.Spec.DeepCopy()}
		policy.Name, policy.Spec.MatchConstraints = name, constraints
		env.Create(b, c, policy)
		binding := &admissionv1.MutatingAdmissionPolicyBinding{}
		binding.Name, binding.Spec.PolicyName = name, name
		env.Create(b, c, binding)
	}
	if v.webhook {
		config := &admissionv1.MutatingWebhookConfiguration{Webhooks: []admissionv1.MutatingWebhook{*installed.webhook.DeepCopy()}}
		config.Name = name
		config.Webhooks[0].NamespaceSelector, config.Webhooks[0].ObjectSelector = constraints.NamespaceSelector, constraints.ObjectSelector
		env.Create(b, c, config)
	}
	if v.validate {
		policy := &admissionv1.ValidatingAdmissionPolicy{Spec: *installed.validating.Spec.DeepCopy()}
		policy.Name, policy.Spec.MatchConstraints = name, constraints
		env.Create(b, c, policy)
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
		binding.Name, binding.Spec.PolicyName = name, name
		binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
		env.Create(b, c, binding)
	}
}

// wait waits until the API server acts on what was installed, which has no status that says so.
func (v *variant) wait(b *testing.B, c client.Client) {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		resolved, malformed := v.pod(normalPins), v.pod("malformed")
		err, refusal := c.Create(ctx, resolved, client.DryRunAll), c.Create(ctx, malformed, client.DryRunAll)
		if err == nil && isResolved(resolved) == (v.mutate || v.webhook) && (refusal != nil) == v.validate {
			return
		}
	}
	b.Fatalf("the API server does not act on the copies for %s", v.name)
}

func (v *variant) pod(pins string) *corev1.Pod {
	pod := normalPod()
	pod.Labels = map[string]string{variantLabel: v.name}
	if pins != "" {
		pod.Annotations = map[string]string{keys.Pins: pins}
	}
	return pod
}

func isResolved(pod *corev1.Pod) bool { return pod.Spec.Volumes[0].ConfigMap.Name != "app" }

// createPod creates one pod and keeps the time it took.
func (v *variant) createPod(b *testing.B, c client.Client) {
	pod := v.pod(v.pins)
	start := time.Now()
	if err := c.Create(b.Context(), pod, client.DryRunAll); err != nil {
		b.Fatalf("create a pod of %s: %v", v.name, err)
	}
	v.taken = append(v.taken, time.Since(start))
	if want := v.pins != "" && (v.mutate || v.webhook); isResolved(pod) != want {
		b.Fatalf("pod of %s: references resolved is %t, want %t", v.name, !want, want)
	}
}

func report(b *testing.B, variants []variant) {
	s := measured(b, creates)
	s.least(variants[0].name, variants[0].taken)
	for _, v := range variants[1:] {
		s.took(v.name, v.taken)
		s.over(v.name+" over floor", middle(v.taken))
	}
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

// load reads the chart's policies. Of the webhooks, the chart installs only one in addition to them; the other is at the same place.
func load(b *testing.B, c client.Client) originals {
	b.Helper()
	o := originals{mutating: &admissionv1.MutatingAdmissionPolicy{}, validating: &admissionv1.ValidatingAdmissionPolicy{}}
	config := &admissionv1.MutatingWebhookConfiguration{}
	for name, object := range map[string]client.Object{mutatingPolicy: o.mutating, validatingPolicy: o.validating, workloadWebhook: config} {
		if err := c.Get(b.Context(), client.ObjectKey{Name: name}, object); err != nil {
			b.Fatalf("get %s (install the chart as release confrev first): %v", name, err)
		}
	}
	told := config.Webhooks[0].ClientConfig
	// Behind the workload webhook's path comes its secret part.
	base, _, _ := strings.Cut(*told.URL, "/pin-workloads")
	told.URL = new(base + "/resolve-pins")
	o.webhook = &admissionv1.MutatingWebhook{
		Name: "resolve-pins.confrev.io", ClientConfig: told, AdmissionReviewVersions: []string{"v1"},
		FailurePolicy: new(admissionv1.Fail), SideEffects: new(admissionv1.SideEffectClassNone), ReinvocationPolicy: new(admissionv1.IfNeededReinvocationPolicy),
		MatchConditions: o.validating.Spec.MatchConditions,
	}
	for _, rule := range o.validating.Spec.MatchConstraints.ResourceRules {
		o.webhook.Rules = append(o.webhook.Rules, rule.RuleWithOperations)
	}
	return o
}
