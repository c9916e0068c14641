package change

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/test/gen"
)

const canary = "canary-value"

func secretOfCanaries() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Annotations: map[string]string{
			corev1.LastAppliedConfigAnnotation: canary, "example.com/original": canary, keys.Policy: "live"}},
		Data: map[string][]byte{"password": []byte(canary)}, StringData: map[string]string{"user": canary},
	}
}

// writingTo returns what a verb prints with, in one of kubectl's formats.
func writingTo(out *bytes.Buffer, format string) *writing {
	w := &writing{Session: &session.Session{IOStreams: genericiooptions.IOStreams{Out: out}},
		print: genericclioptions.NewPrintFlags("done").WithTypeSetter(clientgoscheme.Scheme)}
	*w.print.OutputFormat = format
	return w
}

func TestValuesOfSecretsAreMaskedOnEveryPath(t *testing.T) {
	for _, format := range []string{"", "name", "json", "yaml", "jsonpath={.data}{.stringData}{.metadata}", "go-template={{.}}"} {
		for name, print := range map[string]func(*writing, client.Object) error{
			"written":   func(w *writing, obj client.Object) error { return w.printed(obj, "a note") },
			"unchanged": func(w *writing, obj client.Object) error { return w.unchanged(obj, "a note") },
			"dry run": func(w *writing, obj client.Object) error {
				w.dryRun = cmdutil.DryRunClient
				return w.printed(obj)
			},
			"created": func(w *writing, obj client.Object) error {
				w.fromInput = true
				return w.printed(obj)
			},
		} {
			t.Run(format+", "+name, func(t *testing.T) {
				var out bytes.Buffer
				obj := secretOfCanaries()
				if err := print(writingTo(&out, format), obj); err != nil {
					t.Fatal(err)
				}
				encoded := base64.StdEncoding.EncodeToString([]byte(canary))
				if text := out.String(); text == "" || strings.Contains(text, canary) || strings.Contains(text, encoded) {
					t.Errorf("it prints\n%s", text)
				}
				if string(obj.Data["password"]) != canary {
					t.Error("the object itself was changed")
				}
			})
		}
	}
}

// Keys and confrev's own annotations are shown; a masked Secret cannot be read as one, so it is not applied by mistake.
func TestAMaskedSecretShowsItsKeysAndCannotBeApplied(t *testing.T) {
	var out bytes.Buffer
	if err := writingTo(&out, "yaml").printed(secretOfCanaries()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: Secret", "password: '***'", keys.Policy + ": live"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
	if err := yaml.Unmarshal(out.Bytes(), &corev1.Secret{}); err == nil {
		t.Error("it can be read as a Secret")
	}
}

// What "create secret --dry-run=client" prints has not left the user's machine, and is there to be applied.
func TestPluginCreateSecretClientDryRun(t *testing.T) {
	var out bytes.Buffer
	w := writingTo(&out, "yaml")
	w.fromInput, w.dryRun = true, cmdutil.DryRunClient
	if err := w.printed(secretOfCanaries()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), base64.StdEncoding.EncodeToString([]byte(canary))) {
		t.Errorf("it prints\n%s", out.String())
	}
}

// What others wrote stays in its line, as plain text.
func TestWhatVerbsThatWriteSayIsPlainText(t *testing.T) {
	var out bytes.Buffer
	w := writingTo(&out, "")
	w.IOStreams = printer.Screened(w.IOStreams)
	if err := w.say(gen.Hostile); err != nil || !gen.Harmless(out.String()) {
		t.Errorf("%v, it shows %q", err, out.String())
	}
}

// Like kubectl, --template alone is a format for programs: no note follows it.
func TestATemplateNeedsNoFormat(t *testing.T) {
	for name, print := range map[string]func(*writing, client.Object) error{
		"written":   func(w *writing, obj client.Object) error { return w.printed(obj, "a note") },
		"unchanged": func(w *writing, obj client.Object) error { return w.unchanged(obj, "a note") },
	} {
		var out bytes.Buffer
		w := writingTo(&out, "")
		*w.print.TemplatePrinterFlags.TemplateArgument = "{{.metadata.name}}"
		if err := print(w, gen.ConfigMap("app", nil)); err != nil || out.String() != "app" {
			t.Errorf("%s: %v, got %q", name, err, out.String())
		}
	}
}
