package webhook

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
)

// Whatever happens, a request is let through; what could not be read is said (rule 18).
func TestWorkloadsLetsEveryRequestThrough(t *testing.T) {
	handler := &Workloads{Gate: &gate.Gate{}, Notices: notice.Sinks{}}
	handler.Add(&rollout.Engine{Kind: workload.Deployment, Options: rollout.Options{Namespace: "confrev"}, Now: time.Now})
	deployment := metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	for name, test := range map[string]struct {
		kind            metav1.GroupVersionKind
		namespace, body string
		warned          bool
	}{
		"of an unknown kind":         {metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Other"}, "default", "canary", false},
		"in confrev's own namespace": {deployment, "confrev", "canary", false},
		"that cannot be read":        {deployment, "default", "canary", true},
	} {
		t.Run(name, func(t *testing.T) {
			response := handler.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Kind: test.kind, Namespace: test.namespace, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(test.body)},
			}})
			if !response.Allowed || len(response.Patches) > 0 || (len(response.Warnings) > 0) != test.warned {
				t.Errorf("%+v", response)
			}
			if strings.Contains(strings.Join(response.Warnings, ""), "canary") {
				t.Errorf("repeats content: %q", response.Warnings)
			}
		})
	}
}

func TestTextsLeaveOutWhatIsMeantToBe(t *testing.T) {
	got := texts([]notice.Notice{{Text: "wrong"}, {Text: "meant", Normal: true}, {Text: strings.Repeat("x", 1000)}})
	if len(got) != 2 || got[0] != "confrev: wrong" || len(got[1]) != maxWarning {
		t.Errorf("says %q", got)
	}
	var many []notice.Notice
	for i := range 20_000 {
		many = append(many, notice.Warning(notice.SourceMissing, pin.Source{}, "app-%d does not exist", i))
	}
	if got := texts(many); len(got) != 21 || !strings.HasPrefix(got[20], "confrev: and 19980 more") {
		t.Errorf("of 20,000 warnings %d are left: %q", len(got), got)
	}
}
