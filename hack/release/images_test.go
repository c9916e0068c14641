package main

import (
	"archive/tar"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// imaged makes the images of a source, and returns the release with what was made. change is called before that, unless it is nil.
func imaged(t *testing.T, r release, change func(*release)) (release, []made) {
	t.Helper()
	r.out, r.registry, r.revision = t.TempDir(), "registry.example.com/team", "0123abcd"
	r.imagePlatforms = imagePlatforms
	if err := r.complete(t.Context(), "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&r)
	}
	made, err := r.images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r, made
}

// Two builds of the same files in different folders, with the real programs, are the same images.
func TestImagesAreReproducible(t *testing.T) {
	source := filepath.Join("..", "..")
	_, here := imaged(t, release{source: source}, compilesEachOnce)
	_, there := imaged(t, release{source: copied(t, source)}, compilesEachOnce)
	for i, m := range here {
		t.Logf("%s %s", m.Name, m.Digest)
		if m.Digest != there[i].Digest {
			t.Errorf("%s: %s here, %s in another folder", m.Name, m.Digest, there[i].Digest)
		}
		programs := 0
		for _, p := range m.Platforms {
			t.Logf("%s %s: %.1f MB", m.Name, p.Platform, float64(p.Size)/1e6)
			if p.Size > 1e6 {
				programs++
			}
		}
		if programs != 1 {
			t.Errorf("%s: %d real programs were compared, want 1", m.Name, programs)
		}
	}
}

// compilesEachOnce makes a release compile each program, and for each architecture, once. Linking takes most of the time of an image.
func compilesEachOnce(r *release) {
	compile, dependencies := r.build, r.contains
	arch := map[string]string{"confrev": "arm64", "kubectl-confrev": "amd64"}
	compiled := map[string]bool{}
	r.build = func(ctx context.Context, p program) error {
		if compiled[p.file] = p.arch == arch[p.name]; compiled[p.file] {
			return compile(ctx, p)
		}
		return write(ctx, p)
	}
	r.contains = func(ctx context.Context, file string) ([]dependency, error) {
		if compiled[file] {
			return dependencies(ctx, file)
		}
		return noModules(ctx, file)
	}
}

// copied copies the files that Git knows to another folder.
func copied(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = source
	names, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.Trim(string(names), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(source, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		to := filepath.Join(dir, name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestImages(t *testing.T) {
	r, all := imaged(t, release{source: filepath.Join("..", ".."), build: write, contains: noModules}, nil)
	wantArgs := map[string][]string{"confrev": nil, "kubectl-confrev": {"render"}}
	for _, m := range all {
		index := opened(t, r, m)
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		if manifest.MediaType != types.OCIImageIndex {
			t.Errorf("%s is a %s", m.Name, manifest.MediaType)
		}
		var got []string
		for _, descriptor := range manifest.Manifests {
			got = append(got, descriptor.Platform.String())
			built, err := index.Image(descriptor.Digest)
			if err != nil {
				t.Fatal(err)
			}
			checkImage(t, r, m.Name, descriptor.Platform, built, wantArgs[m.Name])
		}
		if !slices.Equal(got, imagePlatforms) {
			t.Errorf("%s is for %v", m.Name, got)
		}
	}
}

// opened reads the layout of an image, and checks that everything in it is there and has the digest that it claims.
func opened(t *testing.T, r release, m made) v1.ImageIndex {
	t.Helper()
	root, err := layout.ImageIndexFromPath(filepath.Join(r.out, "images", m.Name))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(root); err != nil {
		t.Errorf("%s: %v", m.Name, err)
	}
	manifest, err := root.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%s: %+v, %v", m.Name, manifest, err)
	}
	only := manifest.Manifests[0]
	want := map[string]string{
		"org.opencontainers.image.ref.name": "v1.2.3",
		"io.containerd.image.name":          "registry.example.com/team/" + m.Name + ":v1.2.3",
	}
	if only.Digest != m.Digest || !maps.Equal(only.Annotations, want) {
		t.Errorf("%s: the layout has %s, %v", m.Name, only.Digest, only.Annotations)
	}
	index, err := root.ImageIndex(only.Digest)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func checkImage(t *testing.T, r release, name string, platform *v1.Platform, built v1.Image, args []string) {
	t.Helper()
	config, err := built.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if config.OS != platform.OS || config.Architecture != platform.Architecture || !config.Created.Equal(r.created) {
		t.Errorf("%s %s: made for %s/%s at %s", name, platform, config.OS, config.Architecture, config.Created)
	}
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/" + name}) || !slices.Equal(c.Cmd, args) {
		t.Errorf("%s %s: runs %v %v as %q", name, platform, c.Entrypoint, c.Cmd, c.User)
	}
	for key, want := range map[string]string{"version": "v1.2.3", "licenses": "Apache-2.0", "source": "https://github.com/confrev/confrev", "revision": "0123abcd"} {
		if got := c.Labels["org.opencontainers.image."+key]; got != want {
			t.Errorf("%s %s: label %s is %q, want %q", name, platform, key, got, want)
		}
	}
	files := unpackImage(t, built)
	if got, want := string(files[name]), name+" for "+platform.OS+" on "+platform.Architecture; got != want {
		t.Errorf("%s %s: the program is %q, want %q", name, platform, got, want)
	}
	if users := string(files["etc/passwd"]); !strings.Contains(users, "nonroot:x:65532:65532:") || !strings.Contains(users, ":x:65534:") {
		t.Errorf("%s %s: users %q", name, platform, users)
	}
	checkAuthorities(t, files["etc/ssl/certs/ca-certificates.crt"])
	if !strings.Contains(string(files["licenses/LICENSE"]), "Apache License") {
		t.Errorf("%s %s has no license", name, platform)
	}
	if len(files) != 5 {
		t.Errorf("%s %s has %v", name, platform, slices.Sorted(maps.Keys(files)))
	}
}

// checkAuthorities checks that certificates can be read, and are those of authorities.
func checkAuthorities(t *testing.T, file []byte) {
	t.Helper()
	count := 0
	for block, rest := pem.Decode(file); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !certificate.IsCA {
			t.Errorf("certificate %d: %v", count, err)
		}
		count++
	}
	if count < 50 {
		t.Errorf("%d certificate authorities", count)
	}
}

// unpackImage returns the content of an image's files. All must be root's, and no one else may change them.
func unpackImage(t *testing.T, built v1.Image) map[string][]byte {
	t.Helper()
	layers, err := built.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, layer := range layers {
		reader, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		archive := tar.NewReader(reader)
		for {
			header, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if header.Uid != 0 || header.Gid != 0 || header.Mode&0o022 != 0 {
				t.Errorf("%s is %d's with mode %o", header.Name, header.Uid, header.Mode)
			}
			if header.Typeflag == tar.TypeReg {
				if files[header.Name], err = io.ReadAll(archive); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return files
}
