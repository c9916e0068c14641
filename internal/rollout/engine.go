// Package rollout is the use case: observe a workload, decide, prepare the revisions, and write one patch. The reconciler, the webhook and the
// plugin call the same functions. It depends on a reader, a store and a clock. It must not import what runs a loop, serves a request,
// records events or prints: reconcile, webhook, gate, operator, view, plugin.
package rollout

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/account"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// Engine observes, decides and writes for the workloads of one kind.
type Engine struct {
	Kind    workload.Kind
	Kinds   *workload.Kinds
	Options Options
	Client  client.Client
	Live    client.Reader
	// whole reads holders with their templates, of which the cache keeps only facts. It is the API server or, for the plugin, its
	// snapshot, so that the right to list is enough there.
	Whole    client.Reader
	Store    *revision.Store
	Triggers *Triggers
	Accounts *account.Accounts
	Now      func() time.Time
}
