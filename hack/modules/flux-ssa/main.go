// Command flux-ssa does to a cluster what Flux does, with Flux's own engine, so that confrev is tested against what Flux really
// reports and changes. It reads manifests from standard input, finds the cluster by KUBECONFIG, and prints a line of JSON for
// each object.
//
//	diff       as 'flux diff kustomization': ResourceManager.Diff, with the same dry run by which apply decides
//	apply      as KustomizationReconciler.apply and .prune of kustomize-controller: ResourceManager.ApplyAllStaged, DeleteAll
//	helm-diff  as action.Diff of helm-controller, on the manifest of a release: jsondiff.UnstructuredList
//
// Its exit status is 0, 1 if diff or helm-diff found drift, or 2 after an error.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	"github.com/go-logr/logr"
	"github.com/wI2L/jsondiff"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

const (
	// group is that of Flux's Kustomization, the prefix of its labels.
	group = "kustomize.toolkit.fluxcd.io"

	kustomizeController = "kustomize-controller"
)

// line is what is printed about one object.
type line struct {
	Object string `json:"object"` // Kind/namespace/name
	// Action is Flux's word: unchanged, created, configured, drifted (by diff: configured), deleted, skipped.
	Action string `json:"action"`
	// Patch is the JSON patch that takes the live object to what Flux wants.
	Patch jsondiff.Patch `json:"patch,omitempty"`
}

// flux is what all verbs need.
type flux struct {
	options
	client  client.Client
	manager *ssa.ResourceManager
	out     *json.Encoder
}

type options struct {
	name, namespace, fieldManager, inventory string
}

func main() {
	drifted, err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "flux-ssa:", err)
		os.Exit(2)
	case drifted:
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) (drifted bool, err error) {
	if len(args) == 0 {
		return false, errors.New("want diff, apply or helm-diff")
	}
	var o options
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.name, "name", "app", "name of the Kustomization, or of the Helm release")
	flags.StringVar(&o.namespace, "namespace", "default", "its namespace, and that of objects without one")
	flags.StringVar(&o.fieldManager, "field-manager", "", "field manager (default: that of Flux's controller)")
	flags.StringVar(&o.inventory, "inventory", "", "file that remembers what was applied; apply prunes what is no longer in the manifests")
	if err := flags.Parse(args[1:]); err != nil {
		return false, err
	}
	verb, ok := map[string]func(flux, context.Context, []*unstructured.Unstructured) (bool, error){
		"diff": flux.diff, "apply": flux.apply, "helm-diff": flux.helmDiff,
	}[args[0]]
	if !ok {
		return false, fmt.Errorf("unknown command %q: want diff, apply or helm-diff", args[0])
	}
	f, err := newFlux(o, json.NewEncoder(out))
	if err != nil {
		return false, err
	}
	objects, err := f.read(in)
	if err != nil {
		return false, err
	}
	return verb(f, ctx, objects)
}

func newFlux(o options, out *json.Encoder) (flux, error) {
	ctrl.SetLogger(logr.Discard())
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return flux{}, err
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		return flux{}, err
	}
	owner := ssa.Owner{Field: kustomizeController, Group: group}
	if o.fieldManager != "" {
		owner.Field = o.fieldManager
	}
	poller := polling.NewStatusPoller(c, c.RESTMapper(), polling.Options{})
	return flux{options: o, client: c, manager: ssa.NewResourceManager(c, poller, owner), out: out}, nil
}

// read reads manifests, and sets the namespace of those that need one.
func (f flux) read(in io.Reader) ([]*unstructured.Unstructured, error) {
	objects, err := utils.ReadObjects(in)
	if err != nil {
		return nil, fmt.Errorf("read manifests: %w", err)
	}
	for _, object := range objects {
		if object.GetNamespace() != "" {
			continue
		}
		namespaced, err := apiutil.IsObjectNamespaced(object, f.client.Scheme(), f.client.RESTMapper())
		if err != nil {
			return nil, err
		}
		if namespaced {
			object.SetNamespace(f.namespace)
		}
	}
	return objects, nil
}

// own does what kustomize-controller does to manifests before it compares or applies them.
func (f flux) own(objects []*unstructured.Unstructured) error {
	f.manager.SetOwnerLabels(objects, f.name, f.namespace)
	return normalize.UnstructuredList(objects)
}

func (f flux) diff(ctx context.Context, objects []*unstructured.Unstructured) (drifted bool, err error) {
	if err := f.own(objects); err != nil {
		return false, err
	}
	for _, object := range objects {
		change, live, merged, err := f.manager.Diff(ctx, object, ssa.DiffOptions{
			Exclusions:           map[string]string{group + "/reconcile": "disabled", group + "/ssa": "Ignore"},
			IfNotPresentSelector: map[string]string{group + "/ssa": "IfNotPresent"},
		})
		if err != nil {
			return false, err
		}
		l := line{Object: change.Subject, Action: change.Action.String()}
		if change.Action == ssa.ConfiguredAction {
			l.Action = "drifted"
			// It follows from the rest, and is none of the reasons.
			live.SetGeneration(merged.GetGeneration())
			if l.Patch, err = jsondiff.Compare(live.Object, merged.Object); err != nil {
				return false, err
			}
		}
		drifted = drifted || change.Action == ssa.ConfiguredAction || change.Action == ssa.CreatedAction
		if err := f.out.Encode(l); err != nil {
			return false, err
		}
	}
	return drifted, nil
}

func (f flux) apply(ctx context.Context, objects []*unstructured.Unstructured) (drifted bool, err error) {
	if err := f.own(objects); err != nil {
		return false, err
	}
	changes, err := f.manager.ApplyAllStaged(ctx, objects, applyOptions())
	if err != nil {
		return false, err
	}
	if f.inventory != "" {
		deleted, err := f.prune(ctx, changes)
		if err != nil {
			return false, err
		}
		changes.Append(deleted.Entries)
	}
	for _, change := range changes.Entries {
		if err := f.out.Encode(line{Object: change.Subject, Action: change.Action.String()}); err != nil {
			return false, err
		}
	}
	return false, nil
}

// applyOptions returns those of KustomizationReconciler.apply, of a Kustomization that sets nothing.
func applyOptions() ssa.ApplyOptions {
	o := ssa.DefaultApplyOptions()
	o.ExclusionSelector = map[string]string{group + "/reconcile": "disabled", group + "/ssa": "Ignore"}
	o.IfNotPresentSelector = map[string]string{group + "/ssa": "IfNotPresent"}
	o.ForceSelector = map[string]string{group + "/force": "enabled"}
	o.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation, group + "/checksum", "fluxcd.io/sync-checksum"},
		Labels:      []string{"fluxcd.io/sync-gc-mark"},
		// Of fields that these set and the manifest does not name, Flux becomes the owner, and so removes them.
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: kustomizeController, OperationType: metav1.ManagedFieldsOperationUpdate},
		},
		Exclusions: map[string]string{group + "/ssa": "Merge"},
	}
	return o
}
