package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/render"
	"confrev.io/confrev/internal/workload"
)

const renderLong = `Name configuration in manifests by its content, before they are applied.

Each ConfigMap and Secret that a workload of the same stream refers to gets an immutable copy behind it, named by its
content as the controller names revisions, and the workload refers to the copy. So a change to configuration is an
ordinary rollout, and old pods keep the old content, without anything in the cluster. If the controller is installed, it
deletes each copy with the last ReplicaSet that uses it.

It needs no cluster. It reads standard input if it is given no files. The same command is a post-renderer of Helm and a
function of kustomize and kpt: docs/guide/render.md.`

const renderExample = `  # Apply a directory of manifests
  kubectl confrev render -f deploy/ | kubectl apply -f -

  # What kustomize or Helm make, as a filter
  kubectl kustomize overlays/prod | kubectl confrev render --namespace prod | kubectl apply --namespace prod -f -
  helm template web charts/web | kubectl confrev render --keep-for helm

  # Only roll workloads when their configuration changes, as the annotation checksum/config of Helm charts does
  kubectl confrev render --mode checksum -f deploy/

  # Fields of custom resources that name ConfigMaps, in the form that kustomize has for it
  kubectl confrev render -f deploy/ --references name-references.yaml`

// renderOptions are the flags, and what they say to do.
type renderOptions struct {
	*session.Session
	filenames          []string
	recursive          bool
	mode               string
	keepFor            []string
	config, references string
	options            render.Options
}

// NewRender returns the command that renders manifests.
func NewRender(p *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "render [-f FILENAME]...",
		Short:                 "Name configuration in manifests by its content",
		Long:                  renderLong,
		Example:               session.Examples(renderExample),
		Args:                  cobra.NoArgs,
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableFlagsInUseLine: true,
	}
	r, flags := &renderOptions{Session: p}, cmd.Flags()
	flags.StringSliceVarP(&r.filenames, "filename", "f", nil, "File or directory that contains the manifests. \"-\" is standard input.")
	flags.BoolVarP(&r.recursive, "recursive", "R", false, "If true, process subdirectories, too.")
	flags.StringVar(&r.mode, "mode", string(render.Revision), "One of: (revision, checksum). With checksum, a hash is added to templates and nothing is copied.")
	flags.StringVarP(&r.options.Namespace, "namespace", "n", "", "Namespace of objects that name none.")
	flags.StringSliceVar(&r.keepFor, "keep-for", nil,
		"Tools that must not delete a copy when a later rendering no longer has it, since old ReplicaSets need it. Any of: (helm, argocd, flux).")
	flags.StringVar(&r.config, "config", "", "File (YAML) that describes further kinds of workloads, as for the controller.")
	flags.StringVar(&r.references, "references", "", "File (YAML) with the fields of other objects that name ConfigMaps and Secrets: kustomize's nameReference.")
	return session.Command(cmd, r)
}

// Fill reads the flags, and the files that they name, except manifests.
func (r *renderOptions) Fill(*cobra.Command, []string) (err error) {
	if r.options.Mode, err = render.ParseMode(r.mode); err != nil {
		return fmt.Errorf("--mode: %w", err)
	}
	if r.options.Keep, err = render.ParseTools(r.keepFor); err != nil {
		return fmt.Errorf("--keep-for: %w", err)
	}
	if r.options.Kinds, err = parseFile(r.config, workload.ParseConfig); err != nil {
		return fmt.Errorf("--config=%s: %w", r.config, err)
	}
	if r.options.References, err = parseFile(r.references, render.ParseReferences); err != nil {
		return fmt.Errorf("--references=%s: %w", r.references, err)
	}
	return nil
}

func (r *renderOptions) Run(ctx context.Context) error {
	var files []render.File
	err := session.Interruptible(ctx, func() (err error) {
		files, err = r.read()
		return err
	})
	if err != nil {
		return err
	}
	out, err := render.Render(files, r.options)
	for _, warning := range out.Warnings {
		_, _ = fmt.Fprintln(r.ErrOut, "Warning:", warning)
	}
	_, writing := printer.Raw(r.Out).Write(out.Text)
	return cmp.Or(err, writing)
}

// parseFile reads and parses a file, if there is one.
func parseFile[T any](path string, parse func([]byte) (T, error)) (parsed T, err error) {
	if path == "" {
		return parsed, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return parsed, err
	}
	return parse(data)
}

func (r *renderOptions) read() ([]render.File, error) {
	filenames := r.filenames
	if len(filenames) == 0 {
		if file, ok := r.In.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
			return nil, errors.New("nothing to read: give --filename, or pipe manifests in")
		}
		filenames = []string{"-"}
	}
	var files []render.File
	for _, name := range filenames {
		if name == "-" {
			data, err := io.ReadAll(r.In)
			if err != nil {
				return nil, fmt.Errorf("read standard input: %w", err)
			}
			files = append(files, render.File{Name: "standard input", Data: data})
			continue
		}
		paths, err := r.manifests(name)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			files = append(files, render.File{Name: path, Data: data})
		}
	}
	return files, nil
}

// manifests returns the file of a name, or those in the directory of that name, as kubectl chooses them.
func (r *renderOptions) manifests(name string) ([]string, error) {
	var paths []string
	start := name
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		// Else a link to a directory would be read as a file.
		start += string(filepath.Separator)
	}
	err := filepath.WalkDir(start, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != start && !r.recursive:
			return fs.SkipDir
		case !entry.IsDir() && (path == start || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))):
			paths = append(paths, path)
		}
		return nil
	})
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s: no file in it ends in .yaml, .yml or .json", name)
	}
	return paths, err
}
