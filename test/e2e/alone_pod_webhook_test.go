//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

// servesPolicies reports whether the API server serves MutatingAdmissionPolicy, so that the chart resolves pins by it.
func servesPolicies(t *testing.T) bool {
	t.Helper()
	kind := schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}
	_, err := cluster.Client.RESTMapper().RESTMapping(kind, "v1")
	return err == nil
}

// onlyWithPolicies leaves a test out, and says so, where pins are resolved by confrev itself, which the test stops.
func onlyWithPolicies(t *testing.T) {
	t.Helper()
	if !servesPolicies(t) {
		fmt.Fprintf(os.Stderr, "e2e: NOT APPLICABLE: %s: this API server does not serve MutatingAdmissionPolicy\n", t.Name())
		t.SkipNow()
	}
}

// usePodWebhook turns the policies off that resolve pins, where there are any. Tests that do are not parallel.
func usePodWebhook(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	if servesPolicies(t) {
		reinstallAfter(t)
		w.Must(reinstall(t, "podAdmission=webhook"))
	}
	w.waitPodAdmission("webhook")
	return w
}

// waitPodAdmission waits until confrev says what resolves pins.
func (w *world) waitPodAdmission(want string) {
	w.Helper()
	w.Eventually("pins are resolved by "+want, func() string {
		if by, err := confrev.PodAdmission(w.Ctx); err != nil || by != want {
			return fmt.Sprint(by, err)
		}
		return ""
	})
}

// removePodAdmission removes what resolves pins, and returns its kind.
func (w *world) removePodAdmission() (kind string) {
	w.Helper()
	kind = "MutatingAdmissionPolicyBinding"
	if !servesPolicies(w.T) {
		kind = "MutatingWebhookConfiguration"
	}
	w.Kubectl("delete", kind, "confrev-resolve-pins")
	return kind
}

// asked returns how often the pod webhook was called.
func (w *world) asked() float64 {
	w.Helper()
	metrics, err := confrev.ReadMetrics(w.Ctx)
	w.Must(err)
	return metrics.Sum("controller_runtime_webhook_requests_total", "webhook", "/resolve-pins")
}

// What the policies do, the webhook does.
func TestPodWebhook(t *testing.T) {
	samples := samplesOfPods()
	var byPolicy []string
	if servesPolicies(t) {
		byPolicy = newPolicyTest(t).answers(t, samples)
	}
	w := usePodWebhook(t)
	t.Run("ResolvesWhatResolveDoes", TestPolicyResolvesWhatResolveDoes)
	t.Run("AcceptsThePinsThatParse", TestPolicyAcceptsThePinsThatParse)
	t.Run("RefusesMalformedPins", TestPolicyRefusesMalformedPins)
	t.Run("RefusesPinsToAnythingButRevisions", TestPolicyRefusesPinsToAnythingButRevisions)
	t.Run("RefusesARevisionThatIsItselfPinned", TestPolicyRefusesARevisionThatIsItselfPinned)
	t.Run("LeavesOtherPodsAlone", TestPolicyLeavesOtherPodsAlone)
	t.Run("KeepsThePinsOfAPodThatExists", TestPolicyKeepsThePinsOfAPodThatExists)
	t.Run("PassesPodsWithinTheirCostLimits", TestPoliciesPassPodsWithinTheirCostLimits)
	t.Run("AnswersAsThePolicyDoes", func(t *testing.T) {
		onlyWithPolicies(t)
		if diff := cmp.Diff(byPolicy, newPolicyTest(t).answers(t, samples)); diff != "" {
			t.Errorf("(-policy +webhook):\n%s", diff)
		}
	})
	t.Run("IsNotAskedAboutOtherPods", func(t *testing.T) {
		p := newPolicyTest(t)
		before := w.asked()
		for range 50 {
			w.Must(p.create(t, podWith("", volumeOf("configmap", "app"))))
		}
		if after := w.asked(); after != before {
			t.Errorf("it was asked %v times about pods without pins", after-before)
		}
		w.Must(p.create(t, podWith("configmap/app=app-5f7d8c9b2k@3", volumeOf("configmap", "app"))))
		if after := w.asked(); after == before {
			t.Error("it was not asked about a pod with pins: it is not asked at all")
		}
	})
	t.Run("RollsForwardAndBack", testPodWebhookRollsForwardAndBack)
	t.Run("WithAllConfrevsDead", testPodWebhookWithAllConfrevsDead)
	t.Run("RemovedInAnEmergency", testPodWebhookRemovedInAnEmergency)
}

// Pods in the middle of a rollout, after an undo and after a restart of confrev have the configuration of their ReplicaSet.
func testPodWebhookRollsForwardAndBack(t *testing.T) {
	w, a := deployed(t, gen.Replicas(2))
	w.podsRead(a.Revision)
	w.onlyReplicaSets("web", 1)
	b := w.editTo("B")
	w.podsRead(b.Revision)
	w.Undo("web")
	w.WaitHeld("web", "web")
	w.podsRead(a.Revision)
	stop(t)
	start(t)
	// It must not wait again until it may pin.
	if by, err := confrev.PodAdmission(w.Ctx); err != nil || by != "webhook" {
		t.Errorf("after a restart: %s, %v", by, err)
	}
	w.Kubectl("delete", "pod", "-l", "app=web", "--wait=true")
	w.podsRead(a.Revision)
	c := w.editTo("C")
	w.podsRead(c.Revision)
}

