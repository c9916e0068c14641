package image

import (
	"archive/tar"
	"io"
	"os"
)

// Open opens an archive of images, or makes one of a folder that is an OCI layout.
func Open(path string) (io.ReadCloser, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return os.Open(path)
	}
	from, to := io.Pipe()
	go func() {
		archive := tar.NewWriter(to)
		err := archive.AddFS(os.DirFS(path))
		if err == nil {
			err = archive.Close()
		}
		_ = to.CloseWithError(err)
	}()
	return from, nil
}
