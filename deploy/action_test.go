// Package deploy_test runs what deploy has for other tools: the GitHub Action's script, health checks and actions of Argo CD, expressions
// of Flux, and commands of k9s.
package deploy_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/itchyny/gojq"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// recorder is a program that notes its arguments and the file of its body, and answers with files of the test.
const recorder = `#!/usr/bin/env bash
printf '%s\n' "${0##*/}" >>"$RECORDS/calls"
printf '%s\0' "$@" >>"$RECORDS/${0##*/}.args"; printf '\n\0' >>"$RECORDS/${0##*/}.args"
env >>"$RECORDS/${0##*/}.env"
case "${0##*/} $*" in
kubectl*) cat "$RECORDS/page"; cat "$RECORDS/stderr" >&2; exit "$(cat "$RECORDS/status")" ;;
*--method*) for argument in "$@"; do if [[ $argument == body=@* ]]; then cp "${argument#body=@}" "$RECORDS/body"; fi; done ;;
*/pulls/7/files*) cat "$RECORDS/files" ;;
*/issues/7/comments*) cat "$RECORDS/comments" ;;
*) exit 9 ;;
esac
`

const token = "token-of-the-job"

// job is a run of the action's script, with recorders for kubectl and gh.
type job struct {
	*testing.T
	workspace, records string
	env                map[string]string
}

func newJob(t *testing.T) *job {
	t.Helper()
	j := &job{T: t, workspace: t.TempDir(), records: t.TempDir()}
	for _, name := range []string{"kubectl", "gh"} {
		j.write(filepath.Join(j.records, name), recorder, 0o755)
	}
	for name, text := range map[string]string{"page": "## This edit restarts 1 workload\n", "stderr": "", "status": "3", "files": "", "comments": "", "summary": "", "output": ""} {
		j.answer(name, text)
	}
	j.env = map[string]string{
		"PATH": j.records + ":" + os.Getenv("PATH"), "HOME": j.records, "RECORDS": j.records, "GITHUB_WORKSPACE": j.workspace, "GITHUB_REPOSITORY": "team/shop",
		"GITHUB_STEP_SUMMARY": filepath.Join(j.records, "summary"), "GITHUB_OUTPUT": filepath.Join(j.records, "output"), "GH_TOKEN": token,
		"CONFREV_PATHS": "deploy\n", "CONFREV_KUSTOMIZE": "", "CONFREV_NAMESPACE": "", "CONFREV_CONTEXT": "", "CONFREV_SERVER_SIDE": "false", "CONFREV_NAME": "",
		"CONFREV_COMMENT": "true", "CONFREV_AUTHOR": "github-actions[bot]", "CONFREV_FAIL_ON": "", "CONFREV_PULL_REQUEST": "7",
	}
	j.changes("deploy/app.yaml")
	return j
}

func (j *job) write(path, text string, mode os.FileMode) {
	j.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		j.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		j.Fatal(err)
	}
}

func (j *job) answer(name, text string) { j.write(filepath.Join(j.records, name), text, 0o644) }

// changes makes files, and makes gh list them as changed.
func (j *job) changes(names ...string) {
	j.Helper()
	var list strings.Builder
	for _, name := range names {
		j.write(filepath.Join(j.workspace, name), "kind: ConfigMap", 0o644)
		list.WriteString(base64.StdEncoding.EncodeToString([]byte(name)) + "\n")
	}
	j.answer("files", list.String())
}

func (j *job) read(name string) string {
	j.Helper()
	text, err := os.ReadFile(filepath.Join(j.records, name))
	if err != nil && !os.IsNotExist(err) {
		j.Fatal(err)
	}
	return string(text)
}

