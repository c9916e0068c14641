package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/licenseclassifier/v2/assets"
	"github.com/spdx/tools-golang/json"
)

// What the programs contain may be shipped, and its licenses, notices and names are in the artifacts.
func TestDependenciesOfThePrograms(t *testing.T) {
	r := release{source: filepath.Join("..", ".."), out: t.TempDir()}
	if err := r.complete(t.Context(), "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]string{
		"confrev":         {"std": "BSD-3-Clause", "k8s.io/client-go": "Apache-2.0"},
		"kubectl-confrev": {"std": "BSD-3-Clause", "k8s.io/kubectl": "Apache-2.0", "github.com/spf13/pflag": "BSD-3-Clause"},
	} {
		file := filepath.Join(t.TempDir(), name)
		if err := r.build(t.Context(), program{os: runtime.GOOS, arch: runtime.GOARCH, name: name, file: file}); err != nil {
			t.Fatal(err)
		}
		licenses, err := r.inform(t.Context(), name, file)
		if err != nil {
			t.Fatal(err)
		}
		bill, err := json.Read(strings.NewReader(read(t, r.out, name+".spdx.json")))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, p := range bill.Packages {
			found[p.PackageName] = p.PackageLicenseConcluded
			if p.PackageName != name && !strings.Contains(string(licenses), "\n"+p.PackageName+" "+p.PackageVersion+": ") {
				t.Errorf("%s: there is no text of the license of %s", name, p.PackageName)
			}
		}
		t.Logf("%s: %d modules, %d bytes of licenses", name, len(bill.Packages)-1, len(licenses))
		for module, license := range want {
			if found[module] != license {
				t.Errorf("%s: the license of %s is %q, want %q", name, module, found[module], license)
			}
		}
		if len(bill.Relationships) != len(bill.Packages) || bill.Packages[0].PackageChecksums[0].Value != checksum(read(t, filepath.Dir(file), name)) {
			t.Errorf("%s: %d relationships, checksum %v", name, len(bill.Relationships), bill.Packages[0].PackageChecksums)
		}
	}
}

func TestLicensesThatMayNotBeShipped(t *testing.T) {
	classify, err := classifier()
	if err != nil {
		t.Fatal(err)
	}
	gpl, err := assets.ReadLicenseFile("License/GPL-2.0/license.txt")
	if err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string]map[string]string{
		"its license is GPL-2.0":            {"COPYING": string(gpl)},
		"there is no license that is known": {"LICENSE": "Do what you are told.", "README": string(gpl)},
	} {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := classify(&dependency{}, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	own := &dependency{}
	if err := classify(own, filepath.Join("..", "..")); err != nil || !slices.Equal(own.licenses, []string{"Apache-2.0"}) || len(own.texts) != 1 {
		t.Errorf("%+v, %v", own, err)
	}
}

// A program whose licenses may not be shipped is not put into an artifact.
func TestLicensesStopARelease(t *testing.T) {
	_, err := released(t, func(r *release) {
		r.contains = func(context.Context, string) ([]dependency, error) { return nil, errors.New("no license") }
	})
	if err == nil || !strings.Contains(err.Error(), "no license") {
		t.Error(err)
	}
}

func TestSectionOfTheChangelog(t *testing.T) {
	changelog := "# Changelog\n\n## v1.10.0\n\n- ten\n\n### Upgrade\n\nNothing.\n\n## v1.1.0\n\n- one\n\n## v1.0.0\n"
	for version, want := range map[string]string{"v1.10.0": "- ten\n\n### Upgrade\n\nNothing.\n", "v1.1.0": "- one\n", "v1.1": "", "v1.0.0": "", "v2.0.0": ""} {
		got, err := section(changelog, version)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", version, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), `write a section "## `+version+`"`) {
			t.Error(err)
		}
	}
}
