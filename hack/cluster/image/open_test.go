package image

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// An OCI layout is a folder, and containerd reads archives only.
func TestAFolderIsOpenedAsAnArchive(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"oci-layout": "{}", "blobs/sha256/abc": "layer"}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	archive, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(archive); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg && files[header.Name] != string(content) {
			t.Errorf("%s has %q", header.Name, content)
		}
		delete(files, header.Name)
	}
	if len(files) > 0 {
		t.Errorf("missing in the archive: %v", files)
	}
}

func TestAnArchiveIsOpenedAsItIs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(file, []byte("an archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	archive, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := io.ReadAll(archive); err != nil || string(content) != "an archive" {
		t.Errorf("got %q, %v", content, err)
	}
	if _, err := Open(file + "x"); err == nil {
		t.Error("a file that is not there can be opened")
	}
}