// run runs the script, and returns its output and whether the job succeeds.
func (j *job) run() (out string, ok bool) {
	j.Helper()
	script, err := filepath.Abs("github-action/preview.sh")
	if err != nil {
		j.Fatal(err)
	}
	cmd := exec.CommandContext(j.Context(), script)
	cmd.Dir = j.workspace
	for name, value := range j.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	text, err := cmd.CombinedOutput()
	for _, seen := range []string{string(text), j.read("body"), j.read("summary"), j.read("output"), j.read("kubectl.env"), j.read("kubectl.args"), j.read("gh.args")} {
		if strings.Contains(seen, token) {
			j.Errorf("it shows the token:\n%s", seen)
		}
	}
	return string(text), err == nil
}

// calls returns the arguments of each call of a program.
func (j *job) calls(program string) [][]string {
	j.Helper()
	var all [][]string
	var one []string
	for argument := range strings.SplitSeq(strings.TrimSuffix(j.read(program+".args"), "\x00"), "\x00") {
		if argument == "\n" {
			all, one = append(all, one), nil
			continue
		}
		one = append(one, argument)
	}
	return all
}

// written returns the calls of gh that write.
func (j *job) written() []string {
	var all []string
	for _, call := range j.calls("gh") {
		if i := slices.Index(call, "--method"); i >= 0 {
			all = append(all, strings.Join(call[i+1:i+3], " "))
		}
	}
	return all
}

// filenames returns what kubectl reads from its flags.
func filenames(t *testing.T, arguments []string) []string {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	names := flags.StringSlice("filename", nil, "")
	if err := flags.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	return *names
}

// Whatever a file is called, kubectl gets its name, and nothing runs.
func TestActionPreviewsTheChangedManifests(t *testing.T) {
	j := newJob(t)
	odd := []string{
		"deploy/app.yaml", "deploy/a,b.yaml", `deploy/"quoted".yaml`, "deploy/with space.yml", "deploy/line\nfeed.json", "deploy/$(touch pwned).yaml",
		"deploy/`touch pwned`.yaml", "deploy/;touch pwned;.yaml", "deploy/*.yaml", "deploy/--kubeconfig=x.yaml", `deploy/back\slash.yaml`, "deploy/größe.yaml", "deploy/::error::x.yaml", "deploy/sub/app.yaml",
	}
	j.changes(append(slices.Clone(odd), "other/app.yaml", "deployments.yaml")...)
	j.env["CONFREV_NAMESPACE"], j.env["CONFREV_CONTEXT"], j.env["CONFREV_SERVER_SIDE"] = "shop; touch pwned", "prod $(touch pwned)", "true"
	if out, ok := j.run(); !ok {
		t.Fatal(out)
	}
	calls := j.calls("kubectl")
	if len(calls) != 1 {
		t.Fatalf("%d calls: %q", len(calls), calls)
	}
	var want []string
	for _, name := range odd {
		want = append(want, filepath.Join(j.workspace, name))
	}
	if got := filenames(t, calls[0]); !slices.Equal(got, want) {
		t.Errorf("kubectl reads\n%q, want\n%q", got, want)
	}
	fixed := slices.DeleteFunc(slices.Clone(calls[0]), func(argument string) bool { return strings.HasPrefix(argument, "--filename=") })
	if want := []string{"confrev", "preview", "--namespace=shop; touch pwned", "--context=prod $(touch pwned)", "--server-side", "--exit-code", "--output=markdown"}; !slices.Equal(fixed, want) {
		t.Errorf("kubectl is run with\n%q, want\n%q", fixed, want)
	}
	if found, err := filepath.Glob(filepath.Join(j.workspace, "pwned")); err != nil || len(found) > 0 {
		t.Errorf("the name of a file was run as a command: %v", err)
	}
}

