package main

import (
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/v3/common"
	argodiff "github.com/argoproj/argo-cd/v3/util/argo/diff"
	"github.com/argoproj/argo-cd/v3/util/argo/normalizers"
	argokube "github.com/argoproj/argo-cd/v3/util/kube"
	"github.com/wI2L/jsondiff"
)

// diff compares as Argo CD does: on the server if asked to, else as structured merge if it syncs by server-side apply, else
// in three ways by the annotation of client-side apply.
func (a *application) diff() (lines []line, drifted bool, err error) {
	state, err := a.observe()
	if err != nil {
		return nil, false, err
	}
	builder := argodiff.NewDiffConfigBuilder().
		WithDiffSettings(a.ignoreDifferences, a.override, false, normalizers.IgnoreNormalizerOpts{}).
		WithTracking(common.LabelKeyAppInstance, a.tracking).WithNoCache().
		WithGVKParser(a.cache.GetGVKParser()).WithManager(common.ArgoCDSSAManager).
		WithServerSideDiff(a.serverSideDiff).WithIgnoreMutationWebhook(!a.includeWebhooks).WithStructuredMergeDiff(a.serverSideApply)
	if a.serverSideDiff {
		applier, cleanup, err := argokube.ManageServerSideDiffDryRuns(a.config, func(string) (kube.CleanupFunc, error) {
			return func() {}, nil
		})
		if err != nil {
			return nil, false, err
		}
		defer cleanup()
		builder.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(applier))
	}
	config, err := builder.Build()
	if err != nil {
		return nil, false, err
	}
	results, err := argodiff.StateDiffs(state.Live, state.Target, config)
	if err != nil {
		return nil, false, err
	}
	for i, result := range results.Diffs {
		live, target := state.Live[i], state.Target[i]
		if !a.isSelfReferenced(live, target) {
			continue
		}
		object := live
		if object == nil {
			object = target
		}
		key := kube.GetResourceKey(object)
		l := line{Object: key.String(), Status: "OutOfSync"}
		switch {
		case live == nil:
			l.Message = "missing"
		case target == nil:
			l.Message = "requires pruning"
		case result.Modified:
			if l.Patch, err = jsondiff.CompareJSON(result.NormalizedLive, result.PredictedLive); err != nil {
				return nil, false, err
			}
		default:
			l.Status = "Synced"
		}
		drifted = drifted || l.Status == "OutOfSync"
		lines = append(lines, l)
	}
	return lines, drifted, nil
}
