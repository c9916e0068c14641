package pipeline

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"confrev.io/confrev/internal/plugin/session"
)

const (
	appYAML = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {color: blue}\n"
	webYAML = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: web, envFrom: [{configMapRef: {name: app}}]}]}}}
`
	appRevision = "app-5kmc2ft4ds"
)

// manifestDir makes a directory of manifests, and goes there.
func manifestDir(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"deploy/1-app.yaml": appYAML, "deploy/2-web.yml": webYAML, "deploy/readme.md": "no: [manifest", "deploy/more/later.json": `{"later":true}`,
		"bad.yaml": "a: b\nc\n", "empty/readme.md": "", "workloads.yaml": "workloads: [{kind: web}]", "bases/kustomization.yaml": "resources: [../deploy/1-app.yaml]\n",
		"name-references.yaml": "nameReference:\n- kind: ConfigMap\n  fieldSpecs: [{kind: WebApp, path: spec/config}]\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	if err := os.Symlink("deploy", "link"); err != nil {
		t.Fatal(err)
	}
}

func runRender(t *testing.T, in string, args ...string) (out, errOut string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := NewRender(&session.Session{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(in), Out: &stdout, ErrOut: &stderr}})
	cmd.SetArgs(args)
	cmd.SetOut(&stdout)
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestRenderReadsFilesDirectoriesAndStandardInput(t *testing.T) {
	manifestDir(t)
	want, _, err := runRender(t, appYAML+"---\n"+webYAML)
	if err != nil || strings.Count(want, appRevision) != 2 {
		t.Fatal(want, err)
	}
	tests := map[string]struct {
		in   string
		args []string
		want string
	}{
		"a directory":                 {"", []string{"-f", "deploy"}, want},
		"a link to a directory":       {"", []string{"-f", "link"}, want},
		"files":                       {"", []string{"-f", "deploy/1-app.yaml", "-f", "deploy/2-web.yml"}, want},
		"a file and standard input":   {webYAML, []string{"-f", "deploy/1-app.yaml,-"}, want},
		"a directory and those in it": {"", []string{"-f", "deploy", "--recursive"}, want + "---\nlater: true\n"},
		"nothing on standard input":   {"", nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := runRender(t, tt.in, tt.args...)
			if err != nil || errOut != "" || out != tt.want {
				t.Errorf("%v, %q (-want +got):\n%s", err, errOut, cmp.Diff(tt.want, out))
			}
		})
	}
}

func TestMistakesOnTheCommandLineOfRenderAreNamed(t *testing.T) {
	manifestDir(t)
	tests := map[string]struct {
		args []string
		want string
	}{
		"an unknown mode":              {[]string{"--mode=hash"}, `--mode: "hash" is not a mode: want revision or checksum`},
		"an unknown tool":              {[]string{"--keep-for=argo"}, `--keep-for: "argo" is not a tool`},
		"a file that is not there":     {[]string{"-f", "nowhere.yaml"}, "nowhere.yaml: no such file"},
		"a directory without any":      {[]string{"-f", "empty"}, "empty: no file in it ends in .yaml, .yml or .json"},
		"a file that is named":         {[]string{"-f", "deploy/readme.md"}, "deploy/readme.md:1: "},
		"a file that is no YAML":       {[]string{"-f", "bad.yaml"}, "bad.yaml:2: could not find expected ':'"},
		"a configuration that is none": {[]string{"--config=workloads.yaml"}, `--config=workloads.yaml: workloads[0]: kind "web"`},
		"no configuration":             {[]string{"--config=nowhere.yaml"}, "--config=nowhere.yaml: open nowhere.yaml"},
		"references that are none":     {[]string{"--references=workloads.yaml"}, "--references=workloads.yaml: it has no nameReference"},
		"an argument":                  {[]string{"deploy"}, `unknown command "deploy"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, _, err := runRender(t, "", tt.args...)
			if err == nil || !strings.Contains(err.Error(), tt.want) || out != "" {
				t.Errorf("got %v and %q, want an error with %q", err, out, tt.want)
			}
		})
	}
}

// The examples of the help are run as they stand: what is piped into render is its input, and its own part must work.
func TestExamplesOfRenderRun(t *testing.T) {
	manifestDir(t)
	command := regexp.MustCompile(`kubectl confrev render([^|\n]*)`)
	examples := command.FindAllStringSubmatch(renderExample, -1)
	if len(examples) < 4 {
		t.Fatal(examples)
	}
	for _, example := range examples {
		out, errOut, err := runRender(t, appYAML+"---\n"+webYAML, strings.Fields(example[1])...)
		if err != nil || errOut != "" || !strings.Contains(out, appRevision) && !strings.Contains(out, "confrev.io/checksum") {
			t.Errorf("%s: %v, %s\n%s", example[0], err, errOut, out)
		}
	}
}

func TestRenderWarnsOnStandardError(t *testing.T) {
	out, errOut, err := runRender(t, appYAML+"---\n"+strings.Replace(webYAML, "{name: web}", "{name: web, annotations: {confrev.io/settle: soon}}", 1))
	want := "Warning: standard input:6: deployment/web: annotation confrev.io/settle: "
	if err != nil || !strings.Contains(out, appRevision) || !strings.HasPrefix(errOut, want) || strings.Count(errOut, "\n") != 1 {
		t.Errorf("%v, %q, want %q", err, errOut, want)
	}
}

// As a function it gives back what it got when it fails, with the error in its results.
func TestRenderAsFunctionPrintsResultsWhenItFails(t *testing.T) {
	in := "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\nfunctionConfig: {kind: Other}\n"
	out, _, err := runRender(t, in)
	want := "results:\n- message: 'standard input:4: functionConfig: kind \"Other\": want Render or ConfigMap'\n  severity: error\n"
	if err == nil || !strings.HasPrefix(out, in) || !strings.HasSuffix(out, want) {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}
