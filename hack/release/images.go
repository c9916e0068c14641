package main

import (
	"archive/tar"
	"bytes"
	"context"
	_ "embed" // for users
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonroot is the user that images run as, by its number, so that a kubelet can see that it is not root.
const nonroot = "65532:65532"

// image is a container image of one static program, with certificate authorities and the names of two users, and nothing else.
type image struct {
	// name is that of the repository below the registry, and of the folder of its layout.
	name string
	// program is the package of ./cmd that it runs.
	program     string
	title       string
	description string
	// args is what the program is given if the container has no arguments of its own.
	args []string
}

// users is /etc/passwd: root, who owns the files, the user that images run as, and the one whose name kustomize and kpt run functions
// with.
//
//go:embed passwd
var users []byte

var images = []image{
	{
		name: "confrev", program: "confrev", title: "confrev",
		description: "Configuration changes that roll out, and roll back, exactly like an image change",
	},
	{
		// A Job says what to do; kustomize and kpt run a function without arguments.
		name: "kubectl-confrev", program: "kubectl-confrev", title: "kubectl confrev", args: []string{"render"},
		description: "The plugin of confrev, for Jobs, and as a function of kustomize and kpt",
	},
}

// imagePlatforms are the platforms that a release has images for.
var imagePlatforms = []string{"linux/amd64", "linux/arm64"}

// made is an image that was written: its digest is that of the index of all platforms.
type made struct {
	Name   string
	Digest v1.Hash
	// Platforms has the compressed size of what a node of a platform downloads, in bytes, and its manifest's digest.
	Platforms []madePlatform
}

type madePlatform struct {
	Platform string
	Digest   v1.Hash
	Size     int64
}

// images writes an OCI layout for each image to a folder of its name.
func (r release) images(ctx context.Context) ([]made, error) {
	roots, err := authorities()
	if err != nil {
		return nil, err
	}
	base, err := r.layer(
		entry{"etc/passwd", 0o644, users},
		entry{"etc/ssl/certs/ca-certificates.crt", 0o644, roots},
	)
	if err != nil {
		return nil, err
	}
	var all []made
	for _, image := range images {
		m, err := r.image(ctx, image, base)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", image.name, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// image builds an image for all platforms, and writes its layout.
func (r release) image(ctx context.Context, i image, base v1.Layer) (made, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	m := made{Name: i.name}
	for _, platform := range r.imagePlatforms {
		goos, arch, _ := strings.Cut(platform, "/")
		built, err := r.imageFor(ctx, i, base, goos, arch)
		if err != nil {
			return m, fmt.Errorf("%s: %w", platform, err)
		}
		p, err := describe(platform, built)
		if err != nil {
			return m, err
		}
		m.Platforms = append(m.Platforms, p)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        built,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: goos, Architecture: arch}},
		})
	}
	index = mutate.Annotations(index, r.labels(i)).(v1.ImageIndex)
	var err error
	if m.Digest, err = index.Digest(); err != nil {
		return m, err
	}
	return m, r.write(i, index)
}

// write writes the layout of an image, in place of one that is there.
func (r release) write(i image, index v1.ImageIndex) error {
	dir := filepath.Join(r.out, "images", i.name)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	root, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return root.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version,
		// By this name containerd knows it after an import.
		"io.containerd.image.name": r.registry + "/" + i.name + ":" + r.version,
	}))
}

// imageFor builds an image for one platform.
func (r release) imageFor(ctx context.Context, i image, base v1.Layer, goos, arch string) (v1.Image, error) {
	scratch, err := os.MkdirTemp("", "confrev-image-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	file := filepath.Join(scratch, i.program)
	if err := r.build(ctx, program{os: goos, arch: arch, name: i.program, file: file}); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	others, err := r.inform(ctx, fmt.Sprintf("%s-image_%s_%s_%s", i.name, r.version, goos, arch), file)
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile(filepath.Join(r.source, "LICENSE"))
	if err != nil {
		return nil, err
	}
	layer, err := r.layer(entry{i.program, 0o755, content}, entry{"licenses/LICENSE", 0o644, own}, entry{"licenses/THIRD_PARTY_LICENSES", 0o644, others})
	if err != nil {
		return nil, err
	}
	built := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if built, err = mutate.AppendLayers(built, base, layer); err != nil {
		return nil, err
	}
	config, err := built.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = goos, arch, v1.Time{Time: r.created}
	config.Config = v1.Config{
		Entrypoint: []string{"/" + i.program}, Cmd: i.args, User: nonroot, WorkingDir: "/", Labels: r.labels(i),
		Env: []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
	}
	return mutate.ConfigFile(built, config)
}

// labels describes an image in the words of the OCI image specification.
func (r release) labels(i image) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":         i.title,
		"org.opencontainers.image.description":   i.description,
		"org.opencontainers.image.version":       r.version,
		"org.opencontainers.image.created":       r.created.UTC().Format(time.RFC3339),
		"org.opencontainers.image.url":           "https://confrev.io",
		"org.opencontainers.image.documentation": "https://confrev.io",
		"org.opencontainers.image.source":        "https://github.com/confrev/confrev",
		"org.opencontainers.image.vendor":        "confrev",
		"org.opencontainers.image.licenses":      "Apache-2.0",
	}
	if r.revision != "" {
		labels["org.opencontainers.image.revision"] = r.revision
	}
	return labels
}

// describe returns the digest and the size of an image for one platform.
func describe(platform string, built v1.Image) (madePlatform, error) {
	p := madePlatform{Platform: platform}
	manifest, err := built.Manifest()
	if err != nil {
		return p, err
	}
	for _, layer := range manifest.Layers {
		p.Size += layer.Size
	}
	p.Digest, err = built.Digest()
	return p, err
}

// layer returns a layer with these files and the folders that they are in, all of them root's and of one time, so that the same files
// are the same layer.
func (r release) layer(entries ...entry) (v1.Layer, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	folders := map[string]bool{}
	for _, e := range entries {
		if err := r.folders(archive, folders, e.name); err != nil {
			return nil, err
		}
		if err := add(archive, e, r.created); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// folders adds the folders that a file is in, if they are not there yet.
func (r release) folders(archive *tar.Writer, there map[string]bool, name string) error {
	for i, c := range name {
		folder := name[:i]
		if c != '/' || there[folder] {
			continue
		}
		there[folder] = true
		header := tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755, ModTime: r.created}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
	}
	return nil
}

// authorities returns the certificates that Mozilla trusts, as a PEM file. Those that are trusted under conditions only are left out,
// because a file can't say that.
func authorities() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	if out.Len() == 0 {
		return nil, errors.New("there are no certificate authorities")
	}
	return out.Bytes(), nil
}

// report prints what was made.
func report(to io.Writer, all []made) error {
	out := tabwriter.NewWriter(to, 0, 0, 3, ' ', 0)
	rows := []string{"IMAGE\tPLATFORM\tSIZE\tDIGEST"}
	for _, m := range all {
		rows = append(rows, fmt.Sprintf("%s\tall\t\t%s", m.Name, m.Digest))
		for _, p := range m.Platforms {
			rows = append(rows, fmt.Sprintf("%s\t%s\t%.1f MB\t%s", m.Name, p.Platform, float64(p.Size)/1e6, p.Digest))
		}
	}
	if _, err := io.WriteString(out, strings.Join(rows, "\n")+"\n"); err != nil {
		return err
	}
	return out.Flush()
}
