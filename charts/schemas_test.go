package charts_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// schemas are those of one version of Kubernetes, as its source has them, strict: a field that they do not know is an error, as with
// kubeconform -strict.
type schemas struct {
	version string
	dir     string

	mu       sync.Mutex
	compiled map[schema.GroupVersionKind]*jsonschema.Schema
	// valid has the texts of objects that are known to be valid: forms of the chart differ in a few.
	valid sync.Map
}

// versions returns the schemas of every version of Kubernetes that hack/modules has, by minor version, such as 1.36.
var versions = sync.OnceValues(func() (map[string]*schemas, error) {
	folders, err := filepath.Glob(filepath.Join("..", "hack", "modules", "kubernetes*"))
	if err != nil {
		return nil, err
	}
	all := map[string]*schemas{}
	for _, folder := range folders {
		module, err := download(folder, "k8s.io/kubernetes")
		if err != nil {
			return nil, err
		}
		minor := strings.Join(strings.Split(strings.TrimPrefix(module.Version, "v"), ".")[:2], ".")
		all[minor] = &schemas{
			version: module.Version, dir: filepath.Join(module.Dir, "api", "openapi-spec", "v3"), compiled: map[schema.GroupVersionKind]*jsonschema.Schema{},
		}
	}
	return all, nil
})

type module struct{ Version, Dir string }

// download returns where the module cache has a module, in the version of a go.mod.
func download(folder, path string) (m module, err error) {
	cmd := exec.Command("go", "mod", "download", "-json", path)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &m)
	}
	if err != nil {
		return m, fmt.Errorf("download %s of %s: %w", path, folder, err)
	}
	return m, nil
}

// of returns the schema of a kind; nil if this version does not have it.
func (s *schemas) of(gvk schema.GroupVersionKind) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.compiled[gvk]; ok {
		return known, nil
	}
	file := filepath.Join(s.dir, "apis__"+gvk.Group+"__"+gvk.Version+"_openapi.json")
	if gvk.Group == "" {
		file = filepath.Join(s.dir, "api__"+gvk.Version+"_openapi.json")
	}
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	strict(document)
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("https://kubernetes/openapi.json", document); err != nil {
		return nil, err
	}
	definitions, _, _ := unstructured.NestedMap(document, "components", "schemas")
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		definition := definitions[name].(map[string]any)
		kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
		for _, kind := range kinds {
			kind := kind.(map[string]any)
			// Definitions of options belong to many groups.
			found := schema.GroupVersionKind{Group: fmt.Sprint(kind["group"]), Version: fmt.Sprint(kind["version"]), Kind: fmt.Sprint(kind["kind"])}
			if len(kinds) == 1 && found == gvk {
				s.compiled[gvk], err = compiler.Compile("https://kubernetes/openapi.json#/components/schemas/" + name)
				return s.compiled[gvk], err
			}
		}
	}
	return nil, nil
}

// strict makes every object schema of a document refuse fields that it does not have.
func strict(node any) {
	switch node := node.(type) {
	case map[string]any:
		_, fields := node["properties"].(map[string]any)
		if _, more := node["additionalProperties"]; fields && !more && node["x-kubernetes-preserve-unknown-fields"] != true {
			node["additionalProperties"] = false
		}
		for _, below := range node {
			strict(below)
		}
	case []any:
		for _, below := range node {
			strict(below)
		}
	}
}

// custom has the schemas of custom resources that the chart may create: cert-manager's from its definitions, and the Prometheus operator's
// from its Go types.
func custom(object *unstructured.Unstructured) error {
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	switch object.GetKind() {
	case monitoringv1.ServiceMonitorsKind:
		return yaml.UnmarshalStrict(text, &monitoringv1.ServiceMonitor{})
	case monitoringv1.PrometheusRuleKind:
		return yaml.UnmarshalStrict(text, &monitoringv1.PrometheusRule{})
	}
	definition, err := definitions()
	if err != nil {
		return err
	}
	if found := definition[object.GroupVersionKind()]; found != nil {
		return found.Validate(object.Object)
	}
	return fmt.Errorf("no schema of %s", object.GroupVersionKind())
}

