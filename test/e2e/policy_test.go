//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	gocmp "github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/env"
)

// revisionOfApp has the name of a revision of the source app.
const revisionOfApp = "app-5f7d8c9b2k"

// Most tests here create pods with a server-side dry run: it passes the whole of admission and leaves nothing behind.

func TestPolicyResolvesWhatResolveDoes(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(t)
	tests := map[string]struct{ token bool }{
		"pods without a service account token":              {token: false},
		"pods with the token volume that admission adds in": {token: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				pod := drawPod(t)
				pod.Spec.AutomountServiceAccountToken = &tt.token
				pins := drawPins(t)
				injectSome(t, pod, pins)
				p.checkAgreement(t, pod, pins)
			})
		})
	}
}

func TestPolicyAcceptsThePinsThatParse(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(t)
	rapid.Check(t, func(t *rapid.T) {
		text := drawPinsText(t)
		_, parseErr := pin.Parse(text)
		err := p.create(t, podWith(text, corev1.PodSpec{}))
		if (parseErr == nil) != (err == nil) {
			t.Errorf("pins %q: Parse says %v, the policies say %v", text, parseErr, err)
		}
	})
}

func TestPolicyRefusesMalformedPins(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(t)
	tests := map[string]string{
		"the number is missing":                 "configmap/app=app-5f7d8c9b2k",
		"the number is zero":                    "configmap/app=app-5f7d8c9b2k@0",
		"the number has a leading zero":         "configmap/app=app-5f7d8c9b2k@03",
		"the number is negative":                "configmap/app=app-5f7d8c9b2k@-3",
		"the number is too long":                "configmap/app=app-5f7d8c9b2k@1234567890123456",
		"the revision is missing":               "configmap/app=@3",
		"the source has no kind":                "app=app-5f7d8c9b2k@3",
		"the kind is unknown":                   "deployment/app=app-5f7d8c9b2k@3",
		"the kind is in upper case":             "ConfigMap/app=app-5f7d8c9b2k@3",
		"the source has no name":                "configmap/=app-5f7d8c9b2k@3",
		"the name is in upper case":             "configmap/App=app-5f7d8c9b2k@3",
		"a pin has two revisions":               "configmap/app=app-5f7d8c9b2k=app-9xk2l5c7dz@3",
		"a pin has two numbers":                 "configmap/app=app-5f7d8c9b2k@3@4",
		"pins are separated by spaces":          "configmap/app=app-5f7d8c9b2k@3, secret/db=db-9xk2l5c7dz@1",
		"the list ends with a comma":            "configmap/app=app-5f7d8c9b2k@3,",
		"the list is only a comma":              ",",
		"a newline follows":                     "configmap/app=app-5f7d8c9b2k@3\n",
		"one pin of several is malformed":       "configmap/app=app-5f7d8c9b2k@3,secret/db",
		"a source is pinned twice":              "configmap/app=app-5f7d8c9b2k@3,configmap/app=app-9xk2l5c7dz@4",
		"a source is pinned twice to one":       "configmap/app=app-5f7d8c9b2k@3,secret/db=db-9xk2l5c7dz@1,configmap/app=app-5f7d8c9b2k@3",
		"the annotation holds something else":   "null",
		"there is one more than confrev writes": manyPins(pin.MaxPins + 1),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := pin.Parse(text); err == nil {
				t.Fatalf("Parse accepts %q", text)
			}
			p.wantRefusal(t, podWith(text, volumeOf("configmap", "app")),
				"annotation confrev.io/pins is malformed: it must list source=revision@number",
				"Correct or remove the annotation on the pod template")
		})
	}
}

// manyPins returns pins of n sources.
func manyPins(n int) string {
	pins := pin.Set{}
	for i := range n {
		name := fmt.Sprint("app", i)
		pins[pin.Source{Kind: pin.ConfigMap, Name: name}] = pin.Pin{Revision: name + "-5f7d8c9b2k", Number: 1}
	}
	return pins.String()
}

