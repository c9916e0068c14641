package main

import (
	"context"
	"fmt"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	synccommon "github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/v3/common"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
)

// patience limits a sync whose waves do not become healthy.
const patience = 2 * time.Minute

// operation is the state of a sync, which Argo CD keeps in the status of the Application.
type operation struct {
	started metav1.Time
	phase   synccommon.OperationPhase
	message string
	results []synccommon.ResourceSyncResult
}

// sync makes the cluster what the manifests want, wave by wave: it continues whenever what it waits for may have come about.
func (a *application) sync() ([]line, error) {
	o := operation{started: metav1.Now(), phase: synccommon.OperationRunning}
	err := wait.PollUntilContextTimeout(context.Background(), 200*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		err := a.goOn(&o)
		return o.phase.Completed(), err
	})
	if wait.Interrupted(err) || err == nil && !o.phase.Successful() {
		err = fmt.Errorf("%s: %s", o.phase, o.message)
	}
	lines := make([]line, 0, len(o.results))
	for _, r := range o.results {
		lines = append(lines, line{Object: r.ResourceKey.String(), Status: string(r.Status), Message: r.Message})
	}
	return lines, err
}

// goOn does what is to be done now.
func (a *application) goOn(o *operation) error {
	state, err := a.observe()
	if err != nil {
		return err
	}
	propagation := metav1.DeletePropagationForeground
	syncContext, cleanup, err := sync.NewSyncContext("", state, a.config, a.config, a.kubectl, a.namespace,
		sync.WithLogr(logr.Discard()),
		sync.WithHealthOverride(lua.ResourceHealthOverrides(a.override)),
		sync.WithOperationSettings(false, a.prune, false, false),
		sync.WithInitialState(o.phase, o.message, o.results, o.started),
		sync.WithResourcesFilter(func(_ kube.ResourceKey, target, live *unstructured.Unstructured) bool {
			return a.isSelfReferenced(live, target)
		}),
		sync.WithPrunePropagationPolicy(&propagation),
		sync.WithServerSideApply(a.serverSideApply),
		sync.WithServerSideApplyManager(common.ArgoCDSSAManager),
	)
	if err != nil {
		return err
	}
	defer cleanup()
	syncContext.Sync()
	o.phase, o.message, o.results = syncContext.GetState()
	return nil
}
