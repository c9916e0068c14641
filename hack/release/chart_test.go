package main

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// charted returns a release of a source, with the real Helm, and its chart's archive.
func charted(t *testing.T, source string) (r release, chart string) {
	t.Helper()
	tool := exec.CommandContext(t.Context(), "go", "run", "-C", filepath.Join("..", "cluster"), ".", "path", "helm")
	tool.Stderr = os.Stderr
	helm, err := tool.Output()
	if err != nil {
		t.Fatal(err)
	}
	r = release{source: source, out: t.TempDir(), helm: strings.TrimSpace(string(helm)), revision: "0123abcd"}
	if err := r.complete(t.Context(), "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	if chart, _, err = r.chart(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r, chart
}

// Helm pulls, from a registry that has the layout, the archive itself.
func TestHelmPullsTheChart(t *testing.T) {
	r, chart := charted(t, filepath.Join("..", ".."))
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	tag, err := name.NewTag(host+"/charts/confrev:1.2.3", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	root, err := layout.ImageIndexFromPath(filepath.Join(r.out, "charts", "confrev"))
	if err != nil {
		t.Fatal(err)
	}
	index, err := root.IndexManifest()
	if err != nil || len(index.Manifests) != 1 {
		t.Fatal(index, err)
	}
	artifact, err := root.Image(index.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, artifact); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := r.helmed(t.Context(), "pull", "oci://"+host+"/charts/confrev", "--version", "1.2.3", "--plain-http", "--destination", dir); err != nil {
		t.Fatal(err)
	}
	if read(t, dir, "confrev-1.2.3.tgz") != read(t, filepath.Dir(chart), filepath.Base(chart)) {
		t.Error("Helm pulled another archive")
	}
	shown, err := r.helmed(t.Context(), "show", "chart", filepath.Join(dir, "confrev-1.2.3.tgz"))
	if err != nil || !bytes.Contains(shown, []byte("\nappVersion: v1.2.3\n")) || !bytes.Contains(shown, []byte("\nversion: 1.2.3\n")) {
		t.Errorf("%v\n%s", err, shown)
	}
}

func TestChartIsReproducible(t *testing.T) {
	r, here := charted(t, filepath.Join("..", ".."))
	_, there := charted(t, copied(t, filepath.Join("..", "..")))
	if read(t, filepath.Dir(here), filepath.Base(here)) != read(t, filepath.Dir(there), filepath.Base(there)) {
		t.Error("the chart of another folder is another archive")
	}
	for name, file := range unpack(t, filepath.Dir(here), filepath.Base(here)) {
		if !file.ModTime.Equal(r.created) {
			t.Errorf("%s is of %s", name, file.ModTime)
		}
	}
}

func TestManifests(t *testing.T) {
	r, chart := charted(t, filepath.Join("..", ".."))
	if err := r.manifests(t.Context(), chart); err != nil {
		t.Fatal(err)
	}
	// What resolves pins in pods is what differs.
	resolves := map[string]string{
		"install.yaml":         "MutatingAdmissionPolicy/confrev-resolve-pins",
		"install-webhook.yaml": "MutatingWebhookConfiguration/confrev-resolve-pins",
	}
	for file, own := range resolves {
		objects := decoded(t, read(t, r.out, file))
		if objects["Namespace/confrev-system"] == nil {
			t.Errorf("%s has no namespace", file)
		}
		for other, theirs := range resolves {
			if (objects[theirs] != nil) != (other == file) {
				t.Errorf("%s: %s is there: %t", file, theirs, objects[theirs] != nil)
			}
		}
		if objects[own] == nil {
			t.Errorf("%s has no %s", file, own)
		}
		for id, object := range objects {
			for label := range object.GetLabels() {
				if label == "helm.sh/chart" || label == "app.kubernetes.io/managed-by" {
					t.Errorf("%s: %s has Helm's label %s", file, id, label)
				}
			}
			if id != "Namespace/confrev-system" && object.GetNamespace() != "confrev-system" && object.GetNamespace() != "" && object.GetNamespace() != "kube-system" {
				t.Errorf("%s: %s is in namespace %s", file, id, object.GetNamespace())
			}
		}
		containers, _, err := unstructured.NestedSlice(objects["Deployment/confrev"].Object, "spec", "template", "spec", "containers")
		if err != nil || len(containers) != 1 {
			t.Fatal(containers, err)
		}
		if image := containers[0].(map[string]any)["image"]; image != "ghcr.io/confrev/confrev:v1.2.3" {
			t.Errorf("%s runs %v", file, image)
		}
	}
}

// decoded returns the objects of a manifest by kind and name.
func decoded(t *testing.T, text string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects := map[string]*unstructured.Unstructured{}
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		id := object.GetKind() + "/" + object.GetName()
		if object.GetKind() == "Role" || object.GetKind() == "RoleBinding" {
			id += "/" + object.GetNamespace()
		}
		if objects[id] != nil {
			t.Errorf("two %s", id)
		}
		objects[id] = &object
	}
}

func TestHelmIsNeeded(t *testing.T) {
	r := release{source: filepath.Join("..", ".."), out: t.TempDir(), helm: filepath.Join(t.TempDir(), "helm")}
	if err := r.complete(t.Context(), "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.chart(t.Context()); err == nil || !strings.Contains(err.Error(), "--helm") {
		t.Error(err)
	}
}
