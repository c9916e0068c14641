//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"confrev.io/confrev/test/env"
)

// What a release has for this platform is the plugin of that release once it is installed by the words of krew's manifest, and
// kubectl completes it with the program next to it. (krew itself is not run.)
func TestReleaseInstalled(t *testing.T) {
	t.Parallel()
	dir, store, bin := t.TempDir(), t.TempDir(), t.TempDir()
	do := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = env.Root()
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		var complaints strings.Builder
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, complaints.String())
		}
		return string(out)
	}
	do("go", "run", "-C", "hack/release", ".", "plugin", "--platforms", runtime.GOOS+"/"+runtime.GOARCH, "--out", dir, "v1.2.3")

	var manifest struct {
		Spec struct {
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "confrev.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &manifest)
	}
	if err != nil || len(manifest.Spec.Platforms) != 1 {
		t.Fatalf("%v\n%s", err, text)
	}
	platform := manifest.Spec.Platforms[0]
	archive := filepath.Join(dir, filepath.Base(platform.URI))
	if sum := do("sha256sum", archive); !strings.HasPrefix(sum, platform.SHA256+" ") {
		t.Errorf("checksum %s, the manifest says %s", sum, platform.SHA256)
	}
	do("tar", "-xzf", archive, "-C", store)
	if err := os.Symlink(filepath.Join(store, platform.Bin), filepath.Join(bin, "kubectl-confrev")); err != nil {
		t.Fatal(err)
	}

	kubectl, err := cluster.Tool(t.Context(), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	if got := do(kubectl, "confrev", "version"); got != "v1.2.3\n" {
		t.Errorf("kubectl confrev version: %q", got)
	}
	if err := os.Symlink(filepath.Join(store, "kubectl_complete-confrev"), filepath.Join(bin, "kubectl_complete-confrev")); err != nil {
		t.Fatal(err)
	}
	if got := do(kubectl, "__complete", "confrev", "stat"); !strings.HasPrefix(got, "status\t") {
		t.Errorf("kubectl completes %q", got)
	}
}
