package controller

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// engine carries the workloads of one kind through a rollout.
type engine struct {
	kind    workload.Kind
	kinds   *workload.Kinds
	options rolloutOptions
	client  client.Client
	live    client.Reader
	// whole reads holders with their templates, of which the cache keeps only facts: the API server, or for the plugin its snapshot, so
	// that the right to list is enough there.
	whole    client.Reader
	store    *revision.Store
	triggers *triggers
	accounts *accounts
	now      func() time.Time
}
