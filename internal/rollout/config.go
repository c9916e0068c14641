// Package rollout is the use case: observe a workload, decide, prepare the revisions, and write one patch. The reconciler, the webhook and the
// plugin call the same functions. It depends on a reader, a store and a clock. It must not import what runs a loop, serves a request,
// records events or prints: reconcile, webhook, gate, operator, view, plugin.
package rollout

import (
	"cmp"
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/account"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/trigger"
	"confrev.io/confrev/internal/workload"
)

// Engine observes, decides and writes for the workloads of one kind.
type Engine struct {
	Kind    workload.Kind
	Kinds   *workload.Kinds
	Options Options
	Client  client.Client
	Live    client.Reader
	// Whole reads holders with their templates, of which the cache keeps only facts. It is the API server or, for the plugin, its
	// snapshot, so that the right to list is enough there.
	Whole    client.Reader
	Store    *revision.Store
	Triggers *trigger.Reader
	Accounts *account.Accounts
	// Others is nil where a change reaches all workloads at once.
	Others Others
	Now    func() time.Time
}

// Options are those options of the controller that a rollout depends on.
type Options struct {
	// Settle is how long a workload's sources must be quiet before it advances (rule 2).
	Settle time.Duration
	// Secrets makes confrev handle Secrets too. Without it, it needs no right on them.
	Secrets bool
	// Injection is where pins are applied, unless a workload overrides it.
	Injection optin.Injection
	// Compat selects the tools whose annotations also opt workloads in.
	Compat optin.Compat
	// Stages are the namespaces that come one after the other (rule 44).
	Stages optin.Stages
	// Safety is how changes spread for which nothing else is said (rule 36).
	Safety spread.Settings
	// Rotating lists further classes of sources whose policy is rotate by default.
	Rotating optin.Rotating
	// RestartOn lists the resources that confrev.io/restart-on may name, other than ConfigMaps and Secrets. RestartOnAny allows all of
	// them, for users of the plugin, who look with their own rights, if the controller's list is not known.
	RestartOn    []schema.GroupResource
	RestartOnAny bool
	// Namespace is confrev's own namespace, in which it handles no workloads.
	Namespace string
	// WatchNamespaces are the namespaces to which confrev is limited. If there are none, it handles all.
	WatchNamespaces []string
}

// Namespaced reports whether confrev is limited to single namespaces. Then it reads nothing that is in no namespace, not even the
// namespaces themselves (rule 23).
func (o Options) Namespaced() bool { return len(o.WatchNamespaces) > 0 }

// SourceKinds returns the kinds of sources that are enabled.
func (o Options) SourceKinds() []pin.Kind {
	if o.Secrets {
		return pin.Kinds
	}
	return []pin.Kind{pin.ConfigMap}
}

// Enabled reports whether sources of a kind are read at all.
func (o Options) Enabled(kind pin.Kind) bool { return slices.Contains(o.SourceKinds(), kind) }

// Triggers returns the limits of what workloads may restart on.
func (o Options) Triggers() trigger.Limits {
	return trigger.Limits{Listed: o.RestartOn, Any: o.RestartOnAny, Namespaced: o.Namespaced(), Within: o.Within()}
}

// Within returns the namespace to which the loops with these options are limited; empty if they work in all. Where there are several, each
// has loops of its own.
func (o Options) Within() string {
	if o.Namespaced() {
		return o.WatchNamespaces[0]
	}
	return ""
}

// Excluded reports whether confrev ignores a namespace (rules 18 and 23).
func (o Options) Excluded(namespace string) bool {
	if o.Namespaced() {
		// Without policies and webhooks, confrev cannot block itself, so it may watch its own namespace.
		return namespace == metav1.NamespaceSystem || !slices.Contains(o.WatchNamespaces, namespace)
	}
	return namespace == metav1.NamespaceSystem || namespace == o.Namespace
}

