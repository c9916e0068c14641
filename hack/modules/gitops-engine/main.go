// Command gitops-engine does to a cluster what Argo CD does, with Argo CD's own engine, tracking and normalisation, so that
// confrev is tested against what Argo CD really reports and changes. It reads the manifests of an application from standard
// input, finds the cluster by KUBECONFIG, and prints a line of JSON for each object.
//
//	diff  as appStateManager.CompareAppState of Argo CD's controller: sync.Reconcile, argodiff.StateDiffs
//	sync  as appStateManager.SyncAppState: sync.NewSyncContext
//
// Its exit status is 0, 1 if diff found an object out of sync, or 2 after an error.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	clustercache "github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/v3/common"
	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/argo"
	argokube "github.com/argoproj/argo-cd/v3/util/kube"
	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"github.com/wI2L/jsondiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// line is what is printed about one object.
type line struct {
	Object string `json:"object"` // group/Kind/namespace/name, as Argo CD writes it
	// Status is Argo CD's word: of diff, Synced or OutOfSync; of sync, Synced, SyncFailed, Pruned or PruneSkipped.
	Status string `json:"status"`
	// Message is that of sync. Of diff, it tells of an object that is missing, or requires pruning.
	Message string `json:"message,omitempty"`
	// Patch is the JSON patch that takes the live object to what Argo CD wants, both as Argo CD compares them.
	Patch jsondiff.Patch `json:"patch,omitempty"`
}

// options are those settings of an Application and of the installation that affect what is compared and applied.
type options struct {
	name, namespace, tracking string
	serverSideApply           bool // syncOptions: [ServerSideApply=true]
	serverSideDiff            bool // the annotation argocd.argoproj.io/compare-options: ServerSideDiff=true
	includeWebhooks           bool // … IncludeMutationWebhook=true
	ignoreDifferences         []v1alpha1.ResourceIgnoreDifferences
	prune                     bool
	times                     int
}

// application is an Argo CD Application together with its cluster.
type application struct {
	options
	config   *rest.Config
	kubectl  kube.Kubectl
	cache    clustercache.ClusterCache
	tracker  argo.ResourceTracking
	override map[string]v1alpha1.ResourceOverride
	targets  []*unstructured.Unstructured
}

func main() {
	logrus.SetOutput(io.Discard)
	lines, drifted, err := run(os.Args[1:], os.Stdin)
	// What is there and not in the manifests comes in any order.
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.Object, b.Object) })
	out := json.NewEncoder(os.Stdout)
	for _, l := range lines {
		err = errors.Join(err, out.Encode(l))
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "gitops-engine:", err)
		os.Exit(2)
	case drifted:
		os.Exit(1)
	}
}

func run(args []string, in io.Reader) (lines []line, drifted bool, err error) {
	if len(args) == 0 || (args[0] != "diff" && args[0] != "sync") {
		return nil, false, errors.New("want diff or sync")
	}
	var o options
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.StringVar(&o.name, "name", "app", "name of the Application")
	flags.StringVar(&o.namespace, "namespace", "default", "namespace of its destination; its objects are there, or in none")
	flags.StringVar(&o.tracking, "tracking", string(v1alpha1.TrackingMethodAnnotation), "annotation, label or annotation+label")
	flags.BoolVar(&o.serverSideApply, "server-side", false, "the sync option ServerSideApply=true")
	flags.BoolVar(&o.serverSideDiff, "server-side-diff", false, "the compare option ServerSideDiff=true")
	flags.BoolVar(&o.includeWebhooks, "include-mutation-webhook", false, "the compare option IncludeMutationWebhook=true")
	flags.Func("ignore-differences", "spec.ignoreDifferences, as JSON", func(text string) error {
		return json.Unmarshal([]byte(text), &o.ignoreDifferences)
	})
	flags.BoolVar(&o.prune, "prune", false, "sync deletes objects that are tracked and no longer in the manifests")
	flags.IntVar(&o.times, "times", 1, "how often to sync, as self-heal does, with one cache")
	if err := flags.Parse(args[1:]); err != nil {
		return nil, false, err
	}
	app, err := newApplication(o)
	if err != nil {
		return nil, false, err
	}
	if err := app.read(in); err != nil {
		return nil, false, err
	}
	if args[0] == "diff" {
		return app.diff()
	}
	for range o.times {
		if lines, err = app.sync(); err != nil {
			break
		}
	}
	return lines, false, err
}

