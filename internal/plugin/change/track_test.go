package change

import (
	"bytes"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

func labelled(value string) gen.DeploymentModifier {
	return func(d *appsv1.Deployment) { d.Labels = map[string]string{keys.Track: value} }
}

// The annotation takes precedence over all else that opts a workload in, so one source in it would opt the others out.
func TestTrackNeverOptsOut(t *testing.T) {
	for name, test := range map[string]struct {
		namespace string
		web       []gen.DeploymentModifier
		want      string
		says      string
		err       string
	}{
		"nothing opts it in":        {"", []gen.DeploymentModifier{gen.Untracked}, "configmap/app", "(nothing) -> configmap/app", ""},
		"the namespace tracks all":  {"all", []gen.DeploymentModifier{gen.Untracked}, "", "unchanged\n  tracked already, because of the label confrev.io/track of its namespace", ""},
		"its label tracks all":      {"", []gen.DeploymentModifier{gen.Untracked, labelled("all")}, "", "unchanged\n  tracked already, because of its label confrev.io/track", ""},
		"mode attach tracks all":    {"", []gen.DeploymentModifier{gen.Untracked, gen.Annotated(keys.Mode, "attach")}, "", "unchanged\n  tracked already, because of mode attach", ""},
		"another tool tracks it":    {"", []gen.DeploymentModifier{gen.Untracked, gen.Annotated("configmap.reloader.stakater.com/reload", "app")}, "", "unchanged\n  tracked already, because of annotations of another tool", ""},
		"another tool tracks other": {"", []gen.DeploymentModifier{gen.Untracked, gen.Annotated("configmap.reloader.stakater.com/reload", "other")}, "", "", "is opted in by annotations of another tool"},
		"its label opts it out":     {"all", []gen.DeploymentModifier{gen.Untracked, labelled("none")}, "", "", "first: kubectl label deployment/web confrev.io/track- -n default"},
		"opted out by annotation":   {"all", []gen.DeploymentModifier{gen.Tracking("none")}, "configmap/app", "none -> configmap/app", ""},
		"another is listed":         {"all", []gen.DeploymentModifier{gen.Tracking("configmap/other")}, "configmap/app,configmap/other", "-> configmap/app,configmap/other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gen.Namespace, Labels: map[string]string{keys.Track: test.namespace}}}
			web := gen.Deployment("web", append([]gen.DeploymentModifier{gen.Template(gen.EnvFrom("configmap/app"), gen.EnvFrom("configmap/other"))}, test.web...)...)
			live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(namespace, web).Build()
			if err := live.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
				t.Fatal(err)
			}
			found := session.Target{Kind: workload.Deployment, Object: web, Installation: installation.Installation{Options: installation.DefaultOptions()}}
			found.Installation.Options.Compat = optin.Compat{Reloader: true}
			var out bytes.Buffer
			verb := &tracking{onWorkload{writing: writingTo(&out, ""), sources: []pin.Source{gen.Source("configmap/app")}}, addTracked}
			err := verb.track(t.Context(), &session.Connection{WithWatch: live}, found)
			if got := web.Annotations[keys.Track]; !says(err, test.err) || err == nil && got != test.want || !strings.Contains(out.String(), test.says) {
				t.Errorf("it tracks %q, %v, and says\n%s", got, err, out.String())
			}
		})
	}
}
