package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// manifest has the fields that krew knows; it is read strictly.
type manifest struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		Homepage         string `json:"homepage"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Caveats          string `json:"caveats"`
		Platforms        []struct {
			Selector metav1.LabelSelector `json:"selector"`
			URI      string               `json:"uri"`
			SHA256   string               `json:"sha256"`
			Bin      string               `json:"bin"`
			Files    []struct {
				From string `json:"from"`
				To   string `json:"to"`
			} `json:"files"`
		} `json:"platforms"`
	} `json:"spec"`
}

// released makes a release of the plugin, with a text in place of each program and manual page, and returns its folder.
func released(t *testing.T, change func(*release)) (dir string, err error) {
	t.Helper()
	r := release{source: filepath.Join("..", ".."), platforms: platforms, out: t.TempDir(), build: write, contains: noModules}
	r.manuals = func(_ context.Context, dir string) error {
		page := filepath.Join(dir, "kubectl-confrev-status.1")
		return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(page, []byte(".TH"), 0o644))
	}
	if change != nil {
		change(&r)
	}
	if err := r.complete(t.Context(), "v1.2.3"); err != nil {
		return r.out, err
	}
	if err := r.plugin(t.Context()); err != nil {
		return r.out, err
	}
	return r.out, r.sums()
}

// noModules returns the modules that a text contains.
func noModules(context.Context, string) ([]dependency, error) { return nil, nil }

// write writes a text in place of a program.
func write(_ context.Context, p program) error {
	return os.WriteFile(p.file, fmt.Appendf(nil, "%s for %s on %s", p.name, p.os, p.arch), 0o755)
}

func TestKrewManifest(t *testing.T) {
	dir, err := released(t, func(r *release) { r.url = "https://example.com/confrev/" })
	if err != nil {
		t.Fatal(err)
	}
	var got manifest
	if err := yaml.UnmarshalStrict([]byte(read(t, dir, "confrev.yaml")), &got); err != nil {
		t.Fatal(err)
	}
	short := got.Spec.ShortDescription
	if got.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || got.Kind != "Plugin" || got.Metadata.Name != "confrev" ||
		got.Spec.Version != "v1.2.3" || short == "" || len(short) > 50 {
		t.Errorf("krew would refuse it: %+v", got)
	}
	if len(got.Spec.Platforms) != len(platforms) {
		t.Errorf("%d platforms, want %d", len(got.Spec.Platforms), len(platforms))
	}
	for i, platform := range got.Spec.Platforms {
		goos, goarch, _ := strings.Cut(platforms[i], "/")
		if selector := metav1.FormatLabelSelector(&platform.Selector); selector != "arch="+goarch+",os="+goos {
			t.Errorf("%s is selected by %q", platforms[i], selector)
		}
		name, found := strings.CutPrefix(platform.URI, "https://example.com/confrev/")
		if archive := read(t, dir, name); !found || checksum(archive) != platform.SHA256 {
			t.Errorf("%s: its checksum is not that of %s", platforms[i], platform.URI)
		}
		packed := unpack(t, dir, name)
		if want := "kubectl-confrev for " + goos + " on " + goarch; packed[platform.Bin].content != want || packed[platform.Bin].Mode != 0o755 {
			t.Errorf("%s: %s is %+v, want %q", platforms[i], platform.Bin, packed[platform.Bin], want)
		}
		if strings.HasSuffix(platform.Bin, ".exe") != (goos == "windows") {
			t.Errorf("%s: the program is called %s", platforms[i], platform.Bin)
		}
		installed := map[string]bool{}
		for _, file := range platform.Files {
			if _, ok := packed[file.From]; !ok || file.To != "." {
				t.Errorf("%s: krew finds no %q to install in %q", platforms[i], file.From, file.To)
			}
			installed[file.From] = true
		}
		if !installed[platform.Bin] || !installed["LICENSE"] {
			t.Errorf("%s: krew installs only %v", platforms[i], installed)
		}
	}
}

// Homebrew gets the archive of each platform that it is for, with its checksum, and installs what is in it.
func TestHomebrewFormula(t *testing.T) {
	dir, err := released(t, func(r *release) { r.url = "https://example.com/confrev" })
	if err != nil {
		t.Fatal(err)
	}
	formula := read(t, dir, "kubectl-confrev.rb")
	if !strings.Contains(formula, "\n  version \"1.2.3\"\n") {
		t.Errorf("it is not of the version:\n%s", formula)
	}
	names := strings.NewReplacer("macos", "darwin", "intel", "amd64", "arm", "arm64")
	seen := map[string]bool{}
	var system, file string
	for line := range strings.Lines(formula) {
		var value string
		switch {
		case scan(line, "  on_%s do", &value):
			system = names.Replace(value)
		case scan(line, "    on_%s do", &value):
			file = "kubectl-confrev_v1.2.3_" + system + "_" + names.Replace(value) + ".tar.gz"
		case scan(line, "      url %q", &value):
			seen[file] = true
			if value != "https://example.com/confrev/"+file {
				t.Errorf("in place of %s, it gets %s", file, value)
			}
		case scan(line, "      sha256 %q", &value):
			if value != checksum(read(t, dir, file)) {
				t.Errorf("the checksum is not that of %s", file)
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("it is for %v:\n%s", seen, formula)
	}
	packed := unpack(t, dir, "kubectl-confrev_v1.2.3_darwin_arm64.tar.gz")
	installed := regexp.MustCompile(`bin\.install "(.+)", "(.+)"`).FindStringSubmatch(formula)
	if len(installed) != 3 || packed[installed[1]].Header == nil || packed[installed[2]].Header == nil {
		t.Errorf("it installs %q, which is not in the archive", installed)
	}
}

// scan reads a line of a form, and reports whether it has that form.
func scan(line, form string, into *string) bool {
	// Sscanf takes any number of spaces for one.
	if indent := form[:strings.IndexFunc(form, func(r rune) bool { return r != ' ' })]; !strings.HasPrefix(line, indent) || line[len(indent)] == ' ' {
		return false
	}
	_, err := fmt.Sscanf(line, form, into)
	return err == nil
}

func TestArchives(t *testing.T) {
	dir, err := released(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	unix := unpack(t, dir, "kubectl-confrev_v1.2.3_linux_arm64.tar.gz")
	for _, name := range []string{"LICENSE", "THIRD_PARTY_LICENSES", "kubectl_complete-confrev", "man/man1/kubectl-confrev-status.1"} {
		if unix[name].Header == nil || unix[name].content == "" && name != "THIRD_PARTY_LICENSES" {
			t.Errorf("there is no %s", name)
		}
	}
	if mode := unix["kubectl_complete-confrev"].Mode; mode != 0o755 {
		t.Errorf("what completes is not executable: %o", mode)
	}
	if windows := unpack(t, dir, "kubectl-confrev_v1.2.3_windows_amd64.tar.gz"); len(windows) != 3 {
		t.Errorf("Windows has use for the program and its licenses only: %v", windows)
	}
	sums := read(t, dir, "SHA256SUMS")
	for _, platform := range platforms {
		name := "kubectl-confrev_v1.2.3_" + strings.ReplaceAll(platform, "/", "_") + ".tar.gz"
		if line := checksum(read(t, dir, name)) + "  " + name + "\n"; !strings.Contains(sums, line) {
			t.Errorf("SHA256SUMS lacks %q:\n%s", line, sums)
		}
	}
	// For each platform an archive and a bill of materials, krew's manifest and Homebrew's formula.
	if lines := strings.Count(sums, "\n"); lines != 2*len(platforms)+2 {
		t.Errorf("SHA256SUMS has %d lines:\n%s", lines, sums)
	}
	if text := read(t, dir, "confrev.yaml"); !strings.Contains(text, "uri: https://confrev.io/releases/v1.2.3/kubectl-confrev_v1.2.3_") {
		t.Errorf("archives have another address:\n%s", text)
	}
}

func TestAnArchiveIsTheSameWheneverItIsMade(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "program")
	r := release{created: time.Unix(1_000_000_000, 0)}
	var made []string
	for _, name := range []string{"first", "second"} {
		// Written again, so it is younger, and other people may do other things with it.
		if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, []byte("same"), os.FileMode(0o600+len(made)*0o44))); err != nil {
			t.Fatal(err)
		}
		sum, err := r.compress(filepath.Join(dir, name), []packed{{file, "program", 0o755}})
		if err != nil || sum != checksum(read(t, dir, name)) {
			t.Errorf("checksum %s, %v", sum, err)
		}
		if unpacked := unpack(t, dir, name)["program"]; !unpacked.ModTime.Equal(r.created) {
			t.Errorf("the archive tells when the file was changed: %v", unpacked.ModTime)
		}
		made = append(made, read(t, dir, name))
	}
	if made[0] != made[1] {
		t.Error("they differ")
	}
}

func TestVersionsAndTimesThatAreRefused(t *testing.T) {
	for version, want := range map[string]string{"1.2.3": "not a version such as v1.2.3", "v1.2": "not a version such as v1.2.3"} {
		if err := new(release).complete(t.Context(), version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", version, err, want)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if err := new(release).complete(t.Context(), "v1.2.3"); err == nil || !strings.Contains(err.Error(), `"yesterday" is not a number`) {
		t.Error(err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	var r release
	if err := r.complete(t.Context(), "v1.2.3"); err != nil || !r.created.Equal(time.Unix(1_000_000_000, 0)) {
		t.Error(r.created, err)
	}
}

func TestWhatIsNotMadeHasNoManifest(t *testing.T) {
	fails := func(context.Context, program) error { return io.EOF }
	tests := map[string]struct {
		change func(*release)
		want   string
	}{
		"another platform":          {func(r *release) { r.platforms = []string{"plan9/amd64"} }, "choose from linux/amd64"},
		"what cannot be built":      {func(r *release) { r.build = fails }, "linux/amd64: EOF"},
		"pages that cannot be made": {func(r *release) { r.manuals = func(context.Context, string) error { return io.EOF } }, "manual pages: EOF"},
		"what leaves no program":    {func(r *release) { r.build = func(context.Context, program) error { return nil } }, "no such file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir, err := released(t, tt.change)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "confrev.yaml")); err == nil {
				t.Error("there is a manifest of what was not made")
			}
		})
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func checksum(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

type unpacked struct {
	*tar.Header
	content string
}

// unpack returns the files in an archive by name.
func unpack(t *testing.T, dir, name string) map[string]unpacked {
	t.Helper()
	zip, err := gzip.NewReader(strings.NewReader(read(t, dir, name)))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]unpacked{}
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = unpacked{header, string(content)}
	}
}
