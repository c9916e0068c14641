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

// packed is a file of an archive: where it is, and its name and mode there.
type packed struct {
	from string
	name string
	mode int64
}

// compress writes a compressed archive of files and returns its checksum.
func (r release) compress(path string, files []packed) (sum string, err error) {
	out, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	hash := sha256.New()
	zip := gzip.NewWriter(io.MultiWriter(out, hash))
	archive := tar.NewWriter(zip)
	for _, f := range files {
		content, err := os.ReadFile(f.from)
		if err != nil {
			return "", err
		}
		if err := add(archive, entry{f.name, f.mode, content}, r.created); err != nil {
			return "", err
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// entry is a file in an archive or in a layer.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// add adds a file, which is root's.
func add(archive *tar.Writer, e entry, at time.Time) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.content)), ModTime: at}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(e.content)
	return err
}