// definitions returns the schemas of cert-manager's custom resources.
var definitions = sync.OnceValues(func() (map[schema.GroupVersionKind]*jsonschema.Schema, error) {
	module, err := download(filepath.Join("..", "hack", "modules", "cert-manager"), "github.com/cert-manager/cert-manager")
	if err != nil {
		return nil, err
	}
	all := map[schema.GroupVersionKind]*jsonschema.Schema{}
	for _, name := range []string{"cert-manager.io_certificates.yaml", "cert-manager.io_issuers.yaml"} {
		text, err := os.ReadFile(filepath.Join(module.Dir, "deploy", "crds", name))
		if err != nil {
			return nil, err
		}
		var definition map[string]any
		if err := yaml.Unmarshal(text, &definition); err != nil {
			return nil, err
		}
		group, _, _ := unstructured.NestedString(definition, "spec", "group")
		kind, _, _ := unstructured.NestedString(definition, "spec", "names", "kind")
		served, _, _ := unstructured.NestedSlice(definition, "spec", "versions")
		for _, version := range served {
			version := version.(map[string]any)
			document, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
			strict(document)
			// Its schema says of metadata only that it is an object.
			unstructured.RemoveNestedField(document, "properties", "metadata", "additionalProperties")
			compiler, url := jsonschema.NewCompiler(), "https://cert-manager/"+kind
			if err := compiler.AddResource(url, document); err != nil {
				return nil, err
			}
			if all[schema.GroupVersionKind{Group: group, Version: fmt.Sprint(version["name"]), Kind: kind}], err = compiler.Compile(url); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
})

// check does what validate does, once for an object that several forms have.
func (s *schemas) check(object *unstructured.Unstructured) error {
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	if _, known := s.valid.Load(string(text)); known {
		return nil
	}
	if err := s.validate(object); err != nil {
		return err
	}
	s.valid.Store(string(text), true)
	return nil
}

// validate returns what a version of Kubernetes, or the definition of a custom resource, finds wrong with an object.
func (s *schemas) validate(object *unstructured.Unstructured) error {
	gvk := object.GroupVersionKind()
	if strings.Contains(gvk.Group, ".") && !strings.HasSuffix(gvk.Group, ".k8s.io") {
		return custom(object)
	}
	found, err := s.of(gvk)
	if err != nil {
		return err
	}
	if found == nil {
		return fmt.Errorf("Kubernetes %s has no %s", s.version, gvk)
	}
	return found.Validate(object.Object)
}

// supported are the versions of Kubernetes that confrev supports.
var supported = []string{"1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"}

// versionsOf returns the supported versions whose API servers serve all that is in a form of the chart: MutatingAdmissionPolicy is v1 since
// 1.36.
func versionsOf(objects map[string]*unstructured.Unstructured) []string {
	for _, object := range objects {
		if strings.HasPrefix(object.GetKind(), "MutatingAdmissionPolicy") {
			return supported[len(supported)-1:]
		}
	}
	return supported
}

// Whatever the values, what the chart renders is what each supported version of Kubernetes takes, down to the last field.
func TestEveryFormIsValid(t *testing.T) {
	t.Parallel()
	all, err := versions()
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, supported) {
		t.Fatalf("hack/modules has the versions %s, want %s", got, supported)
	}
	var forms, checks atomic.Int64
	t.Cleanup(func() { t.Logf("%d forms, %d objects checked", forms.Load(), checks.Load()) })
	valid := func(t *testing.T, objects map[string]*unstructured.Unstructured) {
		t.Helper()
		forms.Add(1)
		for _, minor := range versionsOf(objects) {
			for id, object := range objects {
				checks.Add(1)
				if err := all[minor].check(object); err != nil {
					t.Errorf("%s on %s: %v", id, minor, err)
				}
			}
		}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, flags := range [][]string{nil, {policies}} {
				objects, err := renderFor(t, tt.values, flags...)
				if err != nil {
					t.Fatal(err)
				}
				valid(t, objects)
			}
		})
	}
	for _, base := range []string{"policies", "webhook"} {
		text, err := os.ReadFile(filepath.Join("..", "deploy", "kustomize", base, "confrev.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		t.Run("kustomize "+base, func(t *testing.T) { valid(t, decode(t, text)) })
	}
}

// What is wrong is found: a field that there is not, a value of another type, and a kind that came later.
func TestWrongFormsAreFound(t *testing.T) {
	t.Parallel()
	all, err := versions()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := renderFor(t, "{webhook: {certManager: {enabled: true}}, metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}}", policies)
	if err != nil {
		t.Fatal(err)
	}
	for id, path := range map[string][]string{
		"Deployment/confrev":                                {"spec", "template", "spec", "noSuchField"},
		"ClusterRole/confrev":                               {"noSuchField"},
		"Service/confrev":                                   {"spec", "noSuchField"},
		"Certificate/confrev-webhook":                       {"spec", "noSuchField"},
		"ServiceMonitor/confrev":                            {"spec", "noSuchField"},
		"PrometheusRule/confrev":                            {"spec", "noSuchField"},
		"ValidatingAdmissionPolicy/confrev-guard-revisions": {"spec", "matchConstraints", "noSuchField"},
	} {
		for minor, schemas := range all {
			object := objects[id].DeepCopy()
			if err := schemas.validate(object); err != nil {
				t.Errorf("%s on %s: %v", id, minor, err)
			}
			if err := unstructured.SetNestedField(object.Object, "x", path...); err != nil {
				t.Fatal(err)
			}
			if err := schemas.validate(object); err == nil || !strings.Contains(err.Error(), "noSuchField") {
				t.Errorf("%s with %s on %s: %v", id, path, minor, err)
			}
		}
	}
	wrong := objects["Deployment/confrev"].DeepCopy()
	if err := unstructured.SetNestedField(wrong.Object, "two", "spec", "replicas"); err != nil {
		t.Fatal(err)
	}
	if err := all["1.30"].validate(wrong); err == nil {
		t.Error("a number may be a text")
	}
	for minor, schemas := range all {
		if err := schemas.validate(objects["MutatingAdmissionPolicy/confrev-resolve-pins"]); (err == nil) != (minor == "1.36") {
			t.Errorf("MutatingAdmissionPolicy on %s: %v", minor, err)
		}
	}
}
