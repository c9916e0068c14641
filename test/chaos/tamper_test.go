//go:build chaos

package chaos

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

// revisions lists the revisions of a source that have owners, and so are in use (rule 17).
func (p *play) revisions(of ref) ([]unstructured.Unstructured, error) {
	list := listOf(of.kind())
	if err := p.client.List(p.Ctx, list, client.InNamespace(p.NS)); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(obj unstructured.Unstructured) bool {
		return !isRevision(&obj) || obj.GetAnnotations()[keys.SourceName] != of.name() || len(obj.GetOwnerReferences()) == 0 || obj.GetName() == forged.name()
	}), nil
}

// refused notes a fault unless the guards refused something, or it came too late.
func (p *play) refused(what string, err error) {
	switch {
	case err == nil:
		p.faults = append(p.faults, fmt.Sprintf("the guards let a cluster admin %s", what))
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		p.note("too late: %v", err)
	case !strings.Contains(err.Error(), "confrev-guard"):
		p.faults = append(p.faults, fmt.Sprintf("%s: not refused by the guards, but: %v", what, err))
	default:
		p.note("refused")
	}
}

// tamper tries to change what confrev wrote on a revision.
func tamper(p *play, s step) error {
	all, err := p.revisions(s.on)
	if err != nil || len(all) == 0 {
		return err
	}
	var patch map[string]any
	switch s.value {
	case "label":
		patch = nested(nil, "metadata", "labels", keys.Content)
	case "number":
		patch = nested("99", "metadata", "annotations", keys.Number)
	case "owners":
		patch = nested([]any{}, "metadata", "ownerReferences")
	case "finalizer":
		patch = nested([]any{"example.com/keep"}, "metadata", "finalizers")
	}
	obj := &all[0]
	// It may change at any time, and have no owners left to take.
	meta := patch["metadata"].(map[string]any)
	meta["uid"], meta["resourceVersion"] = obj.GetUID(), obj.GetResourceVersion()
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	p.line("kubectl patch %s %s --type=merge -p '%s'", s.on.kind(), obj.GetName(), text)
	p.refused(fmt.Sprintf("change the %s of %s", s.value, obj.GetName()), p.client.Patch(p.Ctx, obj, client.RawPatch(types.MergePatchType, text)))
	return nil
}

// deleteRevision tries to delete a revision that is in use.
func deleteRevision(p *play, s step) error {
	all, err := p.revisions(s.on)
	if err != nil || len(all) == 0 {
		return err
	}
	obj := &all[len(all)-1]
	p.line("kubectl delete %s %s", s.on.kind(), obj.GetName())
	// It may lose its last owner at any time, and no longer be in use.
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	err = p.client.Delete(p.Ctx, obj, client.Preconditions(metav1.Preconditions{UID: &uid, ResourceVersion: &version}))
	p.refused(fmt.Sprintf("delete %s, which has the owners %v,", obj.GetName(), obj.GetOwnerReferences()), err)
	return nil
}

// forge makes another object that has the form of a revision and is none. It is a bystander from then on.
func forge(p *play, _ step) error {
	r := ref(fmt.Sprintf("configmap/one-%s", strings.Repeat(string("bcdfghjklm"[p.now%10]), 10)))
	if p.exists[r] || r == forged {
		p.note("there is one already")
		return nil
	}
	return p.create(forgery(r))
}
