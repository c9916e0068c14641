// Command release builds a release of kubectl-confrev: an archive for each platform, their checksums, and krew's manifest. The
// same source and the same Go version always result in the same bytes. Run it at the root of the source.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/template"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"
)

func main() {
	if err := run(); err != nil {
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return command().ExecuteContext(ctx)
}

var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// release is what to build, where to put it, and how programs are built.
type release struct {
	version   string
	url       string
	platforms []string
	out       string
	build     func(ctx context.Context, version string, a archive, program string) error
	// manuals writes the manual pages to a folder.
	manuals func(ctx context.Context, dir string) error
}

func command() *cobra.Command {
	r := release{build: build, manuals: manuals}
	cmd := &cobra.Command{
		Use:          "release VERSION",
		Short:        "Build the archives, checksums and krew manifest of a release",
		Args:         cobra.ExactArgs(1),
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.version = args[0]
			return r.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&r.url, "url", "", "URL at which the archives will be available (default https://confrev.io/releases/VERSION)")
	cmd.Flags().StringSliceVar(&r.platforms, "platforms", platforms, "platforms to build for")
	cmd.Flags().StringVar(&r.out, "out", "dist", "folder to write to")
	return cmd
}

// archive is the archive of one platform, and what krew's manifest says about it.
type archive struct {
	OS, Arch string
	// Program is the name of the plugin's file in the archive.
	Program     string
	Name        string
	URI, SHA256 string
}

func (r release) archive(platform string) archive {
	goos, goarch, _ := strings.Cut(platform, "/")
	a := archive{OS: goos, Arch: goarch, Program: "kubectl-confrev"}
	if goos == "windows" {
		a.Program += ".exe"
	}
	a.Name = fmt.Sprintf("kubectl-confrev_%s_%s_%s.tar.gz", r.version, goos, goarch)
	a.URI = strings.TrimSuffix(r.url, "/") + "/" + a.Name
	return a
}

func (r release) run(ctx context.Context) error {
	if _, err := version.ParseSemantic(r.version); err != nil || !strings.HasPrefix(r.version, "v") {
		return fmt.Errorf("%q is not a version such as v1.2.3", r.version)
	}
	for _, platform := range r.platforms {
		if !slices.Contains(platforms, platform) {
			return fmt.Errorf("%q is not a platform of releases: choose from %s", platform, strings.Join(platforms, ", "))
		}
	}
	if r.url == "" {
		r.url = "https://confrev.io/releases/" + r.version
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "confrev-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	pages := filepath.Join(scratch, "man")
	if err := r.manuals(ctx, pages); err != nil {
		return fmt.Errorf("manual pages: %w", err)
	}
	var archives []archive
	var sums strings.Builder
	for _, platform := range r.platforms {
		a, err := r.pack(ctx, scratch, pages, r.archive(platform))
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		archives = append(archives, a)
		fmt.Fprintf(&sums, "%s  %s\n", a.SHA256, a.Name)
	}
	if err := os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(sums.String()), 0o644); err != nil {
		return err
	}
	return r.manifest(archives)
}

// pack builds the program in a scratch folder and makes its archive, with the manual pages.
func (r release) pack(ctx context.Context, scratch, pages string, a archive) (archive, error) {
	dir, err := os.MkdirTemp(scratch, "")
	if err != nil {
		return a, err
	}
	program := filepath.Join(dir, a.Program)
	if err := r.build(ctx, r.version, a, program); err != nil {
		return a, err
	}
	files := []file{{program, a.Program, 0o755}, {"LICENSE", "LICENSE", 0o644}}
	if a.OS != "windows" {
		files = append(files, file{"deploy/kubectl_complete-confrev", "kubectl_complete-confrev", 0o755})
		manuals, err := filepath.Glob(filepath.Join(pages, "*.1"))
		if err != nil {
			return a, err
		}
		for _, manual := range manuals {
			files = append(files, file{manual, path.Join("man/man1", filepath.Base(manual)), 0o644})
		}
	}
	a.SHA256, err = pack(filepath.Join(r.out, a.Name), files)
	return a, err
}

// manifest writes krew's manifest.
func (r release) manifest(archives []archive) error {
	text, err := template.ParseFiles("deploy/krew/confrev.yaml")
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(r.out, "confrev.yaml"))
	if err != nil {
		return err
	}
	data := struct {
		Version  string
		Archives []archive
	}{r.version, archives}
	if err := text.Execute(out, data); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

// build builds the plugin reproducibly: nothing in it depends on the machine or on the state of the Git repository.
func build(ctx context.Context, version string, a archive, program string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X confrev.io/confrev/internal/version.release="+version, "-o", program, "./cmd/kubectl-confrev")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+a.OS, "GOARCH="+a.Arch)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// manuals writes the manual pages of the plugin's commands.
func manuals(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "go", "run", "./hack/docs", "man", dir)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
