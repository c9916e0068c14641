// Package image makes container images of one program, without a container engine.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// Image is a container image of one layer with one file, which is its entry point.
type Image struct {
	Name       string // with a tag
	Binary     []byte // the file's content
	Entrypoint string // its absolute path in the image
	Args       []string
}

// Write writes the image as an archive that 'ctr images import' reads (the format of 'docker save').
func (i Image) Write(path string) error {
	archive, err := i.archive()
	if err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	if err := os.WriteFile(path, archive, 0o644); err != nil {
		return fmt.Errorf("make image %s: %w", i.Name, err)
	}
	return nil
}

func (i Image) archive() ([]byte, error) {
	layer, err := tarball(tarFile{i.Entrypoint[1:], 0o755, i.Binary})
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": append([]string{i.Entrypoint}, i.Args...)},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return nil, err
	}
	configName := digest(config) + ".json"
	manifest, err := json.Marshal([]map[string]any{
		{"Config": configName, "RepoTags": []string{i.Name}, "Layers": []string{"layer.tar"}},
	})
	if err != nil {
		return nil, err
	}
	return tarball(tarFile{configName, 0o644, config}, tarFile{"layer.tar", 0o644, layer}, tarFile{"manifest.json", 0o644, manifest})
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

type tarFile struct {
	name    string
	mode    int64
	content []byte
}

// tarball has no times, so that the same content has the same digest.
func tarball(files ...tarFile) ([]byte, error) {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, f := range files {
		if err := writer.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content))}); err != nil {
			return nil, err
		}
		if _, err := writer.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
