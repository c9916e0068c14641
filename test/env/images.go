package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"sigs.k8s.io/yaml"
)

// Images are the images of this tree as a release has them, of the version that the chart asks for, on their way into being.
type Images struct {
	Version string

	dir  string
	made chan error
}

// MakeImages begins to make the images, which takes as long as a cluster to start.
func MakeImages(ctx context.Context) (*Images, error) {
	text, err := os.ReadFile(filepath.Join(Root(), "charts", "confrev", "Chart.yaml"))
	if err != nil {
		return nil, err
	}
	var chart struct {
		AppVersion string `json:"appVersion"`
	}
	if err := yaml.Unmarshal(text, &chart); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "confrev-images-")
	if err != nil {
		return nil, err
	}
	i := &Images{Version: chart.AppVersion, dir: dir, made: make(chan error, 1)}
	cmd := exec.CommandContext(ctx, "go", "run", "-C", "hack/release", ".", "--source", Root(), "--out", dir,
		"images", "--platforms", "linux/"+runtime.GOARCH, i.Version)
	cmd.Dir = Root()
	go func() {
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("make images: %w\n%s", err, out)
		}
		i.made <- err
	}()
	return i, nil
}

// Import waits until the images are made, and imports them into the real node, which then has no need to pull them.
func (i *Images) Import(ctx context.Context, c *Cluster) error {
	err := <-i.made
	if err == nil {
		err = c.Node(ctx, "import", filepath.Join(i.dir, "images", "confrev"), filepath.Join(i.dir, "images", "kubectl-confrev"))
	}
	return errors.Join(err, os.RemoveAll(i.dir))
}
