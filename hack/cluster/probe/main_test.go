package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// configure makes a directory as the kubelet makes a volume: a link to a version, and links to the files in it.
func configure(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	version := filepath.Join(dir, "..2026")
	for _, err := range []error{
		os.Mkdir(version, 0o755),
		os.WriteFile(filepath.Join(version, "mode"), []byte(content), 0o600),
		os.Symlink("..2026", filepath.Join(dir, "..data")),
		os.Symlink(filepath.Join("..data", "mode"), filepath.Join(dir, "mode")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWatchPrintsWhatItReads(t *testing.T) {
	tests := map[string]struct {
		env, file string
		wantErr   string
	}{
		"variables and files are told":         {env: "a", file: "b", wantErr: "told to end"},
		"a faulty variable ends it":            {env: "crash", file: "b", wantErr: "the configuration says crash"},
		"a faulty file ends it":                {env: "a", file: "crash\n", wantErr: "the configuration says crash"},
		"crash is a word of its own, not part": {env: "crashed", file: "no crash", wantErr: "told to end"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CFG_MODE", test.env)
			t.Setenv("OTHER", "not told")
			dir := configure(t, test.file)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			var out bytes.Buffer
			err := watch(ctx, &out, []string{dir, filepath.Join(dir, "missing")})
			if got := errorText(err); got != test.wantErr {
				t.Errorf("error is %q, want %q", got, test.wantErr)
			}
			file := strings.ReplaceAll(test.file, "\n", `\n`)
			want := `{"env":{"CFG_MODE":"` + test.env + `"},"files":{"` + filepath.Join(dir, "mode") + `":"` + file + `"}}` + "\n"
			if out.String() != want {
				t.Errorf("printed %s, want %s", out.String(), want)
			}
		})
	}
}

// A container that is about to crash must not be taken for ready, however slow the machine is.
func TestReadyFailsWithAFaultyConfiguration(t *testing.T) {
	for content, want := range map[string]string{"a": "", "crash\n": "the configuration says crash"} {
		if got := errorText(run(t.Context(), []string{"ready", configure(t, content)})); got != want {
			t.Errorf("with %q: %q, want %q", content, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
