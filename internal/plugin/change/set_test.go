package change

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

func TestSetOwnerPrintsWhatItDid(t *testing.T) {
	for flags, want := range map[string]string{
		"":                          "configmap/flags owned\n",
		"--remove":                  "configmap/flags no longer owned\n  deployment/web no longer owns it",
		"--remove --dry-run=client": "configmap/flags no longer owned (dry run)\n",
		"--remove --dry-run=server": "configmap/flags no longer owned (server dry run)\n",
		"--remove -o name":          "configmap/flags\n",
	} {
		t.Run(flags, func(t *testing.T) {
			var out bytes.Buffer
			cmd := &cobra.Command{}
			s := newOwnerSetter(&session.Session{IOStreams: genericiooptions.IOStreams{Out: &out}}, cmd)
			if err := cmd.ParseFlags(strings.Fields(flags)); err != nil {
				t.Fatal(err)
			}
			if err := s.Fill(cmd, []string{"configmap/flags", "deployment/web"}); err != nil {
				t.Fatal(err)
			}
			source, target := gen.ConfigMap("flags", nil), web("configmap/flags")
			if s.remove {
				source.OwnerReferences = []metav1.OwnerReference{ownerReference(target)}
			}
			live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(source).Build()
			if err := live.Get(t.Context(), client.ObjectKeyFromObject(source), source); err != nil {
				t.Fatal(err)
			}
			if err := s.own(t.Context(), &session.Connection{WithWatch: live}, target, source, listing{}); err != nil || !strings.HasPrefix(out.String(), want) {
				t.Errorf("%v, it prints\n%s", err, out.String())
			}
		})
	}
}

// What follows of an owner is what follows of tracking its source.
func TestWhatAnOwnerLeadsTo(t *testing.T) {
	first := "a controller pins configmap/flags at once, which is a rollout"
	for name, test := range map[string]struct {
		web  []gen.DeploymentModifier
		want []string
	}{
		"it refers to the source": {[]gen.DeploymentModifier{gen.Untracked, gen.Template(gen.EnvFrom("configmap/flags"))},
			[]string{"confrev.io/track of deployment/web: (nothing) -> configmap/flags", first}},
		"it does not refer to it": {[]gen.DeploymentModifier{gen.Untracked, gen.Template(gen.EnvFrom("configmap/app"))},
			[]string{"confrev.io/track of deployment/web: (nothing) -> configmap/flags", "the pod template does not refer to configmap/flags, so tracking it has no effect"}},
		"it consents to owners": {[]gen.DeploymentModifier{gen.Untracked, gen.Annotated(keys.Owners, "true"), gen.Template(gen.EnvFrom("configmap/flags"))}, []string{first}},
		"it has a pin":          {[]gen.DeploymentModifier{gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/flags")), gen.Pinned("configmap/flags=flags-cccccccccc@1")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			web, namespace := gen.Deployment("web", test.web...), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gen.Namespace}}
			live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(web, namespace).Build()
			if err := live.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
				t.Fatal(err)
			}
			found := session.Target{Kind: workload.Deployment, Object: web, Installation: installation.Installation{Options: installation.DefaultOptions()}}
			got, err := (&writing{}).tryToTrackOwned(t.Context(), &session.Connection{WithWatch: live}, found, gen.Source("configmap/flags"))
			if err != nil || !slices.Equal(got.notes, test.want) || got.wrote != (len(test.want) == 2) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
