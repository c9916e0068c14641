package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

// platforms are those that a release has the plugin for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// archive is the archive of one platform, and what the manifests of package managers say about it.
type archive struct {
	OS, Arch string
	// Program is the name of the plugin's file in the archive.
	Program     string
	Name        string
	URI, SHA256 string
}

func (r release) archive(platform string) archive {
	goos, goarch, _ := strings.Cut(platform, "/")
	a := archive{OS: goos, Arch: goarch, Program: "kubectl-confrev"}
	if goos == "windows" {
		a.Program += ".exe"
	}
	a.Name = fmt.Sprintf("kubectl-confrev_%s_%s_%s.tar.gz", r.version, goos, goarch)
	a.URI = strings.TrimSuffix(r.url, "/") + "/" + a.Name
	return a
}

// plugin writes the archives of kubectl-confrev, their bills of materials, krew's manifest and Homebrew's formula.
func (r release) plugin(ctx context.Context) error {
	for _, platform := range r.platforms {
		if !slices.Contains(platforms, platform) {
			return fmt.Errorf("%q is not a platform of releases: choose from %s", platform, strings.Join(platforms, ", "))
		}
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "confrev-release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	pages := filepath.Join(scratch, "man")
	if err := r.manuals(ctx, pages); err != nil {
		return fmt.Errorf("manual pages: %w", err)
	}
	var archives []archive
	for _, platform := range r.platforms {
		a, err := r.pack(ctx, scratch, pages, r.archive(platform))
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		archives = append(archives, a)
	}
	return r.manifest(archives)
}

// pack builds the program in a scratch folder and makes its archive, with the manual pages.
func (r release) pack(ctx context.Context, scratch, pages string, a archive) (archive, error) {
	dir, err := os.MkdirTemp(scratch, "")
	if err != nil {
		return a, err
	}
	file := filepath.Join(dir, a.Program)
	if err := r.build(ctx, program{os: a.OS, arch: a.Arch, name: "kubectl-confrev", file: file}); err != nil {
		return a, err
	}
	name := strings.TrimSuffix(a.Name, ".tar.gz")
	licenses, err := r.inform(ctx, name, file)
	if err != nil {
		return a, err
	}
	others := filepath.Join(dir, "THIRD_PARTY_LICENSES")
	if err := os.WriteFile(others, licenses, 0o644); err != nil {
		return a, err
	}
	files := []packed{
		{file, a.Program, 0o755}, {filepath.Join(r.source, "LICENSE"), "LICENSE", 0o644}, {others, "THIRD_PARTY_LICENSES", 0o644},
	}
	if a.OS != "windows" {
		completion := filepath.Join(r.source, "deploy", "kubectl_complete-confrev")
		files = append(files, packed{completion, "kubectl_complete-confrev", 0o755})
		manuals, err := filepath.Glob(filepath.Join(pages, "*.1"))
		if err != nil {
			return a, err
		}
		for _, manual := range manuals {
			files = append(files, packed{manual, path.Join("man/man1", filepath.Base(manual)), 0o644})
		}
	}
	a.SHA256, err = r.compress(filepath.Join(r.out, a.Name), files)
	return a, err
}

// system is an operating system that Homebrew is for, as it calls it, and the archives for its processors.
type system struct {
	Name     string
	Archives []archive
}

// CPU returns what Homebrew calls the processor of an archive.
func (a archive) CPU() string { return map[string]string{"amd64": "intel", "arm64": "arm"}[a.Arch] }

// manifest writes the manifests by which krew and Homebrew install the plugin.
func (r release) manifest(archives []archive) error {
	data := struct {
		// Version is the release's; Number is without its v.
		Version, Number string
		Archives        []archive
		Systems         []system
	}{r.version, strings.TrimPrefix(r.version, "v"), archives, nil}
	for _, name := range []struct{ os, brew string }{{"darwin", "macos"}, {"linux", "linux"}} {
		var own []archive
		for _, a := range archives {
			if a.OS == name.os {
				own = append(own, a)
			}
		}
		if len(own) > 0 {
			data.Systems = append(data.Systems, system{name.brew, own})
		}
	}
	for _, file := range []string{"krew/confrev.yaml", "homebrew/kubectl-confrev.rb"} {
		if err := r.fill(filepath.FromSlash(file), data); err != nil {
			return err
		}
	}
	return nil
}

// fill writes the file that a template in the source's folder deploy describes.
func (r release) fill(file string, data any) error {
	text, err := template.ParseFiles(filepath.Join(r.source, "deploy", file))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := text.Execute(&out, data); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, filepath.Base(file)), out.Bytes(), 0o644)
}
