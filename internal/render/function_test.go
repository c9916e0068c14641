package render_test

import (
	"bytes"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/kyaml/fn/framework"
	"sigs.k8s.io/kustomize/kyaml/kio"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"confrev.io/confrev/internal/render"
)

// function renders objects as kustomize and kpt have it done: it writes a ResourceList, and reads one, with their library.
func function(t *testing.T, functionConfig string, objects ...string) (items []*yaml.RNode, results framework.Results, err error) {
	t.Helper()
	var in bytes.Buffer
	writer := kio.ByteWriter{Writer: &in, KeepReaderAnnotations: true, WrappingAPIVersion: kio.ResourceListAPIVersion, WrappingKind: kio.ResourceListKind}
	if functionConfig != "" {
		writer.FunctionConfig = yaml.MustParse(functionConfig)
	}
	nodes, err := (&kio.ByteReader{Reader: strings.NewReader(strings.Join(objects, "---\n"))}).Read()
	if err == nil {
		err = writer.Write(nodes)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, failed := render.Render([]render.File{{Name: "standard input", Data: in.Bytes()}}, render.Options{})
	reader := &kio.ByteReader{Reader: bytes.NewReader(out.Text), OmitReaderAnnotations: true}
	if items, err = reader.Read(); err != nil {
		t.Fatalf("%v\n%s", err, out.Text)
	}
	if reader.WrappingAPIVersion != kio.ResourceListAPIVersion || reader.WrappingKind != kio.ResourceListKind || (functionConfig != "") != (reader.FunctionConfig != nil) {
		t.Errorf("that is no ResourceList, or it lost its functionConfig:\n%s", out.Text)
	}
	if reader.Results != nil {
		if err := reader.Results.YNode().Decode(&results); err != nil {
			t.Fatal(err)
		}
	}
	return items, results, failed
}

const (
	appObject = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {color: blue}\n"
	webObject = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: web, envFrom: [{configMapRef: {name: app}}]}]}}}\n"
)

func TestFunctionGivesBackItemsAndResults(t *testing.T) {
	tests := map[string]struct {
		config string
		items  int
		want   framework.Results
	}{
		"without a functionConfig": {"", 3, framework.Results{{Message: "configmap/app is app-5kmc2ft4ds", Severity: framework.Info}}},
		"with options":             {"{apiVersion: confrev.io/v1, kind: Render, metadata: {name: r}, spec: {mode: checksum}}", 2, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			items, results, err := function(t, tt.config, appObject, webObject)
			if err != nil || len(items) != tt.items || len(results) != len(tt.want) {
				t.Fatalf("%d items, %v, %v", len(items), results, err)
			}
			for i, result := range results {
				if result.String() != tt.want[i].String() {
					t.Errorf("got %s, want %s", result, tt.want[i])
				}
			}
		})
	}
}

// A function that fails gives back what it got, with a result that tells why.
func TestFunctionThatFailsSaysSoInItsResults(t *testing.T) {
	tests := map[string]struct{ config, app, want string }{
		"an object":  {"{kind: Render}", strings.Replace(appObject, "blue", "10", 1), "configmap/app: json: cannot unmarshal number"},
		"the config": {"{kind: Render, spec: {mode: hash}}", appObject, `functionConfig: "hash" is not a mode`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			items, results, err := function(t, tt.config, webObject, tt.app)
			if err == nil || len(results) != 1 || results[0].Severity != framework.Error || results[0].Message != err.Error() || !strings.Contains(results[0].Message, tt.want) {
				t.Fatalf("%v, want one with %q; the error is %v", results, tt.want, err)
			}
			if len(items) != 2 || strings.Contains(items[0].MustString(), "confrev.io") {
				t.Errorf("the items are not what they were: %s", items[0].MustString())
			}
		})
	}
}