// A link, or a name with dots, leads to nothing outside of the workspace: the job may have credentials there.
func TestActionReadsNothingElse(t *testing.T) {
	j := newJob(t)
	secret := filepath.Join(j.records, "kubeconfig.yaml")
	j.write(secret, "token: x", 0o600)
	j.changes("deploy/app.yaml")
	for _, link := range []struct{ name, to string }{{"deploy/link.yaml", secret}, {"deploy/folder", j.records}, {"deploy/here.yaml", filepath.Join(j.workspace, "deploy/app.yaml")}} {
		if err := os.Symlink(link.to, filepath.Join(j.workspace, link.name)); err != nil {
			t.Fatal(err)
		}
	}
	var list strings.Builder
	for _, name := range []string{"deploy/app.yaml", "deploy/link.yaml", "deploy/folder/kubeconfig.yaml", "deploy/here.yaml", "../" + filepath.Base(j.records) + "/kubeconfig.yaml", "deploy/gone.yaml", "https://evil.example/app.yaml", "-", ""} {
		list.WriteString(base64.StdEncoding.EncodeToString([]byte(name)) + "\n")
	}
	j.answer("files", list.String())
	if out, ok := j.run(); !ok {
		t.Fatal(out)
	}
	if got, want := filenames(t, j.calls("kubectl")[0]), []string{filepath.Join(j.workspace, "deploy/app.yaml")}; !slices.Equal(got, want) {
		t.Errorf("kubectl reads %q, want %q", got, want)
	}
}

// A pull request has one comment of each preview, by the token's user.
func TestActionKeepsOneComment(t *testing.T) {
	const mine, other = "11 github-actions[bot] <!-- confrev preview -->\n", "12 mallory <!-- confrev preview -->\n"
	for name, tt := range map[string]struct {
		comments, status, name, want string
	}{
		"none, and something rolls out":          {"", "3", "", "[POST repos/team/shop/issues/7/comments]"},
		"none, and nothing rolls out":            {"", "0", "", "[]"},
		"none, and not everything was seen":      {"", "4", "", "[POST repos/team/shop/issues/7/comments]"},
		"one":                                    {mine, "3", "", "[PATCH repos/team/shop/issues/comments/11]"},
		"one, and nothing rolls out any longer":  {mine, "0", "", "[PATCH repos/team/shop/issues/comments/11]"},
		"one with carriage returns":              {"11 github-actions[bot] <!-- confrev preview -->\r\n", "3", "", "[PATCH repos/team/shop/issues/comments/11]"},
		"one of another user that looks like it": {other, "3", "", "[POST repos/team/shop/issues/7/comments]"},
		"both":                                   {mine + other, "3", "", "[PATCH repos/team/shop/issues/comments/11]"},
		"one of another preview":                 {mine, "3", "staging", "[POST repos/team/shop/issues/7/comments]"},
		"one of this preview":                    {mine + "13 github-actions[bot] <!-- confrev preview staging -->\n", "3", "staging", "[PATCH repos/team/shop/issues/comments/13]"},
		"what is no comment":                     {"x; touch pwned github-actions[bot] <!-- confrev preview -->\n", "3", "", "[POST repos/team/shop/issues/7/comments]"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			j.answer("comments", tt.comments)
			j.answer("status", tt.status)
			j.env["CONFREV_NAME"] = tt.name
			out, ok := j.run()
			if got := fmt.Sprint(j.written()); !ok || got != tt.want {
				t.Errorf("it writes %s, want %s\n%s", got, tt.want, out)
			}
			marker := strings.TrimSpace("<!-- confrev preview "+tt.name) + " -->\n"
			if body := j.read("body"); tt.want != "[]" && body != marker+"## This edit restarts 1 workload\n" {
				t.Errorf("the comment is\n%s", body)
			}
			if got := j.read("output"); got != "status="+tt.status+"\n" {
				t.Errorf("its output is %q", got)
			}
		})
	}
}

// A pull request without manifests has no preview, and one that no longer has any says so in the comment that it has.
func TestActionWithoutManifests(t *testing.T) {
	j := newJob(t)
	j.changes("other/app.yaml")
	j.answer("comments", "11 github-actions[bot] <!-- confrev preview -->\n")
	if out, ok := j.run(); !ok || len(j.read("kubectl.args")) > 0 || !strings.Contains(j.read("body"), "restarts no workload") || j.read("output") != "status=0\n" {
		t.Errorf("it runs %q, and comments\n%s\n%s", j.calls("kubectl"), j.read("body"), out)
	}
}

