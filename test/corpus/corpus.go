// Package corpus has manifests that others wrote: all those in some Go modules, and what the Helm charts in them render to.
// It is what tests of rendering are held to in addition to what we thought of.
package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/render"
	"confrev.io/confrev/internal/workload"
)

// modules are pinned, so that a failure is a change to ours. confrev's tools are built from many of them anyway.
var modules = []string{
	"github.com/argoproj/argo-cd/v3@v3.5.7",
	"k8s.io/kubernetes@v1.36.3",
	"github.com/argoproj/argo-rollouts@v1.10.1",
	"github.com/cert-manager/cert-manager@v1.21.2",
	"sigs.k8s.io/kwok@v0.8.0",
	"sigs.k8s.io/gateway-api@v1.6.0",
	"helm.sh/helm/v4@v4.3.1",
	"github.com/prometheus-operator/prometheus-operator@v0.85.0",
	"knative.dev/serving@v0.51.0",
	"sigs.k8s.io/metrics-server@v0.9.0",
	"github.com/kedacore/keda/v2@v2.21.0",
	"k8s.io/ingress-nginx@v0.0.0-20240708192948-52c50467d67d",
	"istio.io/istio@v0.0.0-20260827124520-eed52ebb66ad",
	"github.com/cilium/cilium@v1.20.2",
	"github.com/kyverno/kyverno@v1.19.1",
	"github.com/external-secrets/external-secrets@v1.3.2",
	"github.com/fluxcd/flux2/v2@v2.9.5",
	"sigs.k8s.io/cluster-api@v1.14.2",
	"sigs.k8s.io/descheduler@v0.36.0",
}

// Stream is what someone may apply together: the manifests of a directory, or a chart.
type Stream struct {
	Name  string
	Files []render.File
}

// Size returns how many bytes it has.
func (s Stream) Size() int {
	size := 0
	for _, file := range s.Files {
		size += len(file.Data)
	}
	return size
}

// Streams downloads the modules, unless they are there, and reads them. helm is the program.
func Streams(ctx context.Context, helm string) ([]Stream, error) {
	var streams []Stream
	for _, module := range modules {
		dir, err := download(ctx, module)
		if err != nil {
			return nil, err
		}
		found, err := walk(ctx, dir, module, helm)
		if err != nil {
			return nil, err
		}
		streams = append(streams, found...)
	}
	return streams, nil
}

func download(ctx context.Context, module string) (dir string, err error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	// Outside of our own module, whose requirements it would go by.
	cmd.Dir = os.TempDir()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var info struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &info); err != nil || jsonErr != nil {
		return "", fmt.Errorf("go mod download %s: %w: %s%s", module, err, info.Error, stderr.String())
	}
	return info.Dir, nil
}

func walk(ctx context.Context, dir, module, helm string) ([]Stream, error) {
	var streams []Stream
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		name := module + strings.TrimPrefix(path, dir)
		if _, err := os.Stat(filepath.Join(path, "Chart.yaml")); err == nil {
			// Those that Helm's own tests are made of are chart by chart something that Helm must refuse.
			if out, err := exec.CommandContext(ctx, helm, "template", "release", path).Output(); err == nil && len(out) > 0 {
				streams = append(streams, Stream{name, []render.File{{Name: name, Data: out}}})
			}
			return fs.SkipDir
		}
		files, err := manifests(path, name)
		if len(files) > 0 {
			streams = append(streams, Stream{name, files})
		}
		return err
	})
	return streams, err
}

// large is the size from which files are definitions of kinds, or descriptions of an API, unless they have a workload too.
// Those are most of the bytes, and all alike.
const large = 200_000

// manifests reads the files of one directory that may hold Kubernetes objects, and are not templates of such.
func manifests(dir, name string) ([]render.File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []render.File
	for _, entry := range entries {
		if entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		if len(data) > large && !bytes.Contains(data, []byte("kind: Deployment")) {
			continue
		}
		if bytes.Contains(data, []byte("apiVersion")) && !bytes.Contains(data, []byte("{{")) {
			// Much of it is for kube-system, which is left alone.
			data = bytes.ReplaceAll(data, []byte("namespace: kube-system"), []byte("namespace: prod"))
			files = append(files, render.File{Name: name + "/" + entry.Name(), Data: data})
		}
	}
	return files, nil
}

// Complete adds the sources that the workloads of a stream refer to and that it does not have: people make them otherwise.
func (s Stream) Complete() (Stream, error) {
	there := map[string]bool{}
	var wanted []source
	for _, file := range s.Files {
		objects, err := Objects(file.Data)
		if err != nil {
			return s, err
		}
		for _, object := range objects {
			u := &unstructured.Unstructured{Object: object}
			there[source{pin.Source{Kind: pin.Kind(strings.ToLower(u.GetKind())), Name: u.GetName()}, u.GetNamespace()}.String()] = true
			wanted = append(wanted, uses(u)...)
		}
	}
	var added bytes.Buffer
	for _, source := range wanted {
		if !there[source.String()] {
			there[source.String()] = true
			fmt.Fprintf(&added, "---\napiVersion: v1\nkind: %s\nmetadata: {name: %q, namespace: %q}\n%s\n", kindOf[source.Kind], source.Name, source.namespace, dataOf[source.Kind])
		}
	}
	s.Files = append(slices.Clone(s.Files), render.File{Name: s.Name + " (added)", Data: added.Bytes()})
	return s, nil
}

var (
	kindOf = map[pin.Kind]string{pin.ConfigMap: "ConfigMap", pin.Secret: "Secret"}
	dataOf = map[pin.Kind]string{pin.ConfigMap: "data: {color: blue}", pin.Secret: "stringData: {password: secret}"}
)

type source struct {
	pin.Source
	namespace string
}

func (s source) String() string { return s.namespace + "/" + s.Source.String() }

// uses returns the sources that a workload refers to.
func uses(object *unstructured.Unstructured) []source {
	var found []source
	for _, kind := range workload.Standard() {
		if kind.GVK.GroupKind() != object.GroupVersionKind().GroupKind() {
			continue
		}
		template, err := kind.Template(object)
		if err != nil {
			return nil
		}
		for _, use := range podspec.Uses(&template.Spec) {
			found = append(found, source{use.Source, object.GetNamespace()})
		}
	}
	return found
}

// Objects reads manifests as kubectl does.
func Objects(data []byte) ([]map[string]any, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	var objects []map[string]any
	for {
		var object map[string]any
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, err
		case len(object) > 0:
			objects = append(objects, flatten(object)...)
		}
	}
}

// flatten returns the items of a list.
func flatten(object map[string]any) []map[string]any {
	items, isList := object["items"].([]any)
	if kind, _ := object["kind"].(string); !isList || !strings.HasSuffix(kind, "List") {
		return []map[string]any{object}
	}
	var objects []map[string]any
	for _, item := range items {
		if fields, is := item.(map[string]any); is {
			objects = append(objects, flatten(fields)...)
		}
	}
	return objects
}
