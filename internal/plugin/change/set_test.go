package change

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/plugin/session"
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
			if err := s.own(t.Context(), &session.Connection{WithWatch: live}, target, source, ""); err != nil || !strings.HasPrefix(out.String(), want) {
				t.Errorf("%v, it prints\n%s", err, out.String())
			}
		})
	}
}
