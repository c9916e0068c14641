package change

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/test/gen"
)

func TestResumeSaysWhoStaysRolledBack(t *testing.T) {
	s := &fleet.Survey{}
	s.Source.Namespace = "shop"
	s.Apart = []spread.Member{{Name: "deployment/manual"}}
	if got := staysBack(s); got != "" {
		t.Errorf("no one was rolled back: %q", got)
	}
	s.Apart = append(s.Apart, spread.Member{Name: "deployment/freed", RolledBack: true, ByStop: true})
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.Apart = append(s.Apart, spread.Member{Name: "deployment/" + name, RolledBack: true})
	}
	const want = "; rolled back by someone, and without it until you resume each: deployment/a, deployment/b, deployment/c and 2 more (kubectl confrev resume deployment/a -n shop)"
	if got := staysBack(s); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A source is named as kubectl takes it: TYPE/NAME, or TYPE NAME.
func TestVerbsOfSourcesTakeBothForms(t *testing.T) {
	for args, test := range map[string]struct {
		isSource bool
		stop     string
	}{
		"configmap/app":           {true, ""},
		"configmap app":           {true, ""},
		"cm app":                  {true, ""},
		"secret db":               {true, ""},
		"configmap/app secret/db": {true, "want one source"},
		"configmap app db":        {true, "want one source"},
		"configmap":               {false, "want one source"},
		"deployment/web":          {false, "is not a source"},
		"deployment web":          {false, "is not a source"},
		"":                        {false, "want one source"},
	} {
		words := strings.Fields(args)
		if got := isSource(words); got != test.isSource {
			t.Errorf("%q names a source: %t", args, got)
		}
		cmd := &cobra.Command{Use: "stop SOURCE"}
		verb := &steering{writing: newWriting(&session.Session{}, cmd, "stopped")}
		switch err := verb.Fill(cmd, words); {
		case !says(err, test.stop):
			t.Errorf("stop %s: %v", args, err)
		case err == nil && verb.source != gen.Source(map[bool]string{true: "secret/db", false: "configmap/app"}[words[0] == "secret"]):
			t.Errorf("stop %s stops %s", args, verb.source)
		}
	}
}
