// Package examples tests the files of deploy/flux: Flux's own types read them, and its own evaluator runs their expressions.
package examples

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../../../deploy/flux/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// kustomization returns the example, of which Flux knows every field.
func kustomization(t *testing.T) kustomizev1.Kustomization {
	t.Helper()
	var k kustomizev1.Kustomization
	if err := yaml.UnmarshalStrict(read(t, "kustomization.yaml"), &k); err != nil || k.GroupVersionKind() != kustomizev1.GroupVersion.WithKind(kustomizev1.KustomizationKind) {
		t.Fatalf("%v, %+v", err, k.TypeMeta)
	}
	return k
}

// A ConfigMap or Secret whose change is stopped has failed, and any other is as Flux wants it.
func TestHealthCheckExpressions(t *testing.T) {
	k := kustomization(t)
	if !k.Spec.Wait || len(k.Spec.HealthCheckExprs) != 2 {
		t.Fatalf("it waits for nothing: %+v", k.Spec)
	}
	for i, kind := range []string{"ConfigMap", "Secret"} {
		check := k.Spec.HealthCheckExprs[i]
		if check.APIVersion != "v1" || check.Kind != kind {
			t.Errorf("check %d is about %s %s", i, check.APIVersion, check.Kind)
		}
		expressions := kustomize.HealthCheckExpressions{Current: check.Current, Failed: check.Failed, InProgress: check.InProgress}
		evaluator, err := cel.NewStatusEvaluator(&expressions)
		if err != nil {
			t.Fatal(err)
		}
		for name, tt := range map[string]struct {
			metadata map[string]any
			want     status.Status
		}{
			"without annotations":   {map[string]any{"name": "app"}, status.CurrentStatus},
			"with other ones":       {map[string]any{"name": "app", "annotations": map[string]any{"a": "b"}}, status.CurrentStatus},
			"with no annotation":    {map[string]any{"name": "app", "annotations": map[string]any{}}, status.CurrentStatus},
			"stopped":               {map[string]any{"name": "app", "annotations": map[string]any{"confrev.io/stop": "app-5f7d8c9b2k"}}, status.FailedStatus},
			"an empty stop is none": {map[string]any{"name": "app", "annotations": map[string]any{"confrev.io/stop": ""}}, status.CurrentStatus},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": tt.metadata, "data": map[string]any{"a": "b"}}}
				got, err := evaluator.Evaluate(t.Context(), obj)
				if err != nil || got.Status != tt.want {
					t.Errorf("it is %v, want %s: %v", got, tt.want, err)
				}
			})
		}
	}
}

// The page of the guide and the example say the same.
func TestTheGuideHasTheExpressions(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/guide/flux.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "deploy/flux/kustomization.yaml") || !strings.Contains(string(page), "deploy/flux/confrev.yaml") {
		t.Error("docs/guide/flux.md does not link to the examples")
	}
}

// Flux knows every field of the release, and the parts refer to each other.
func TestReleaseOfConfrev(t *testing.T) {
	parts := bytes.Split(read(t, "confrev.yaml"), []byte("\n---\n"))
	if len(parts) != 3 {
		t.Fatalf("%d objects", len(parts))
	}
	var namespace corev1.Namespace
	var repository sourcev1.OCIRepository
	var release helmv2.HelmRelease
	for i, into := range []schema.ObjectKind{&namespace.TypeMeta, &repository.TypeMeta, &release.TypeMeta} {
		if err := yaml.UnmarshalStrict(parts[i], []any{&namespace, &repository, &release}[i]); err != nil {
			t.Fatal(err)
		}
		want := []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Namespace"), sourcev1.GroupVersion.WithKind("OCIRepository"), helmv2.GroupVersion.WithKind("HelmRelease")}[i]
		if got := into.GroupVersionKind(); got != want {
			t.Errorf("object %d is %s, want %s", i, got, want)
		}
	}
	ref := release.Spec.ChartRef
	if ref == nil || ref.Kind != repository.Kind || ref.Name != repository.Name || release.Namespace != repository.Namespace || release.Spec.TargetNamespace != namespace.Name ||
		release.Spec.StorageNamespace != namespace.Name || !strings.HasPrefix(repository.Spec.URL, "oci://") {
		t.Errorf("the parts do not refer to each other: %+v", release.Spec)
	}
}