func TestPolicyRefusesARevisionThatIsItselfPinned(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(t)
	tests := map[string]string{
		"the revision is another source": "configmap/app=%[1]s@1,configmap/%[1]s=%[1]s-5f7d8c9b2k@1",
		"in another order":               "secret/%[1]s=%[1]s-5f7d8c9b2k@1,secret/app=%[1]s@1",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			p.wantRefusal(t, podWith(fmt.Sprintf(text, revisionOfApp), corev1.PodSpec{}), "pins a source to a revision that is itself pinned")
		})
	}
	t.Run("but a revision may have the name of a pinned source of the other kind", func(t *testing.T) {
		const pins = "configmap/app=%[1]s@1,secret/%[1]s=%[1]s-5f7d8c9b2k@1"
		if err := p.create(t, podWith(fmt.Sprintf(pins, revisionOfApp), corev1.PodSpec{})); err != nil {
			t.Error(err)
		}
	})
}

// A user may be let annotate pods who may not say what they mount. So a pin names a revision of its source and nothing else, opted in
// or not, and what the cluster itself keeps writing has none (rule 10).
func TestPolicyRefusesPinsToAnythingButRevisions(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(t)
	long := strings.Repeat("n", pin.MaxName)
	tests := map[string]struct{ source, revision string }{
		"another object":                          {"secret/deploy-staging", "deploy-prod"},
		"the source itself":                       {"configmap/app", "app"},
		"a revision of another source":            {"configmap/app", "web-5f7d8c9b2k"},
		"a revision of a source that begins so":   {"configmap/app", "app-2-5f7d8c9b2k"},
		"a revision of what the source is cut to": {"configmap/app", "ap-5f7d8c9b2k"},
		"what generateName made of it":            {"configmap/app", "app-5f7d8"},
		"a hash with a vowel":                     {"configmap/app", "app-5f7d8c9b2a"},
		"a hash that is too long":                 {"configmap/app", "app-5f7d8c9b2kk"},
		"a long source, and no part of it":        {"configmap/" + long, strings.Repeat("m", 242) + "-5f7d8c9b2k"},
		"a CA of the cluster":                     {"configmap/kube-root-ca.crt", "kube-root-ca.crt-5f7d8c9b2k"},
		"a CA of OpenShift":                       {"configmap/openshift-service-ca.crt", "openshift-service-ca.crt-5f7d8c9b2k"},
		"a CA of Istio":                           {"configmap/istio-ca-root-cert", "istio-ca-root-cert-5f7d8c9b2k"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			text := tt.source + "=" + tt.revision + "@1"
			if _, err := pin.Parse(text); err == nil {
				t.Fatalf("Parse accepts %q", text)
			}
			kind, source, _ := strings.Cut(tt.source, "/")
			pod := podWith(text, volumeOf(kind, source))
			p.wantRefusal(t, pod, "annotation confrev.io/pins pins a source to something that is not a revision of it")
			// Only some other pin is at fault.
			pod.Annotations[keys.Pins] = "secret/other=other-9xk2l5c7dz@1," + text
			p.wantRefusal(t, pod, "annotation confrev.io/pins pins a source to something that is not a revision of it")
		})
	}
	t.Run("but names that are cut may be long", func(t *testing.T) {
		pod := podWith("configmap/"+long+"="+long[:242]+"-5f7d8c9b2k@1", volumeOf("configmap", long))
		if err := p.create(t, pod); err != nil {
			t.Error(err)
		} else if got := pod.Spec.Volumes[0].ConfigMap.Name; got != long[:242]+"-5f7d8c9b2k" {
			t.Errorf("the reference became %q", got)
		}
	})
}

func TestPolicyLeavesOtherPodsAlone(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(t)
	tests := map[string]map[string]string{
		"no annotations":          nil,
		"an empty annotation":     {keys.Pins: ""},
		"another tool's pins":     {"example.com/pins": "configmap/app=app-5f7d8c9b2k@3"},
		"pins of unused sources":  {keys.Pins: "configmap/other=other-5f7d8c9b2k@3,secret/app=app-5f7d8c9b2k@1"},
		"pins of a longer name":   {keys.Pins: "configmap/app2=app2-5f7d8c9b2k@3"},
		"pins of a shorter name":  {keys.Pins: "configmap/ap=ap-5f7d8c9b2k@3"},
		"pins of the other kind":  {keys.Pins: "secret/app=app-5f7d8c9b2k@3"},
		"a suffix on the key":     {keys.Pins + "-old": "nonsense"},
		"other annotations alone": {"example.com/owner": "team"},
	}
	for name, annotations := range tests {
		t.Run(name, func(t *testing.T) {
			pod := podWith("", volumeOf("configmap", "app"))
			pod.Annotations = annotations
			if err := p.create(t, pod); err != nil {
				t.Fatal(err)
			}
			if got := pod.Spec.Volumes[0].ConfigMap.Name; got != "app" {
				t.Errorf("the reference became %q", got)
			}
		})
	}
}