// A list that a comment cannot hold is cut at a line, and the summary of the job has all of it.
func TestActionCutsALongComment(t *testing.T) {
	j := newJob(t)
	page := "## This edit restarts 2000 workloads\n\n" + strings.Repeat("| `shop` | `deployment/größe` | `configmap/app` | Advanced |\n", 2000)
	j.answer("page", page)
	if out, ok := j.run(); !ok {
		t.Fatal(out)
	}
	body := j.read("body")
	if len(body) > 65000 || !strings.HasSuffix(body, "Advanced |\n\nThe list is too long for a comment. The summary of the job has all of it.\n") {
		t.Errorf("%d bytes, and it ends with %q", len(body), body[max(0, len(body)-200):])
	}
	if j.read("summary") != page {
		t.Error("the summary is another page")
	}
}

// What kubectl says is shown, but is no command for the runner. A preview that fails fails the job, and replaces what an older one said.
func TestActionWhosePreviewFails(t *testing.T) {
	j := newJob(t)
	j.answer("status", "1")
	j.answer("page", "half a page")
	j.answer("stderr", "error: no\n::set-env name=PATH::/evil\n")
	out, ok := j.run()
	if ok || !strings.Contains(out, "ended with status 1") || !strings.Contains(j.read("body"), "## The preview failed") || strings.Contains(j.read("body"), "half") {
		t.Errorf("succeeds: %t\n%s\n%s", ok, out, j.read("body"))
	}
	if !regexp.MustCompile(`(?m)^::stop-commands::([0-9a-f]{32})\nerror: no\n::set-env name=PATH::/evil\n::[0-9a-f]{32}::$`).MatchString(out) {
		t.Errorf("a message may be a command:\n%s", out)
	}
	if j.read("output") != "" {
		t.Errorf("its output is %q", j.read("output"))
	}
}

func TestActionSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		set  map[string]string
		ok   bool
		want string
	}{
		"fail-on, and it is":        {map[string]string{"CONFREV_FAIL_ON": "4 3"}, false, "status 3 (fail-on)"},
		"fail-on, and it is not":    {map[string]string{"CONFREV_FAIL_ON": "4"}, true, ""},
		"without a comment":         {map[string]string{"CONFREV_COMMENT": "false"}, true, ""},
		"another event":             {map[string]string{"CONFREV_PULL_REQUEST": ""}, false, "for the event pull_request"},
		"a number that is a path":   {map[string]string{"CONFREV_PULL_REQUEST": "7/../8"}, false, "for the event pull_request"},
		"a name that ends comments": {map[string]string{"CONFREV_NAME": "--> x"}, false, "name: use letters"},
		"neither":                   {map[string]string{"CONFREV_PATHS": ""}, false, "set paths or kustomize"},
		"both":                      {map[string]string{"CONFREV_KUSTOMIZE": "deploy"}, false, "set either"},
		"a kustomization":           {map[string]string{"CONFREV_PATHS": "", "CONFREV_KUSTOMIZE": "overlays/prod"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			maps.Copy(j.env, tt.set)
			out, ok := j.run()
			if ok != tt.ok || !strings.Contains(out, tt.want) {
				t.Errorf("succeeds: %t, want %t and %q\n%s", ok, tt.ok, tt.want, out)
			}
			if comments := len(j.written()) > 0; comments != (tt.set["CONFREV_COMMENT"] != "false" && !strings.Contains(out, "::error::") || tt.set["CONFREV_FAIL_ON"] != "") {
				t.Errorf("it comments: %t", comments)
			}
			if folder := tt.set["CONFREV_KUSTOMIZE"]; tt.ok && folder != "" && !slices.Contains(j.calls("kubectl")[0], "--kustomize="+j.workspace+"/"+folder) {
				t.Errorf("kubectl is run with %q", j.calls("kubectl"))
			}
		})
	}
}

