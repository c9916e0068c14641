//go:build e2e

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// engine runs a verb of a GitOps tool's engine (hack/modules) on manifests, and reports whether it found drift. The name is
// one that no one else uses: tracking by label, Argo CD takes the objects of a Helm release of its name for its own.
func (w *world) engine(manifests, tool, verb string, args ...string) (lines string, drifted bool) {
	w.Helper()
	lines, err := cluster.Run(w.Ctx, manifests, tool, append([]string{verb, "--namespace", w.NS, "--name", w.NS}, args...)...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return lines, true
	}
	w.Must(err)
	return lines, false
}

// drift returns what an engine reports of manifests, if it finds drift.
func (w *world) drift(manifests, tool, verb string, args ...string) string {
	w.Helper()
	lines, drifted := w.engine(manifests, tool, verb, args...)
	if !drifted {
		return ""
	}
	return lines
}

// wantDrift wants an engine to find drift in an object, or in none, and in no other. It lets the Deployment's controller
// finish before: what that writes while an engine compares is drift to it.
func (w *world) wantDrift(object, manifests, tool, verb string, args ...string) {
	w.Helper()
	w.Eventually("web rolls out", func() string { return w.NotRolledOut("web") })
	lines, drifted := w.engine(manifests, tool, verb, args...)
	var got []string
	for line := range strings.Lines(lines) {
		if strings.Contains(line, `"patch":`) {
			got = append(got, line)
		}
	}
	if drifted != (object != "") || len(got) > 1 || !strings.Contains(strings.Join(got, ""), object) {
		w.Fatalf("%s %s %v: drifted %t, want it in %q:\n%s", tool, verb, args, drifted, object, lines)
	}
}

// plain has nothing in it that concerns confrev.
var plain = strings.ReplaceAll(manifest, "  annotations: {confrev.io/track: all}\n", "")

// seesDriftAndEndsIt shows that an engine works: it has nothing to say of what it applied, finds a change to the live
// object, and takes it back.
func seesDriftAndEndsIt(t *testing.T, tool, diff, apply string, args ...string) {
	t.Helper()
	w := newWorld(t)
	if _, missing := w.engine(plain, tool, diff, args...); !missing {
		t.Fatalf("%s does not miss what is not there", tool)
	}
	w.engine(plain, tool, apply, args...)
	w.wantDrift("", plain, tool, diff, args...)
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	w.wantDrift("Deployment/"+w.NS+"/web", plain, tool, diff, args...)
	w.engine(plain, tool, apply, args...)
	w.wantDrift("", plain, tool, diff, args...)
	if image := w.Deployment("web").Spec.Template.Spec.Containers[0].Image; image != "app:1" {
		t.Errorf("image is %s after %s %s", image, tool, apply)
	}
}

func TestFluxSeesDriftAndEndsIt(t *testing.T) {
	t.Parallel()
	seesDriftAndEndsIt(t, "flux-ssa", "diff", "apply")
}

func TestArgoCDSeesDriftAndEndsIt(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"client-side apply":                      nil,
		"server-side apply":                      {"--server-side"},
		"client-side apply and server-side diff": {"--server-side-diff"},
		"server-side apply and diff":             {"--server-side", "--server-side-diff"},
		"tracking by label":                      {"--tracking", "label"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seesDriftAndEndsIt(t, "gitops-engine", "diff", "sync", args...)
		})
	}
}

// Flux's helm-controller compares what Helm has installed.
func TestFluxSeesDriftOfAHelmRelease(t *testing.T) {
	t.Parallel()
	for _, helm := range []string{"helm", "helm3"} {
		t.Run(helm, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			chart := w.chart(plain)
			run := func(args ...string) string {
				out, err := cluster.Run(w.Ctx, "", helm, append([]string{"--namespace", w.NS}, args...)...)
				w.Must(err)
				return out
			}
			run("install", "web", chart)
			installed := run("get", "manifest", "web")
			w.wantDrift("", installed, "flux-ssa", "helm-diff", "--name", "web")
			w.Kubectl("set", "image", "deployment/web", "app=app:2")
			w.wantDrift("Deployment/"+w.NS+"/web", installed, "flux-ssa", "helm-diff", "--name", "web")
		})
	}
}

// chart makes a Helm chart of manifests.
func (w *world) chart(manifests string) (dir string) {
	w.Helper()
	dir = w.TempDir()
	w.Must(os.Mkdir(filepath.Join(dir, "templates"), 0o700))
	w.writeFile(dir, "Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n")
	w.writeFile(dir, "templates/web.yaml", manifests)
	return dir
}
