package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"
)

func TestImageArchive(t *testing.T) {
	made := Image{Name: "example/x:1", Binary: []byte("binary"), Entrypoint: "/x", Args: []string{"pause"}}
	archive, err := made.archive()
	must(t, err)
	files := untar(t, archive)

	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	decode(t, files["manifest.json"], &manifest)
	if len(manifest) != 1 || !slices.Equal(manifest[0].RepoTags, []string{"example/x:1"}) || len(manifest[0].Layers) != 1 {
		t.Fatalf("manifest is %s", files["manifest.json"])
	}
	var config struct {
		Config struct{ Entrypoint []string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	decode(t, files[manifest[0].Config], &config)
	if !slices.Equal(config.Config.Entrypoint, []string{"/x", "pause"}) {
		t.Errorf("entry point is %q", config.Config.Entrypoint)
	}
	layer := files[manifest[0].Layers[0]]
	if want := []string{"sha256:" + digest(layer)}; !slices.Equal(config.RootFS.DiffIDs, want) {
		t.Errorf("layers are %q, want %q", config.RootFS.DiffIDs, want)
	}
	if got := untar(t, layer); len(got) != 1 || string(got["x"]) != "binary" {
		t.Errorf("the layer has %q", got)
	}

	again, err := made.archive()
	must(t, err)
	if !bytes.Equal(archive, again) {
		t.Error("the same image differs when it is made again")
	}
}

func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		must(t, err)
		content, err := io.ReadAll(reader)
		must(t, err)
		files[header.Name] = content
	}
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	must(t, json.Unmarshal(text, into))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