// The pins of a pod say what it was started with. All other changes to it are none of the policies' business.
func TestPolicyKeepsThePinsOfAPodThatExists(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(t)
	pods := map[string]*corev1.Pod{
		"pinned":   podWith("configmap/app=app-5f7d8c9b2k@3", volumeOf("configmap", "app")),
		"unpinned": podWith("", volumeOf("configmap", "app")),
	}
	for name, pod := range pods {
		pod.Name, pod.Namespace = name, p.namespace
		if err := p.client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	user := p.whoMayPatchPods(t)
	tests := map[string]struct{ pod, patch string }{
		"changed":     {"pinned", `{"metadata":{"annotations":{"confrev.io/pins":"configmap/app=app-9xk2l5c7dz@4"}}}`},
		"removed":     {"pinned", `{"metadata":{"annotations":{"confrev.io/pins":null}}}`},
		"emptied":     {"pinned", `{"metadata":{"annotations":{"confrev.io/pins":""}}}`},
		"added":       {"unpinned", `{"metadata":{"annotations":{"confrev.io/pins":"configmap/app=app-5f7d8c9b2k@3"}}}`},
		"malformed":   {"unpinned", `{"metadata":{"annotations":{"confrev.io/pins":"malformed"}}}`},
		"in one list": {"pinned", `{"metadata":{"labels":{"a":"b"},"annotations":{"confrev.io/pins":"configmap/app=app-5f7d8c9b2k@4"}}}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := user.Patch(t.Context(), pods[tt.pod].DeepCopy(), client.RawPatch(types.MergePatchType, []byte(tt.patch)))
			const words = "denied request: annotation confrev.io/pins says which revisions the pod was started with"
			if !strings.Contains(errorText(err), words) {
				t.Errorf("want a refusal with %q, got: %v", words, err)
			}
		})
	}
	for name, pod := range pods {
		t.Run("but other changes are free: "+name, func(t *testing.T) {
			label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}}`))
			got := pod.DeepCopy()
			if err := user.Patch(t.Context(), got, label); err != nil || got.Labels["a"] != "b" {
				t.Errorf("labels %v, %v", got.Labels, err)
			}
			if diff := gocmp.Diff(pod.Spec.Volumes, got.Spec.Volumes); diff != "" {
				t.Errorf("the update changed references (-before +after):\n%s", diff)
			}
			status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"message":"running"}}`))
			if err := p.client.Status().Patch(t.Context(), got, status); err != nil || got.Status.Message != "running" {
				t.Errorf("status %q, %v", got.Status.Message, err)
			}
		})
	}
}

// whoMayPatchPods returns a client of a user who may do nothing but read and patch the namespace's pods.
func (p *policyTest) whoMayPatchPods(t *testing.T) client.Client {
	t.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "patcher", Namespace: p.namespace}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "patch"}}}}
	name := "patcher-of-" + p.namespace
	binding := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}}
	env.Create(t, p.client, role)
	env.Create(t, p.client, binding)
	config := rest.CopyConfig(p.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	user, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.poll(t, "the user to have its rights", func() bool {
		patch := client.RawPatch(types.MergePatchType, []byte(`{}`))
		return !apierrors.IsForbidden(user.Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "none", Namespace: p.namespace}}, patch))
	})
	return user
}

// In kube-system the chart's policies do not act, so a copy of the validating one stands there alone, as it does
// everywhere when someone removes the mutating one.
func TestValidatingPolicyAloneRefusesEveryForm(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(t)
	p.namespace = metav1.NamespaceSystem
	labels := p.installValidatingPolicyAlone(t)
	for _, kind := range []pin.Kind{pin.ConfigMap, pin.Secret} {
		for form, spec := range allForms(string(kind)) {
			t.Run(fmt.Sprintf("%s in %s", kind, form), func(t *testing.T) {
				pod := podWith(string(kind)+"/app=app-5f7d8c9b2k@3", spec)
				pod.Labels = labels
				p.wantRefusal(t, pod, "annotation confrev.io/pins was not applied to "+string(kind)+"/app. Look at Mutating",
					"confrev-resolve-pins")
				if len(podspec.Rewrite(&pod.Spec, resolveTo(revisionOfApp))) == 0 {
					t.Fatal("the spec has no reference")
				}
				if err := p.create(t, pod); err != nil {
					t.Errorf("with the reference resolved: %v", err)
				}
			})
		}
	}
}

// The validating policy finds references by itself, so it is held to Rewrite by itself.
func TestValidatingPolicyRefusesUnresolvedPods(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(t)
	p.namespace = metav1.NamespaceSystem
	labels := p.installValidatingPolicyAlone(t)
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		pod, pins := drawPod(t), drawPins(t)
		pod.Labels = labels
		plain := pod.DeepCopy()
		if p.create(t, plain) != nil {
			return // the API server's own refusal comes first
		}
		var unresolved []string
		for _, source := range pins.Sources() {
			only := pin.Set{source: pins[source]}
			if len(podspec.Replacements(&plain.Spec, only.Resolve)) > 0 {
				unresolved = append(unresolved, source.String())
			}
		}
		pod.Annotations = map[string]string{keys.Pins: pins.String()}
		if len(unresolved) == 0 {
			if err := p.create(t, pod); err != nil {
				t.Errorf("pins %s, nothing to resolve: %v", pins, err)
			}
			return
		}
		refused++
		p.wantRefusal(t, pod, "was not applied to "+strings.Join(unresolved, ", ")+". Look at")
	})
	if refused < 10 {
		t.Errorf("only %d pods had something to resolve", refused)
	}
}

// The chart is for Kubernetes 1.30 and later, save the mutating policy. What CEL has in which version is in
// k8s.io/apiserver/pkg/cel/environment; a new policy may use what the version before has. Who breaks this would notice only on
// such an old cluster.
func TestPoliciesUseTheCELOfKubernetes130(t *testing.T) {
	t.Parallel()
	p := newPolicyTest(t)
	environment, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(), cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(cel.OptionalTypesVersion(0)),
		ext.Strings(ext.StringsVersion(2)), ext.Sets(),
		cel.Function("find", cel.MemberOverload("string_find_string", []*cel.Type{cel.StringType, cel.StringType}, cel.StringType)),
		// The library of authorizations, which Kubernetes 1.30 has for validating policies.
		authorizes("group"), authorizes("resource"), authorizes("namespace"), authorizes("check"),
		cel.Function("allowed", cel.MemberOverload("authorizer_allowed", []*cel.Type{cel.DynType}, cel.BoolType)),
		cel.Variable("authorizer", cel.DynType),
		cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType),
		cel.Variable("namespaceObject", cel.DynType), cel.Variable("variables", cel.DynType),
	)
	if err != nil {
		t.Fatal(err)
	}
	compile := func(expression string) error {
		_, issues := environment.Compile(expression)
		return issues.Err()
	}
	if compile("[1, 1].distinct() == [1]") == nil {
		t.Fatal("what came in Kubernetes 1.35 is accepted: the test finds nothing")
	}
	for _, expression := range p.expressions(t) {
		if err := compile(expression); err != nil {
			t.Errorf("%s\n%v", expression, err)
		}
	}
}

// authorizes declares a step of an authorization check, such as authorizer.group("").
func authorizes(step string) cel.EnvOption {
	return cel.Function(step, cel.MemberOverload("authorizer_"+step, []*cel.Type{cel.DynType, cel.StringType}, cel.DynType))
}

// expressions returns those of what the chart installed for every version of Kubernetes.
func (p *policyTest) expressions(t *testing.T) []string {
	t.Helper()
	ours := client.MatchingLabels{"app.kubernetes.io/name": "confrev"}
	var all []string
	webhooks, policies := &admissionv1.MutatingWebhookConfigurationList{}, &admissionv1.ValidatingAdmissionPolicyList{}
	if err := errors.Join(p.client.List(t.Context(), webhooks, ours), p.client.List(t.Context(), policies, ours)); err != nil {
		t.Fatal(err)
	}
	for _, config := range webhooks.Items {
		for _, webhook := range config.Webhooks {
			for _, condition := range webhook.MatchConditions {
				all = append(all, condition.Expression)
			}
		}
	}
	for _, policy := range policies.Items {
		for _, condition := range policy.Spec.MatchConditions {
			all = append(all, condition.Expression)
		}
		for _, variable := range policy.Spec.Variables {
			all = append(all, variable.Expression)
		}
		for _, validation := range policy.Spec.Validations {
			all = append(all, validation.Expression, cmp.Or(validation.MessageExpression, "''"))
		}
	}
	if len(all) < 10 {
		t.Fatalf("found only %d expressions: is the chart installed?", len(all))
	}
	return all
}

// podspec.MaxReferences and pin.MaxPins are the most that a pod may have when confrev pins it. The API server bounds the cost of
// CEL: measured on 1.36.3, it gives up between 4,968 and 5,000 references with 200 pins, whatever their names and forms, since each
// pin is looked for among all of them; between 6,500 and 6,560 references to keys (6,690 and 6,750 to whole optional sources) with one
// pin whose name has 253 characters; and between 423 and 429 pins (names of 253 characters) or 550 and 560 (of 5), since finding a
// source that is pinned twice costs the square of their number. Before that, 4,000 references of 253 characters are 1.1 MiB,
// close to what etcd takes.
//
// It does not run next to other tests: on a machine that others keep busy, the API server gave up on the largest pods for four minutes.
func TestPoliciesPassPodsWithinTheirCostLimits(t *testing.T) {
	p := newPolicyTest(t)
	tests := map[string]struct {
		references, pins, nameLength, perContainer int
		whole                                      bool
	}{
		"50 containers with 50 references each":                       {50 * 50, 2, 20, 50, false},
		"the most references and pins, with the longest names":        {podspec.MaxReferences, pin.MaxPins, 253, 50, false},
		"the most references, each in a container of its own":         {podspec.MaxReferences, pin.MaxPins, 20, 1, false},
		"the most references, all in one container and to one source": {podspec.MaxReferences, 1, 253, podspec.MaxReferences, false},
		"the most references to whole optional sources":               {podspec.MaxReferences, pin.MaxPins, 253, 50, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod, pins := widePod(tt.references, tt.pins, tt.nameLength, tt.perContainer, tt.whole)
			want := pod.DeepCopy()
			if n := podspec.Replacements(&want.Spec, pins.Resolve); len(n) != tt.references+volumesOfWidePod {
				t.Fatalf("the pod has %d pinned references, want %d", len(n), tt.references+volumesOfWidePod)
			}
			podspec.Resolve(&want.Spec, pins)
			if err := p.create(t, pod); err != nil {
				t.Fatalf("%.2000s", err.Error())
			}
			if diff := gocmp.Diff(podspec.Uses(&want.Spec), podspec.Uses(&pod.Spec)); diff != "" {
				t.Errorf("references (-Resolve +admission):\n%.2000s", diff)
			}
		})
	}
}

// policyTest has a cluster with the chart installed, and a namespace of its own.
type policyTest struct {
	client    client.Client
	config    *rest.Config
	namespace string
}

func newPolicyTest(t *testing.T) *policyTest {
	t.Helper()
	p := &policyTest{client: cluster.Client, config: cluster.Config, namespace: newWorld(t).NS}
	// Pods need it, and making it here is quicker than waiting for the controller that does.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: p.namespace}}
	if err := p.client.Create(t.Context(), account); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create the default service account: %v", err)
	}
	p.waitForPolicies(t)
	return p
}

// waitForPolicies waits until both policies act: they have no status that says so.
func (p *policyTest) waitForPolicies(t *testing.T) {
	t.Helper()
	p.poll(t, "the policies to act", func() bool {
		pod := podWith("configmap/app=app-5f7d8c9b2k@3", volumeOf("configmap", "app"))
		resolved := p.create(t, pod) == nil && pod.Spec.Volumes[0].ConfigMap.Name == revisionOfApp
		return resolved && p.create(t, podWith("malformed", corev1.PodSpec{})) != nil
	})
}

func (p *policyTest) poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}

// testingT is what testing.T and rapid.T have in common here.
type testingT interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// create creates the pod as a dry run and reads the answer into it. The API server gives up on any request after 34 s, and on its webhook
// before. On a busy machine, the largest pods need longer than that, which says nothing about the policies.
func (p *policyTest) create(_ testingT, pod *corev1.Pod) error {
	pod.Namespace = p.namespace
	for began := time.Now(); ; {
		err := p.client.Create(context.Background(), pod, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "deadline exceeded") || time.Since(began) > patience {
			return err
		}
	}
}

func (p *policyTest) wantRefusal(t testingT, pod *corev1.Pod, phrases ...string) {
	t.Helper()
	err := p.create(t, pod.DeepCopy())
	if err == nil {
		t.Fatalf("the pod was admitted")
	}
	for _, phrase := range append(phrases, "denied request") {
		if !strings.Contains(err.Error(), phrase) {
			t.Errorf("want a refusal with %q, got: %v", phrase, err)
		}
	}
}

// checkAgreement creates the pod without pins and with them. Resolving the former must give the latter: the same
// references, and nothing else changed. A pod that is refused without pins must meet the same words with them.
func (p *policyTest) checkAgreement(t testingT, pod *corev1.Pod, pins pin.Set) {
	t.Helper()
	plain, pinned := pod.DeepCopy(), pod.DeepCopy()
	pinned.Annotations = map[string]string{keys.Pins: pins.String()}
	plainErr, pinnedErr := p.create(t, plain), p.create(t, pinned)
	if diff := gocmp.Diff(errorText(plainErr), errorText(pinnedErr)); diff != "" {
		t.Fatalf("pins changed the answer (-without +with %s):\n%s", pins, diff)
	}
	if plainErr != nil {
		return
	}
	podspec.Resolve(&plain.Spec, pins)
	if diff := gocmp.Diff(normalized(plain).Spec, normalized(pinned).Spec); diff != "" {
		t.Errorf("admission disagrees with Resolve through %s (-Resolve +admission):\n%s", pins, diff)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// normalized takes the random part from the name of the token volume that admission adds.
func normalized(pod *corev1.Pod) *corev1.Pod {
	const prefix = "kube-api-access-"
	for i, volume := range pod.Spec.Volumes {
		if strings.HasPrefix(volume.Name, prefix) {
			pod.Spec.Volumes[i].Name = prefix
		}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, container := range containers {
			for i, mount := range container.VolumeMounts {
				if strings.HasPrefix(mount.Name, prefix) {
					container.VolumeMounts[i].Name = prefix
				}
			}
		}
	}
	return pod
}

// installValidatingPolicyAlone copies the chart's validating policy for pods of kube-system with the labels that it
// returns, and waits until the copy acts.
func (p *policyTest) installValidatingPolicyAlone(t *testing.T) map[string]string {
	t.Helper()
	var installed admissionv1.ValidatingAdmissionPolicyList
	if err := p.client.List(t.Context(), &installed, client.MatchingLabels{"app.kubernetes.io/name": "confrev"}); err != nil {
		t.Fatalf("list policies: %v", err)
	}
	source := policyNamed(t, installed.Items, "refuse-unresolved-pins")
	name := "pol-" + rand.String(8)
	labels := map[string]string{"confrev-policy-test": name}
	policy := &admissionv1.ValidatingAdmissionPolicy{Spec: source.Spec}
	policy.Name = name
	policy.Spec.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{
		MatchLabels: map[string]string{corev1.LabelMetadataName: metav1.NamespaceSystem}}
	policy.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: labels}
	env.Create(t, p.client, policy)
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
	binding.Name, binding.Spec.PolicyName = name, name
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	env.Create(t, p.client, binding)
	p.poll(t, "the copied policy to act", func() bool {
		pod := podWith("malformed", corev1.PodSpec{})
		pod.Labels = labels
		return p.create(t, pod) != nil
	})
	return labels
}

func policyNamed(t *testing.T, policies []admissionv1.ValidatingAdmissionPolicy, suffix string) *admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	for i := range policies {
		if strings.HasSuffix(policies[i].Name, suffix) {
			return &policies[i]
		}
	}
	t.Fatalf("no policy …%s: is the chart installed?", suffix)
	return nil
}

func resolveTo(name string) func(pin.Source) (string, bool) {
	return func(pin.Source) (string, bool) { return name, true }
}
