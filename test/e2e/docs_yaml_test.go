//go:build e2e

package e2e

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"confrev.io/confrev/test/env"
)

// Every file of docs/examples can be applied as it is. Other tests look at what becomes of them.
func TestExamplesOfTheDocsAreApplied(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(env.Root(), "docs", "examples", "*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("found only %q: %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Kubectl("apply", "--validate=strict", "-f", file)
		})
	}
}

// fileOf finds the name of the file that a block is, which its first line is then, or its second after "#!".
var fileOf = regexp.MustCompile(`^(?:#!.*\n)?# (\S+\.(?:yaml|sh))\n`)

// writes writes a block to the file that it is, and returns its name.
func (r *reader) writes(b block) string {
	r.Helper()
	name := "block.yaml"
	if found := fileOf.FindStringSubmatch(b.text); found != nil {
		name = found[1]
	}
	r.Must(os.WriteFile(filepath.Join(r.dir, name), []byte(r.named(b.text)), 0o700)) //nolint:gosec // A script is to be run.
	return name
}

// applies applies a block of YAML: as the section's file says, or according to its form. Then doctor has nothing to say about it.
func (r *reader) applies(b block) {
	r.Helper()
	file := r.writes(b)
	command := r.file(".yaml")
	if command == "" {
		command = r.howToApply(b)
	}
	printed := r.mustRun(b.String(), "set -- "+file+"\n"+command)
	if strings.Contains(printed, "unknown field") {
		r.Errorf("%s has fields that do not exist:\n%s", b, printed)
	}
	found := ""
	for line := range strings.Lines(r.plugin("doctor").stdout) {
		if finding.MatchString(line) && strings.Contains(line, " in "+r.NS+": ") {
			found += line
		}
	}
	if found != "" && r.file(".finds") == "" {
		r.Errorf("%s: doctor finds %s", b, found)
	}
}

// howToApply returns the command for YAML of a form: a whole object, a part of one, annotations only, values of the chart.
func (r *reader) howToApply(b block) string {
	r.Helper()
	var text map[string]any
	first, _, _ := strings.Cut(b.text, "\n---\n")
	if err := yaml.Unmarshal([]byte(first), &text); err != nil {
		r.Errorf("%s: %v", b, err)
		return ""
	}
	var values map[string]any
	chart, err := os.ReadFile(filepath.Join(env.Root(), "charts", "confrev", "values.yaml"))
	r.Must(err)
	r.Must(yaml.UnmarshalStrict(chart, &values))
	annotations, ofChart := true, true
	for key := range text {
		annotations = annotations && strings.HasPrefix(key, "confrev.io/")
		_, known := values[key]
		ofChart = ofChart && known
	}
	on := cmp.Or(r.file(".on"), "deployment/web")
	switch {
	case text["apiVersion"] != nil:
		return "kubectl apply -f $1"
	case annotations:
		return "kubectl patch " + on + ` --patch "$(printf 'metadata:\n  annotations:\n'; sed 's/^/    /' $1)"`
	case ofChart:
		return "helm upgrade confrev charts/confrev --namespace confrev-system --reset-then-reuse-values --values $1"
	}
	return "kubectl patch " + on + " --patch-file $1"
}
