package deploy_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"confrev.io/confrev/internal/plugin"
	"confrev.io/confrev/internal/plugin/session"
)

// k9sPlugin has the fields that k9s knows.
type k9sPlugin struct {
	ShortCut, Description, Command                            string
	Scopes, Args, Pipes                                       []string
	Override, Confirm, Background, Dangerous, OverwriteOutput bool
}

// taken are the keys with Shift that k9s itself uses in these views, and in every table.
var taken = strings.Split("ACDFJLNPRUVW", "")

// onSource are the verbs that take a source alone.
var onSource = []string{"uses", "stop", "diff"}

// Each command of k9s is one of the plugin, with arguments that it takes. What changes something asks first.
func TestCommandsOfK9s(t *testing.T) {
	text, err := os.ReadFile("k9s/plugins.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Plugins map[string]k9sPlugin }
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Plugins) < 8 {
		t.Fatalf("only %d commands", len(file.Plugins))
	}
	keys := map[string]string{}
	for name, p := range file.Plugins {
		key, shift := strings.CutPrefix(p.ShortCut, "Shift-")
		if !shift || slices.Contains(taken, key) || p.Description == "" {
			t.Errorf("%s: the key %s is not free, or it has no description", name, p.ShortCut)
		}
		if other, used := keys[p.ShortCut]; used {
			t.Errorf("%s and %s have the same key", name, other)
		}
		keys[p.ShortCut] = name
		if p.Command != "sh" || len(p.Args) < 4 || !slices.Equal(p.Args[:3], []string{"-c", `kubectl confrev "$@" 2>&1 | less -R`, "confrev"}) {
			t.Errorf("%s runs %s %q", name, p.Command, p.Args)
			continue
		}
		for _, scope := range p.Scopes {
			if err := valid(p, scope); err != nil {
				t.Errorf("%s on %s: %v", name, scope, err)
			}
		}
	}
}

// valid checks a command on an object of a kind.
func valid(p k9sPlugin, scope string) error {
	replacer := strings.NewReplacer("$RESOURCE_NAME", scope, "$NAMESPACE", "shop", "$NAME", "web", "$CONTEXT", "prod; east")
	var args []string
	for _, arg := range p.Args[3:] {
		args = append(args, replacer.Replace(arg))
	}
	if joined := strings.Join(args, " "); strings.Contains(joined, "$") || !strings.HasSuffix(joined, "--namespace shop --context prod; east") {
		return fmt.Errorf("what k9s fills in is %q", args)
	}
	root := plugin.Command(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &bytes.Buffer{}, ErrOut: &bytes.Buffer{}})
	verb, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if verb == root {
		return fmt.Errorf("%q is no verb", args[0])
	}
	if err := verb.ParseFlags(rest); err != nil {
		return err
	}
	if err := verb.ValidateArgs(verb.Flags().Args()); err != nil {
		return err
	}
	return objectOf(verb, verb.Flags().Args(), p)
}

// objectOf checks that a verb takes the object, and asks before it writes.
func objectOf(verb *cobra.Command, args []string, p k9sPlugin) error {
	if writes := verb.GroupID == "Control"; writes != p.Confirm || writes != p.Dangerous {
		return fmt.Errorf("it writes: %t, and asks: %t", writes, p.Confirm)
	}
	if len(args) == 0 {
		return nil
	}
	_, err := session.ParseSource(args[0])
	if slices.Contains(onSource, verb.Name()) {
		return err
	}
	if err == nil && (verb.Name() == "undo" || verb.Name() == "advance") {
		return fmt.Errorf("%s takes a workload, not %s", verb.Name(), args[0])
	}
	workload, more, err := session.SplitArgs(args)
	if err == nil && (len(more) > 0 || workload != args[0]) {
		return fmt.Errorf("%q is not one object", args)
	}
	return err
}
