package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"time"
)

// file is a file of an archive.
type file struct {
	from string
	name string
	mode int64
}

// packed is when all files were changed, according to archives: the same bytes come out whenever they are made.
var packed = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// pack writes a compressed archive of files and returns its checksum.
func pack(path string, files []file) (sum string, err error) {
	out, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	hash := sha256.New()
	zip := gzip.NewWriter(io.MultiWriter(out, hash))
	archive := tar.NewWriter(zip)
	for _, f := range files {
		if err := add(archive, f); err != nil {
			return "", err
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func add(archive *tar.Writer, f file) error {
	content, err := os.ReadFile(f.from)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(content)), ModTime: packed}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(content)
	return err
}