// Inputs reach the script as variables only: an expression in a command would run what a pull request contains.
func TestActionInterpolatesNothing(t *testing.T) {
	text, err := os.ReadFile("github-action/action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var action struct {
		Inputs map[string]struct{ Description, Default string }
		Runs   struct {
			Using string
			Steps []struct {
				ID, Shell, Run string
				Env            map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &action); err != nil || action.Runs.Using != "composite" || len(action.Runs.Steps) != 1 {
		t.Fatalf("%v, %+v", err, action)
	}
	step := action.Runs.Steps[0]
	if step.Run != `"$GITHUB_ACTION_PATH/preview.sh"` || step.Shell != "bash" {
		t.Errorf("it runs %q in %s", step.Run, step.Shell)
	}
	script, err := os.ReadFile("github-action/preview.sh")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/guide/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	for input, about := range action.Inputs {
		if !strings.Contains(string(page), "`"+input+"`") {
			t.Errorf("docs/guide/ci.md does not mention input %s", input)
		}
		if !slices.ContainsFunc(slices.Collect(maps.Values(step.Env)), func(value string) bool { return value == "${{ inputs."+input+" }}" }) || about.Description == "" {
			t.Errorf("input %s is not passed on, or not described", input)
		}
	}
	used := regexp.MustCompile(`\bCONFREV_[A-Z_]+`).FindAllString(string(script), -1)
	for _, name := range used {
		if _, set := step.Env[name]; !set {
			t.Errorf("the script uses %s, which action.yml does not set", name)
		}
	}
	for name := range step.Env {
		if name != "GH_TOKEN" && !slices.Contains(used, name) {
			t.Errorf("action.yml sets %s, which the script does not use", name)
		}
	}
}

// What gh answers is filtered by expressions. gh runs them with the same library.
func TestActionsExpressions(t *testing.T) {
	j := newJob(t)
	if out, ok := j.run(); !ok {
		t.Fatal(out)
	}
	answers := map[string]string{
		"repos/team/shop/pulls/7/files?per_page=100": `[{"filename":"deploy/a.yaml","status":"modified"},{"filename":"deploy/gone.yml","status":"removed"},{"filename":"x\n.json","status":"added"},
			{"filename":"README.md","status":"added"},{"filename":"a.yaml.md","status":"added"},{"filename":"b.yml","status":"renamed"}]`,
		"repos/team/shop/issues/7/comments?per_page=100": `[{"id":11,"user":{"login":"github-actions[bot]"},"body":"<!-- confrev preview -->\r\n## This edit"},
			{"id":12,"user":{"login":"mallory"},"body":"hello <!-- confrev preview -->"},{"id":13,"user":{"login":"ann"},"body":"<!-- confrev preview staging -->\n|"},{"id":14,"user":{"login":"ann"},"body":""}]`,
	}
	var got []string
	for _, call := range j.calls("gh") {
		answer, asked := answers[call[min(2, len(call)-1)]]
		i := slices.Index(call, "--jq")
		if !asked || i < 0 {
			continue
		}
		query, err := gojq.Parse(call[i+1])
		if err != nil {
			t.Fatal(err)
		}
		var input any
		if err := json.Unmarshal([]byte(answer), &input); err != nil {
			t.Fatal(err)
		}
		for results := query.Run(input); ; {
			result, more := results.Next()
			if !more {
				break
			}
			text := fmt.Sprint(result)
			if name, err := base64.StdEncoding.DecodeString(text); err == nil {
				text = string(name)
			}
			got = append(got, text)
		}
	}
	want := []string{"deploy/a.yaml", "x\n.json", "b.yml", "11 github-actions[bot] <!-- confrev preview -->\r", "13 ann <!-- confrev preview staging -->"}
	if !slices.Equal(got, want) {
		t.Errorf("they return\n%q, want\n%q", got, want)
	}
}