func newApplication(o options) (*application, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	// By itself, it gives up when the OpenAPI document takes longer than 32 seconds, as it may on a busy machine.
	config.Timeout = 5 * time.Minute
	a := &application{
		options: o, config: config, kubectl: argokube.NewKubectl(), tracker: argo.NewResourceTracking(),
		// The default of resource.compareoptions, ignoreResourceStatusField: all.
		override: map[string]v1alpha1.ResourceOverride{
			"*/*": {IgnoreDifferences: v1alpha1.OverrideIgnoreDiff{JSONPointers: []string{"/status"}}},
		},
	}
	a.cache = clustercache.NewClusterCache(config, clustercache.SetKubectl(a.kubectl), clustercache.SetLogr(logr.Discard()),
		clustercache.SetNamespaces([]string{o.namespace}), clustercache.SetClusterResources(true),
		clustercache.SetPopulateResourceInfoHandler(a.info),
		clustercache.SetSettings(clustercache.Settings{ResourceHealthOverride: clustercache.NewNoopSettings(), ResourcesFilter: exclusions{}}))
	return a, a.cache.EnsureSynced()
}

// exclusions are Argo CD's setting resource.exclusions. The definitions of custom resources are megabytes, which each run would read, and
// nothing here has one among its manifests.
type exclusions struct{}

// IsExcludedResource implements kube.ResourceFilter.
func (exclusions) IsExcludedResource(group, kind, _ string) bool {
	return group == "apiextensions.k8s.io" && kind == "CustomResourceDefinition"
}

// info notes which application an object belongs to. Only tracked objects are kept as a whole.
func (a *application) info(u *unstructured.Unstructured, isRoot bool) (info any, keep bool) {
	name := a.tracker.GetAppName(u, common.LabelKeyAppInstance, v1alpha1.TrackingMethod(a.tracking), "")
	if !isRoot {
		name = ""
	}
	return name, name != "" || kube.IsCRD(u)
}

// read reads the manifests, and makes each object tracked.
func (a *application) read(in io.Reader) error {
	manifests, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if a.targets, err = kube.SplitYAML(manifests); err != nil {
		return fmt.Errorf("read manifests: %w", err)
	}
	for _, target := range a.targets {
		namespaced := kube.IsNamespacedOrUnknown(a.cache, target.GroupVersionKind().GroupKind())
		if namespaced && target.GetNamespace() == "" {
			target.SetNamespace(a.namespace)
		}
		if kube.IsCRD(target) {
			continue // as in the repo server, which tracks none
		}
		err := a.tracker.SetAppInstance(target, common.LabelKeyAppInstance, a.name, a.namespace, v1alpha1.TrackingMethod(a.tracking), "")
		if err != nil {
			return err
		}
	}
	return nil
}

// observe pairs what the manifests want with what is there: also what is tracked and no longer wanted.
func (a *application) observe() (sync.ReconciliationResult, error) {
	live, err := a.cache.GetManagedLiveObjs(a.targets, func(r *clustercache.Resource) bool { return r.Info == a.name })
	if err != nil {
		return sync.ReconciliationResult{}, err
	}
	return sync.Reconcile(a.targets, live, a.namespace, a.cache), nil
}

// isSelfReferenced returns false for an object that only has a copy of another's tracking annotation.
func (a *application) isSelfReferenced(live, target *unstructured.Unstructured) bool {
	if live == nil || a.tracking == string(v1alpha1.TrackingMethodLabel) {
		return true
	}
	want := a.tracker.GetAppInstance(live, v1alpha1.TrackingMethod(a.tracking), "")
	if target != nil {
		value := argo.UnstructuredToAppInstanceValue(target, a.name, "")
		want = &value
	}
	if want == nil {
		return true
	}
	gvk := live.GroupVersionKind()
	return (live.GetNamespace() == want.Namespace || live.GetNamespace() == "") && live.GetName() == want.Name &&
		gvk.Group == want.Group && gvk.Kind == want.Kind
}
