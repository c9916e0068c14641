package env

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"sigs.k8s.io/yaml"
)

// ImportImages makes the images of this tree as a release has them, of the version that the chart asks for, and imports them into the
// real node, which then has no need to pull them. It returns the version.
func (c *Cluster) ImportImages(ctx context.Context) (version string, err error) {
	text, err := os.ReadFile(filepath.Join(Root(), "charts", "confrev", "Chart.yaml"))
	if err != nil {
		return "", err
	}
	var chart struct {
		AppVersion string `json:"appVersion"`
	}
	if err := yaml.Unmarshal(text, &chart); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "run", "-C", "hack/release", ".", "--source", Root(), "--out", c.Dir,
		"images", "--platforms", "linux/"+runtime.GOARCH, chart.AppVersion)
	cmd.Dir = Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make images: %w\n%s", err, out)
	}
	images := filepath.Join(c.Dir, "images")
	return chart.AppVersion, c.Node(ctx, "import", filepath.Join(images, "confrev"), filepath.Join(images, "kubectl-confrev"))
}
