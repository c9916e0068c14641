package webhook_test

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/webhook"
	"confrev.io/confrev/test/gen"
)

// admitted returns a pod as the pod webhook leaves it.
func admitted(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	response := webhook.Pods{}.Handle(t.Context(), admission.Request{
		AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: raw}}})
	if err := response.Complete(admission.Request{}); err != nil || !response.Allowed {
		t.Fatalf("refused: %v, %v", response.Result, err)
	}
	if response.Patch != nil {
		patch, err := jsonpatch.DecodePatch(response.Patch)
		if err != nil {
			t.Fatal(err)
		}
		if raw, err = patch.Apply(raw); err != nil {
			t.Fatal(err)
		}
	}
	got := &corev1.Pod{}
	if err := json.Unmarshal(raw, got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestPods(t *testing.T) {
	spec := func(app, db string) *corev1.PodSpec {
		return gen.PodSpec(
			gen.Volume(app), gen.Volume(db), gen.Projected(gen.Part(app), gen.Part(db)), gen.EnvFrom(app), gen.Env(db, "k"),
			gen.InitContainer("init", gen.EnvFrom(db), gen.Env(app, "k")), gen.Container("other", gen.EnvFrom("configmap/other")),
		)
	}
	const pins = "configmap/app=app-xxxxxxxxxx@3,secret/db=db-zzzzzzzzzz@1"
	written := spec("configmap/app", "secret/db")
	tests := map[string]struct {
		pins       string
		spec, want *corev1.PodSpec
	}{
		"every form is resolved":           {pins, written, spec("configmap/app-xxxxxxxxxx", "secret/db-zzzzzzzzzz")},
		"a second time changes nothing":    {pins, spec("configmap/app-xxxxxxxxxx", "secret/db-zzzzzzzzzz"), spec("configmap/app-xxxxxxxxxx", "secret/db-zzzzzzzzzz")},
		"what was added since is resolved": {pins, spec("configmap/app", "secret/db-zzzzzzzzzz"), spec("configmap/app-xxxxxxxxxx", "secret/db-zzzzzzzzzz")},
		"a lost revision makes the pod wait": {pins, gen.PodSpec(gen.EnvFrom("configmap/app", gen.Optional(true)), gen.Env("secret/db", "k", gen.Optional(true))),
			gen.PodSpec(gen.EnvFrom("configmap/app-xxxxxxxxxx", gen.Optional(false)), gen.Env("secret/db-zzzzzzzzzz", "k", gen.Optional(true)))},
		"other sources stay":                    {"configmap/web=web-xxxxxxxxxx@1,configmap/db=db-xxxxxxxxxx@1", written, written},
		"without pins nothing happens":          {"", written, written},
		"malformed pins are left to the policy": {"configmap/app=app-xxxxxxxxxx", written, written},
		"and a source that is pinned twice":     {"configmap/app=app-xxxxxxxxxx@1,configmap/app=app-zzzzzzzzzz@2", written, written},
		"and a revision that is itself pinned":  {"configmap/app=app-xxxxxxxxxx@1,configmap/app-xxxxxxxxxx=app-xxxxxxxxxx-zzzzzzzzzz@1", written, written},
		"and what is no name of a revision":     {"configmap/app=other@1", written, written},
		"and what the cluster itself writes":    {"configmap/kube-root-ca.crt=kube-root-ca.crt-xxxxxxxxxx@1", gen.PodSpec(gen.Volume("configmap/kube-root-ca.crt")), gen.PodSpec(gen.Volume("configmap/kube-root-ca.crt"))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: *test.spec}
			pod.Annotations = map[string]string{"example.com/note": "stays", keys.Pins: test.pins}
			want := pod.DeepCopy()
			want.Spec = *test.want
			if diff := cmp.Diff(want, admitted(t, pod)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Without an answer, the API server would let nothing pass (failurePolicy Fail); what is no pod must not panic either.
func TestPodsAnswersNonsense(t *testing.T) {
	for name, raw := range map[string]string{"no object": "", "no JSON": "{", "no pod": `{"spec": []}`} {
		t.Run(name, func(t *testing.T) {
			response := webhook.Pods{}.Handle(t.Context(), admission.Request{
				AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte(raw)}}})
			if response.Allowed || response.Result == nil || response.Result.Code != 400 {
				t.Errorf("answered %+v", response.AdmissionResponse)
			}
		})
	}
}
