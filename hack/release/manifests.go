package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// form is one of the two forms of the manifests: they differ in what resolves pins when pods are created.
type form struct {
	// file is the name of the manifest, folder that of the kustomize base.
	file, folder string
	// kubernetes is the oldest version that it is for, admission the chart's value podAdmission.
	kubernetes, admission string
	about                 string
}

var forms = []form{
	{"install.yaml", "policies", "1.36", "policy", "the API server resolves pins. For Kubernetes 1.36 and later."},
	{"install-webhook.yaml", "webhook", "1.30", "webhook", "confrev's webhook resolves pins. For Kubernetes 1.30 to 1.35."},
}

// namespace is where the manifests install confrev.
const namespace = "confrev-system"

// manifests writes the chart, rendered with its defaults, as a file for each form.
func (r release) manifests(ctx context.Context, chart string) error {
	for _, f := range forms {
		text, err := r.render(ctx, chart, f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.file, err)
		}
		head := fmt.Sprintf("# confrev %s: %s\n#\n#   kubectl apply --server-side -f %s\n#\n# Made from the chart's default values.\n", r.version, f.about, f.file)
		if err := os.WriteFile(filepath.Join(r.out, f.file), append([]byte(head), text...), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// bases writes a kustomize base for each form, of the chart as it is in the source, to a folder.
func (r release) bases(ctx context.Context, to string) error {
	for _, f := range forms {
		objects, err := r.render(ctx, filepath.Join(r.source, "charts", "confrev"), f)
		if err != nil {
			return fmt.Errorf("%s: %w", f.folder, err)
		}
		dir := filepath.Join(to, f.folder)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		base := "# confrev, where " + f.about + "\n# Written by `make generate` from the chart's default values.\n" +
			"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- confrev.yaml\n"
		err = errors.Join(
			os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(base), 0o644),
			os.WriteFile(filepath.Join(dir, "confrev.yaml"), objects, 0o644))
		if err != nil {
			return err
		}
	}
	return nil
}

// helms are the labels by which Helm knows what it installed. What kubectl installs has none of them.
var helms = regexp.MustCompile(`(?m)^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n`)

// render returns the chart's objects in a form, with the namespace that they are in.
func (r release) render(ctx context.Context, chart string, f form) ([]byte, error) {
	// kubectl would install hooks like all else.
	objects, err := r.helmed(ctx, "template", "confrev", chart, "--namespace", namespace, "--no-hooks",
		"--kube-version", f.kubernetes, "--set", "podAdmission="+f.admission)
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(objects, []byte("kind: Deployment\n")) {
		return nil, errors.New("the chart rendered no Deployment")
	}
	head := "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: " + namespace + "\n"
	return append([]byte(head), helms.ReplaceAll(objects, nil)...), nil
}