// Config returns a workload's configuration, its own and that of its namespace, and the workloads that refer to it.
func Config(ctx context.Context, reader client.Reader, kinds *workload.Kinds, o Options, kind workload.Kind, obj client.Object,
) (asked optin.Config, referring []client.Object, err error) {
	if referring, err = index.Referring(ctx, reader, kinds, kind, obj); err != nil {
		return optin.Config{}, nil, err
	}
	namespace := index.Namespace()
	if !o.Namespaced() {
		err = reader.Get(ctx, client.ObjectKey{Name: obj.GetNamespace()}, namespace)
	}
	if client.IgnoreNotFound(err) != nil {
		return optin.Config{}, nil, err
	}
	return kind.Config(obj, namespace, o.Defaults()), referring, nil
}

// LeftAlone reports whether confrev does nothing in a namespace, because it is excluded, or because it is being deleted or gone, so that the
// API server refuses revisions and events in it. The cache may show a namespace later than what is in it, so live is asked about one that it
// does not show.
func (o Options) LeftAlone(ctx context.Context, cached, live client.Reader, name string) (bool, error) {
	if o.Excluded(name) {
		return true, nil
	}
	if o.Namespaced() {
		return false, nil
	}
	err := cached.Get(ctx, client.ObjectKey{Name: name}, index.Namespace())
	if apierrors.IsNotFound(err) {
		cached = live
	} else if err != nil {
		return false, err
	}
	return o.Terminating(ctx, cached, name)
}

// Terminating reports whether a namespace is being deleted, or gone. If confrev is limited to single namespaces, it cannot know.
func (o Options) Terminating(ctx context.Context, reader client.Reader, name string) (bool, error) {
	if o.Namespaced() {
		return false, nil
	}
	namespace := index.Namespace()
	err := reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && namespace.DeletionTimestamp != nil, err
}

// Defaults returns the settings of workloads that specify no others.
func (o Options) Defaults() optin.Defaults {
	return optin.Defaults{Settle: o.Settle, Injection: o.Injection, Compat: o.Compat, Stages: o.Stages, Safety: o.Safety}
}

// notes are what confrev wrote on a template and its workload before, as text.
type notes struct{ pins, templateHashes, workloadHashes, held, heldHashes, advanced string }

// readNotes reads what confrev wrote before. A request that takes some of it away altogether, as kubectl replace does, does not mean to: then
// what the old object has counts. What is malformed counts as none; the holders show a hold too.
func (r *Engine) readNotes(obj client.Object, seen *observed) {
	template, annotations := seen.template.Annotations, obj.GetAnnotations()
	oldTemplate, oldAnnotations := map[string]string{}, map[string]string{}
	if seen.old != nil {
		oldAnnotations = seen.old.GetAnnotations()
		if before, err := r.Kind.Template(seen.old); err == nil {
			oldTemplate = before.Annotations
		}
		seen.before, _ = pin.Parse(oldTemplate[keys.Pins])
		seen.earlier = []pin.Set{seen.before}
	}
	kept := func(now, before map[string]string, key string) string { return cmp.Or(now[key], before[key]) }
	seen.notes = notes{
		pins: kept(template, oldTemplate, keys.Pins), templateHashes: kept(template, oldTemplate, keys.Hashes),
		workloadHashes: kept(annotations, oldAnnotations, keys.Hashes), held: kept(annotations, oldAnnotations, keys.Held),
		heldHashes: kept(annotations, oldAnnotations, keys.HeldHashes), advanced: kept(annotations, oldAnnotations, keys.Advanced),
	}
	seen.request, _ = pin.Parse(template[keys.Pins])
	seen.pins.Pins, _ = pin.Parse(seen.notes.pins)
	seen.pins.Held, _ = pin.ParseNotes(seen.notes.held)
	seen.pins.Before = seen.before
	if seen.hashes.Pins, _ = pin.ParseHashes(seen.notes.templateHashes); seen.hashes.Pins == nil {
		seen.hashes.Pins = pin.Set{}
	}
	seen.hashes.Held, _ = pin.ParseNotes(seen.notes.heldHashes)
	seen.workloadHashes, _ = pin.ParseHashes(seen.notes.workloadHashes)
}
