package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"
)

// Media types of a chart in a registry, as Helm defines them.
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// chart writes the chart as an archive and as an OCI layout, and returns the path of the archive and the digest of its manifest.
func (r release) chart(ctx context.Context) (file string, digest v1.Hash, err error) {
	scratch, err := os.MkdirTemp("", "confrev-chart-")
	if err != nil {
		return "", digest, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	plain := strings.TrimPrefix(r.version, "v")
	if _, err := r.helmed(ctx, "package", filepath.Join(r.source, "charts", "confrev"),
		"--version", plain, "--app-version", r.version, "--destination", scratch); err != nil {
		return "", digest, err
	}
	name := "confrev-" + plain + ".tgz"
	content, metadata, err := r.repack(filepath.Join(scratch, name))
	if err != nil {
		return "", digest, fmt.Errorf("%s: %w", name, err)
	}
	file = filepath.Join(r.out, name)
	if err := errors.Join(os.MkdirAll(r.out, 0o755), os.WriteFile(file, content, 0o644)); err != nil {
		return "", digest, err
	}
	artifact, err := r.artifact(content, metadata)
	if err != nil {
		return "", digest, err
	}
	if digest, err = artifact.Digest(); err != nil {
		return "", digest, err
	}
	dir := filepath.Join(r.out, "charts", "confrev")
	if err := os.RemoveAll(dir); err != nil {
		return "", digest, err
	}
	root, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", digest, err
	}
	return file, digest, root.AppendImage(artifact, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": plain}))
}

// repack returns the content of a chart's archive with the times of the release instead of those of the files, and the chart's
// metadata.
func (r release) repack(file string) (content []byte, metadata map[string]any, err error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	unzip, err := gzip.NewReader(in)
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	from, to := tar.NewReader(unzip), tar.NewWriter(zip)
	for {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		text, err := io.ReadAll(from)
		if err != nil {
			return nil, nil, err
		}
		if header.Name == path.Join("confrev", "Chart.yaml") {
			if err := yaml.Unmarshal(text, &metadata); err != nil {
				return nil, nil, err
			}
		}
		if err := add(to, entry{header.Name, 0o644, text}, r.created); err != nil {
			return nil, nil, err
		}
	}
	if metadata == nil {
		return nil, nil, errors.New("there is no Chart.yaml")
	}
	err = errors.Join(to.Close(), zip.Close())
	return out.Bytes(), metadata, err
}

// artifact is a chart as a registry has it: its metadata in place of an image's configuration, and its archive as the only layer.
type artifact struct {
	metadata, manifest []byte
	archive            v1.Layer
}

func (r release) artifact(content []byte, chart map[string]any) (v1.Image, error) {
	metadata, err := json.Marshal(chart)
	if err != nil {
		return nil, err
	}
	a := artifact{metadata: metadata, archive: static.NewLayer(content, chartContent)}
	config, size, err := v1.SHA256(bytes.NewReader(metadata))
	if err != nil {
		return nil, err
	}
	layer, err := partial.Descriptor(a.archive)
	if err != nil {
		return nil, err
	}
	notes := map[string]string{
		"org.opencontainers.image.title":   fmt.Sprint(chart["name"]),
		"org.opencontainers.image.version": fmt.Sprint(chart["version"]),
		"org.opencontainers.image.created": r.created.UTC().Format(time.RFC3339),
	}
	if r.revision != "" {
		notes["org.opencontainers.image.revision"] = r.revision
	}
	a.manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		Config:        v1.Descriptor{MediaType: chartConfig, Digest: config, Size: size},
		Layers:        []v1.Descriptor{*layer},
		Annotations:   notes,
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(a)
}

func (a artifact) RawConfigFile() ([]byte, error)      { return a.metadata, nil }
func (a artifact) RawManifest() ([]byte, error)        { return a.manifest, nil }
func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (a artifact) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	if known, err := a.archive.Digest(); err != nil || known != digest {
		return nil, fmt.Errorf("a chart has no layer %s", digest)
	}
	return a.archive, nil
}

// helmed runs Helm and returns what it printed.
func (r release) helmed(ctx context.Context, args ...string) ([]byte, error) {
	if _, err := exec.LookPath(r.helm); err != nil {
		return nil, fmt.Errorf("cannot run Helm (--helm says where it is): %w", err)
	}
	cmd := exec.CommandContext(ctx, r.helm, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("helm %s: %w: %s", args[0], err, bytes.TrimSpace(complaints.Bytes()))
	}
	return out, nil
}
