package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const sumsFile = "SHA256SUMS"

// sums writes the checksums of all files of a release. What is in folders has its digest from a registry.
func (r release) sums() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, file := range files {
		if file.IsDir() || file.Name() == sumsFile {
			continue
		}
		content, err := os.ReadFile(filepath.Join(r.out, file.Name()))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(&sums, "%s  %s\n", hex.EncodeToString(sum[:]), file.Name())
	}
	return os.WriteFile(filepath.Join(r.out, sumsFile), []byte(sums.String()), 0o644)
}

// notes writes what CHANGELOG.md says about the version.
func (r release) notes() error {
	text, err := os.ReadFile(filepath.Join(r.source, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	own, err := section(string(text), r.version)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "CHANGELOG.md"), []byte(own), 0o644)
}

var heading = regexp.MustCompile(`(?m)^## .*\n`)

// section returns the section of a changelog about a version, without its heading.
func section(changelog, version string) (string, error) {
	_, own, found := strings.Cut(changelog, "\n## "+version+"\n")
	if next := heading.FindStringIndex(own); next != nil {
		own = own[:next[0]]
	}
	own = strings.TrimSpace(own)
	if !found || own == "" {
		return "", fmt.Errorf("CHANGELOG.md says nothing about %[1]s: write a section \"## %[1]s\"", version)
	}
	return own + "\n", nil
}