// Without an answer, no pod that carries pins starts with other configuration than its own: it does not start. All others do.
func testPodWebhookWithAllConfrevsDead(t *testing.T) {
	w, a := deployed(t, gen.Replicas(2))
	w.podsRead(a.Revision)
	stop(t)
	began := time.Now()
	other := deployment("other", gen.Untracked, envFrom("web"))
	w.Create(other)
	w.Eventually("a Deployment without pins rolls out", func() string { return w.NotRolledOut("other") })
	t.Logf("a Deployment without pins was there after %s", time.Since(began).Round(time.Millisecond))

	w.Kubectl("delete", "pod", "-l", "app=web", "--wait=true")
	w.Kubectl("set", "image", "deployment/other", "app=app:2")
	w.Kubectl("scale", "deployment/web", "--replicas=3")
	w.WaitEvent("FailedCreate", w.ReplicaSets("web")[0].Name, `failed calling webhook "resolve-pins.confrev.io"`)
	t.Logf("a ReplicaSet is told: %s", w.Events("FailedCreate", w.ReplicaSets("web")[0].Name)[0])
	if got := w.readers(); len(got) > 0 {
		t.Errorf("pods that carry pins started: %v", got)
	}

	start(t)
	began = time.Now()
	w.Eventually("the ReplicaSet continues by itself", func() string {
		if got := w.readers(); got[a.Revision] != 3 || len(got) != 1 {
			return fmt.Sprint(got)
		}
		return ""
	})
	t.Logf("pods were there %s after confrev was", time.Since(began).Round(time.Millisecond))
}

// With no confrev available, docs/troubleshooting.md gives commands that let pods start at once, with the live source; once confrev
// is back, they have their revision again.
func testPodWebhookRemovedInAnEmergency(t *testing.T) {
	w, a := deployed(t, gen.Replicas(2))
	w.podsRead(a.Revision)
	stop(t)
	set := w.ReplicaSets("web")[0].Name
	w.Kubectl("delete", "pod", "-l", "app=web", "--wait=true")
	w.WaitEvent("FailedCreate", set, `failed calling webhook "resolve-pins.confrev.io"`)

	w.Kubectl("delete", "mutatingwebhookconfiguration", "confrev-resolve-pins")
	w.Kubectl("delete", "validatingadmissionpolicybinding", "confrev-refuse-unresolved-pins")
	w.Kubectl("annotate", "replicaset/"+set, "nudge=1")
	w.podsRead("web")

	w.Must(reinstall(t, "podAdmission=webhook"))
	start(t)
	w.waitPodAdmission("webhook")
	w.Kubectl("delete", "pod", "-l", "app=web", "--wait=true")
	w.podsRead(a.Revision)
}

// sampleOfPod is a pod and the pins that it is to have.
type sampleOfPod struct {
	pod  *corev1.Pod
	pins pin.Set
}

// samplesOfPods returns always the same.
func samplesOfPods() []sampleOfPod {
	generator := rapid.Custom(func(t *rapid.T) sampleOfPod { return sampleOfPod{drawPod(t), drawPins(t)} })
	samples := make([]sampleOfPod, 0, 150)
	for seed := range cap(samples) {
		samples = append(samples, generator.Example(seed))
	}
	return samples
}

// answers returns what becomes of each sample: what it refers to, or why it was refused.
func (p *policyTest) answers(t *testing.T, samples []sampleOfPod) []string {
	t.Helper()
	answers := make([]string, 0, len(samples))
	resolved := 0
	for i, sample := range samples {
		pod := sample.pod.DeepCopy()
		pod.Annotations = map[string]string{keys.Pins: sample.pins.String()}
		if err := p.create(t, pod); err != nil {
			answers = append(answers, err.Error())
			continue
		}
		resolved += len(podspec.Replacements(&sample.pod.Spec, sample.pins.Resolve))
		answers = append(answers, fmt.Sprint(i, podspec.Uses(&pod.Spec)))
	}
	t.Logf("%d references of %d pods were resolved", resolved, len(samples))
	return answers
}

// Switching from the policies to the webhook and back on a living cluster rolls nothing out, and pods that start on the way have
// what they are pinned to.
func TestSwitchingPodAdmissionRestartsNothing(t *testing.T) {
	onlyWithPolicies(t)
	w, a := deployed(t, gen.Replicas(2))
	w.podsRead(a.Revision)
	w.waitPodAdmission("policy")
	pods, generation := w.reads(), w.Deployment("web").Generation
	for _, by := range []string{"webhook", "policy"} {
		w.Must(reinstall(t, "podAdmission="+by))
		// At once, in the midst of the change: it may be refused for a moment, but never started with the live source.
		w.Kubectl("scale", "deployment/web", "--replicas="+map[string]string{"webhook": "3", "policy": "4"}[by])
		w.waitPodAdmission(by)
		w.podsRead(a.Revision)
		w.Eventually("the new pod is there", func() string { return w.NotRolledOut("web") })
		w.Barrier()
		now := w.reads()
		for name := range pods {
			if now[name] != pods[name] {
				t.Errorf("with %s, pod %s reads %q, before %q", by, name, now[name], pods[name])
			}
		}
		if len(w.ReplicaSets("web")) != 1 || w.Deployment("web").Generation > generation+2 {
			t.Errorf("with %s, something rolled web out:\n%s", by, w.Describe())
		}
		// The other one is gone, and is not what did it.
		if got := w.installed(); !strings.HasPrefix(got, map[string]string{"webhook": "mutatingwebhook", "policy": "mutatingadmissionpolicy"}[by]) {
			t.Errorf("with %s, there is %q", by, got)
		}
	}
}

// installed lists what the chart installed to resolve pins.
func (w *world) installed() string {
	w.Helper()
	return w.Kubectl("get", "mutatingadmissionpolicies,mutatingwebhookconfigurations", "-o", "name", "--ignore-not-found",
		"--field-selector=metadata.name=confrev-resolve-pins")
}
