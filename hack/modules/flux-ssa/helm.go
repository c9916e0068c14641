package main

import (
	"context"

	ssajsondiff "github.com/fluxcd/pkg/ssa/jsondiff"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// helmDiff does helm-controller's drift detection. The manifests are those of the release: 'helm get manifest'.
func (f flux) helmDiff(ctx context.Context, objects []*unstructured.Unstructured) (drifted bool, err error) {
	if err := normalize.UnstructuredListWithScheme(objects, f.client.Scheme()); err != nil {
		return false, err
	}
	// Helm sets these when it installs; they are not in the manifest.
	utils.SetCommonMetadata(objects, map[string]string{"app.kubernetes.io/managed-by": "Helm"}, map[string]string{
		"meta.helm.sh/release-name": f.name, "meta.helm.sh/release-namespace": f.namespace,
	})
	manager := "helm-controller"
	if f.fieldManager != "" {
		manager = f.fieldManager
	}
	set, err := ssajsondiff.UnstructuredList(ctx, f.client, objects, ssajsondiff.FieldOwner(manager),
		ssajsondiff.ExclusionSelector{"helm.toolkit.fluxcd.io/driftDetection": "disabled"},
		ssajsondiff.Rationalize(true), ssajsondiff.Graceful(true))
	if err != nil {
		return false, err
	}
	actions := map[ssajsondiff.DiffType]string{
		ssajsondiff.DiffTypeNone: "unchanged", ssajsondiff.DiffTypeExclude: "skipped",
		ssajsondiff.DiffTypeCreate: "created", ssajsondiff.DiffTypeUpdate: "drifted",
	}
	for _, d := range set {
		object := utils.FmtUnstructured(d.DesiredObject.(*unstructured.Unstructured))
		if err := f.out.Encode(line{Object: object, Action: actions[d.Type], Patch: d.Patch}); err != nil {
			return false, err
		}
	}
	return set.HasChanges(), nil
}
