package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/fluxcd/cli-utils/pkg/object"
	"github.com/fluxcd/pkg/ssa"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// inventory has what was applied, by Flux's identifiers, with the version of the kind. Flux keeps it in the status of the
// Kustomization.
type inventory map[string]string

func readInventory(path string) (inventory, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found inventory
	if err := json.Unmarshal(content, &found); err != nil {
		return nil, fmt.Errorf("inventory %s: %w", path, err)
	}
	return found, nil
}

// prune deletes what was applied before and is not now, and remembers what is.
func (f flux) prune(ctx context.Context, applied *ssa.ChangeSet) (*ssa.ChangeSet, error) {
	before, err := readInventory(f.inventory)
	if err != nil {
		return nil, err
	}
	now := inventory{}
	for _, entry := range applied.Entries {
		now[entry.ObjMetadata.String()] = entry.GroupVersion
	}
	var stale []*unstructured.Unstructured
	for id, version := range before {
		if _, ok := now[id]; ok {
			continue
		}
		metadata, err := object.ParseObjMetadata(id)
		if err != nil {
			return nil, fmt.Errorf("inventory %s: %w", f.inventory, err)
		}
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(metadata.GroupKind.WithVersion(version))
		u.SetNamespace(metadata.Namespace)
		u.SetName(metadata.Name)
		stale = append(stale, u)
	}
	deleted, err := f.manager.DeleteAll(ctx, stale, ssa.DeleteOptions{
		PropagationPolicy: metav1.DeletePropagationBackground,
		Inclusions:        f.manager.GetOwnerLabels(f.name, f.namespace),
		Exclusions: map[string]string{
			group + "/prune": "disabled", group + "/reconcile": "disabled", group + "/ssa": "Ignore",
		},
	})
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(now)
	if err != nil {
		return nil, err
	}
	return deleted, os.WriteFile(f.inventory, content, 0o600)
}
