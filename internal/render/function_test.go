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
		"with kpt's own ConfigMap": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: function-input}, data: {}}", 3, framework.Results{{Message: "configmap/app is app-5kmc2ft4ds", Severity: framework.Info}}},
		"with one without data":    {"{apiVersion: v1, kind: ConfigMap, metadata: {name: function-input}}", 3, framework.Results{{Message: "configmap/app is app-5kmc2ft4ds", Severity: framework.Info}}},
		"with kpt's arguments":     {"{apiVersion: v1, kind: ConfigMap, metadata: {name: function-input}, data: {mode: checksum}}", 2, nil},
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

// A function that fails returns its input, with a result that says why.
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

// kpt's arguments are texts: lists of tools are separated by commas, and the other options are in YAML.
func TestFunctionTakesOptionsAsTexts(t *testing.T) {
	config := `{apiVersion: v1, kind: ConfigMap, data: {
  keepFor: "helm, argocd", namespace: "on",
  workloads: "[{group: example.com, version: v1, kind: Web, holder: {group: apps, version: v1, kind: ReplicaSet}}]",
  nameReference: "[{kind: ConfigMap, fieldSpecs: [{kind: Ingress, path: spec/config}]}]"}}`
	ingress := "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web, namespace: on}\nspec: {config: app}\n"
	items, results, err := function(t, config, appObject, strings.Replace(webObject, "apps/v1\nkind: Deployment", "example.com/v1\nkind: Web", 1), ingress)
	if err != nil || len(items) != 4 || len(results) != 1 {
		t.Fatalf("%d items, %v, %v", len(items), results, err)
	}
	revision, users := items[1].MustString(), items[2].MustString()+items[3].MustString()
	for _, want := range []string{"helm.sh/resource-policy: keep", "argocd.argoproj.io/sync-options: Prune=false"} {
		if !strings.Contains(revision, want) {
			t.Errorf("%s is not in\n%s", want, revision)
		}
	}
	if strings.Count(users, "app-5kmc2ft4ds") != 2 {
		t.Errorf("not both refer to the revision:\n%s", users)
	}
}
