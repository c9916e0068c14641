package render_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/render"
)

var update = flag.Bool("update", false, "write what comes out as the golden files")

// Each directory of testdata is a case: in.yaml is rendered, and is out.yaml then.
func TestGolden(t *testing.T) {
	for _, input := range inputs(t) {
		dir := filepath.Dir(input)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			options := optionsOf(t, dir)
			out := rendered(t, read(t, input), options)
			golden := filepath.Join(dir, "out.yaml")
			if *update {
				write(t, golden, out)
			}
			if diff := cmp.Diff(string(read(t, golden)), string(out)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(string(out), string(rendered(t, out, options))); diff != "" {
				t.Errorf("rendering again changes it (-once +twice):\n%s", diff)
			}
		})
	}
}

func inputs(t testing.TB) []string {
	t.Helper()
	inputs, err := filepath.Glob("testdata/*/in.*")
	if err != nil || len(inputs) < 20 {
		t.Fatal(len(inputs), "cases:", err)
	}
	return inputs
}

// optionsOf returns the options of a case: options.yaml has the form that a functionConfig's spec has.
func optionsOf(t *testing.T, dir string) render.Options {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "options.yaml"))
	if os.IsNotExist(err) {
		return render.Options{}
	}
	if err != nil {
		t.Fatal(err)
	}
	options, err := render.ParseOptions(data)
	if err != nil {
		t.Fatal(err)
	}
	return options
}

func rendered(t *testing.T, in []byte, options render.Options) []byte {
	t.Helper()
	out, err := render.Render([]render.File{{Name: "in.yaml", Data: in}}, options)
	if err != nil {
		t.Fatal(err)
	}
	return out.Text
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
