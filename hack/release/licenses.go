package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licenseclassifier/v2/assets"
)

// allowed are the licenses of what confrev may ship, as SPDX calls them: they ask for their text and for notices only, or (MPL-2.0) for
// the source of files that confrev does not change.
var allowed = []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "BSD-3-Clause-HP", "ISC", "MPL-2.0"}

// dependency is a module that a program contains.
type dependency struct {
	path, version string
	// licenses are SPDX's names of its licenses, each once and in order.
	licenses []string
	// texts are its files of licenses and notices, by name.
	texts []packed
}

// dependencies returns the modules that the Go toolchain recorded in a program, with the standard library as the first.
func (r release) dependencies(ctx context.Context, file string) ([]dependency, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	modules := make([]string, len(info.Deps))
	for i, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		modules[i] = module.Path + "@" + module.Version
	}
	folders, err := r.download(ctx, modules)
	if err != nil {
		return nil, err
	}
	classify, err := classifier()
	if err != nil {
		return nil, err
	}
	all := []dependency{{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}}
	toolchain := exec.CommandContext(ctx, "go", "env", "GOROOT")
	toolchain.Dir = r.source
	root, err := toolchain.Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	folders = append([]string{strings.TrimSpace(string(root))}, folders...)
	for _, module := range modules {
		path, version, _ := strings.Cut(module, "@")
		all = append(all, dependency{path: path, version: version})
	}
	var wrong []error
	for i := range all {
		if err := classify(&all[i], folders[i]); err != nil {
			wrong = append(wrong, fmt.Errorf("%s@%s: %w", all[i].path, all[i].version, err))
		}
	}
	return all, errors.Join(wrong...)
}

// download returns where the files of modules are.
func (r release) download(ctx context.Context, modules []string) ([]string, error) {
	if len(modules) == 0 {
		return nil, nil
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"mod", "download", "-json"}, modules...)...)
	cmd.Dir = r.source
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download: %w", err)
	}
	var found []string
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var module struct{ Path, Version, Dir string }
		if err := decoder.Decode(&module); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if at := len(found); at >= len(modules) || module.Path+"@"+module.Version != modules[at] {
			return nil, fmt.Errorf("go mod download lists %s@%s", module.Path, module.Version)
		}
		found = append(found, module.Dir)
	}
	if len(found) != len(modules) {
		return nil, fmt.Errorf("go mod download lists %d of %d modules", len(found), len(modules))
	}
	return found, nil
}

// legal are the names of files of licenses and notices.
var legal = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)([._-].*)?$`)

// classifier returns a function that adds the licenses and their texts to a dependency whose files are in a folder. It returns an
// error if there are none, or one that confrev may not ship.
func classifier() (func(d *dependency, folder string) error, error) {
	known, err := assets.DefaultClassifier()
	if err != nil {
		return nil, err
	}
	return func(d *dependency, folder string) error {
		files, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, file := range files {
			if file.IsDir() || !legal.MatchString(file.Name()) {
				continue
			}
			d.texts = append(d.texts, packed{filepath.Join(folder, file.Name()), file.Name(), 0o644})
			text, err := os.ReadFile(filepath.Join(folder, file.Name()))
			if err != nil {
				return err
			}
			for _, match := range known.Match(text).Matches {
				if match.MatchType == "License" {
					d.licenses = append(d.licenses, match.Name)
				}
			}
		}
		slices.Sort(d.licenses)
		d.licenses = slices.Compact(d.licenses)
		if len(d.licenses) == 0 {
			return errors.New("there is no license that is known")
		}
		for _, license := range d.licenses {
			if !slices.Contains(allowed, license) {
				return fmt.Errorf("its license is %s, not one of %s", license, strings.Join(allowed, ", "))
			}
		}
		return nil
	}, nil
}

// attribution returns one text with all the licenses and notices of dependencies.
func attribution(all []dependency) ([]byte, error) {
	var out bytes.Buffer
	for _, d := range all {
		for _, text := range d.texts {
			content, err := os.ReadFile(text.from)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "%s\n%s %s: %s\n%s\n\n%s\n", strings.Repeat("=", 78), d.path, d.version, text.name, strings.Repeat("=", 78), content)
		}
	}
	return out.Bytes(), nil
}
