// Command release builds what a release of confrev consists of: container images, and kubectl-confrev for each platform with krew's
// manifest. The same commit and the same Go version always result in the same bytes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

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

// release is what to build, where to put it, and how programs are built.
type release struct {
	// source is the root of confrev's source, out the folder to write to.
	source, out string
	version     string
	// url is where the archives of the plugin will be available.
	url string
	// platforms are those that the plugin is built for.
	platforms []string
	// imagePlatforms are those that images are made for.
	imagePlatforms []string
	// registry is where the images will be available, without their names.
	registry string
	// helm is the program.
	helm string
	// revision is the commit that is built; empty if it isn't known, or if files differ from it.
	revision string
	// created is the time that all files and images claim, so that they are the same whenever they are built.
	created time.Time
	build   func(ctx context.Context, p program) error
	// contains returns the modules that a program contains.
	contains func(ctx context.Context, file string) ([]dependency, error)
	// manuals writes the manual pages to a folder.
	manuals func(ctx context.Context, dir string) error
}

func command() *cobra.Command {
	var r release
	root := &cobra.Command{
		Use:          "release",
		Short:        "Build the parts of a release",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
	}
	flags := root.PersistentFlags()
	flags.StringVar(&r.source, "source", filepath.Join("..", ".."), "root of the source")
	flags.StringVar(&r.out, "out", "", "folder to write to (default: dist in the source)")
	flags.StringVar(&r.helm, "helm", "helm", "Helm's program")
	flags.StringVar(&r.revision, "revision", "", "commit that is built (default: the one that is checked out, if nothing was changed)")

	plugin := r.part("plugin", "Archives of kubectl-confrev, with their bills of materials, krew's manifest and Homebrew's formula",
		func(cmd *cobra.Command) error { return r.plugin(cmd.Context()) })
	plugin.Flags().StringVar(&r.url, "url", "", "URL at which the archives will be available (default https://confrev.io/releases/VERSION)")
	plugin.Flags().StringSliceVar(&r.platforms, "platforms", platforms, "platforms to build for")
	images := r.part("images", "Container images of the controller and of the plugin, each as an OCI layout",
		func(cmd *cobra.Command) error {
			made, err := r.images(cmd.Context())
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), made)
		})
	images.Flags().StringVar(&r.registry, "registry", "ghcr.io/confrev", "registry, and the path in it, at which the images will be available")
	images.Flags().StringSliceVar(&r.imagePlatforms, "platforms", imagePlatforms, "platforms to make images for")
	install := r.part("install", "The chart, as an archive and as an OCI layout, and manifests for kubectl",
		func(cmd *cobra.Command) error {
			chart, _, err := r.chart(cmd.Context())
			if err != nil {
				return err
			}
			return r.manifests(cmd.Context(), chart)
		})
	bases := &cobra.Command{
		Use:   "bases FOLDER",
		Short: "The kustomize bases that are part of the source",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return r.bases(cmd.Context(), args[0]) },
	}
	sums := r.part("sums", "The checksums of all files of a release, once they are made, and its notes",
		func(*cobra.Command) error { return errors.Join(r.notes(), r.sums()) })
	root.AddCommand(plugin, images, install, sums, bases)
	return root
}

// part returns the command that builds a part of a release of some version.
func (r *release) part(name, short string, run func(*cobra.Command) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " VERSION",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.complete(cmd.Context(), args[0]); err != nil {
				return err
			}
			return run(cmd)
		},
	}
}

// complete checks the version, and finds out what flags do not say.
func (r *release) complete(ctx context.Context, release string) error {
	if _, err := version.ParseSemantic(release); err != nil || !strings.HasPrefix(release, "v") {
		return fmt.Errorf("%q is not a version such as v1.2.3", release)
	}
	r.version = release
	if r.url == "" {
		r.url = "https://confrev.io/releases/" + release
	}
	if r.out == "" {
		r.out = filepath.Join(r.source, "dist")
	}
	if r.build == nil {
		r.build, r.contains, r.manuals = r.compile, r.dependencies, r.pages
	}
	if r.revision == "" {
		r.revision = revision(ctx, r.source)
	}
	var err error
	r.created, err = created(os.Getenv("SOURCE_DATE_EPOCH"))
	return err
}

// created returns the time that files of a release claim: the one that reproducible builds agree on (SOURCE_DATE_EPOCH, in seconds since
// 1970), or else a fixed one.
func created(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// revision returns the commit of a source, or "" if it isn't in a Git repository, or if there are changes that aren't committed.
func revision(ctx context.Context, source string) string {
	git := func(args ...string) (string, bool) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = source
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err == nil
	}
	commit, ok := git("rev-parse", "HEAD")
	changes, clean := git("status", "--porcelain", "--untracked-files=no")
	if !ok || !clean || changes != "" {
		return ""
	}
	return commit
}

// program is a program to build, for one platform.
type program struct {
	os, arch string
	// name is that of its package in ./cmd, file where to write it.
	name, file string
}

// compile builds a program reproducibly: nothing in it depends on the machine or on the state of the Git repository.
func (r release) compile(ctx context.Context, p program) error {
	file, err := filepath.Abs(p.file)
	if err != nil {
		return err
	}
	env := []string{"CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS=" + p.os, "GOARCH=" + p.arch}
	return r.golang(ctx, env, "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X confrev.io/confrev/internal/version.release="+r.version, "-o", file, "./cmd/"+p.name)
}

// pages writes the manual pages of the plugin's commands.
func (r release) pages(ctx context.Context, dir string) error {
	return r.golang(ctx, nil, "run", "./hack/docs", "man", dir)
}

// golang runs the go command at the root of the source.
func (r release) golang(ctx context.Context, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
