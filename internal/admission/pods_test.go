package admission_test

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"confrev.io/confrev/internal/admission"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/gen"
)

// admitted gives a pod as the pod webhook leaves it.
func admitted(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	response := admission.Pods{}.Handle(t.Context(), webhook.Request{
		AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: raw}}})
	if err := response.Complete(webhook.Request{}); err != nil || !response.Allowed {
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
	const pins = "configmap/app=app-x@3,secret/db=db-y@1"
	written := spec("configmap/app", "secret/db")
	tests := map[string]struct {
		pins       string
		spec, want *corev1.PodSpec
	}{
		"every form is resolved":                {pins, written, spec("configmap/app-x", "secret/db-y")},
		"a second time changes nothing":         {pins, spec("configmap/app-x", "secret/db-y"), spec("configmap/app-x", "secret/db-y")},
		"what was added since is resolved":      {pins, spec("configmap/app", "secret/db-y"), spec("configmap/app-x", "secret/db-y")},
		"other sources stay":                    {"configmap/web=web-x@1,configmap/db=no@1", written, written},
		"without pins nothing happens":          {"", written, written},
		"malformed pins are left to the policy": {"configmap/app=app-x", written, written},
		"and a source that is pinned twice":     {"configmap/app=app-x@1,configmap/app=app-y@2", written, written},
		"and a revision that is itself pinned":  {"configmap/app=web@1,configmap/web=web-x@1", written, written},
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
			response := admission.Pods{}.Handle(t.Context(), webhook.Request{
				AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte(raw)}}})
			if response.Allowed || response.Result == nil || response.Result.Code != 400 {
				t.Errorf("answered %+v", response.AdmissionResponse)
			}
		})
	}
}
