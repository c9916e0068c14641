package reconcile

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/analysis"
	"confrev.io/confrev/internal/fleet"
)

// Analyses reads AnalysisTemplates, and makes, reads and deletes AnalysisRuns.
type Analyses interface {
	client.Reader
	client.Writer
}

// analyse makes the AnalysisRuns that members wait for, unless they exist, and deletes old ones. It reports whether any is awaited.
func (c *Conductor) analyse(ctx context.Context, s *fleet.Survey) (awaited bool, err error) {
	if c.Analyses == nil {
		return false, nil
	}
	var errs []error
	for _, a := range c.Fleet.Analyses(s) {
		possible, err := c.makeAnalysis(ctx, s, a)
		if awaited = awaited || possible; err != nil {
			errs = append(errs, fmt.Errorf("analyze %s with %s: %w", a.Member, a.Template, err))
		}
	}
	return awaited, errors.Join(errs...)
}

// makeAnalysis makes one AnalysisRun, unless it exists. It is false if there can be none, until a person acts.
func (c *Conductor) makeAnalysis(ctx context.Context, s *fleet.Survey, a fleet.Analysis) (possible bool, err error) {
	existing := &unstructured.Unstructured{}
	existing.SetGroupVersionKind(analysis.RunKind)
	err = c.Analyses.Get(ctx, client.ObjectKey{Namespace: a.Subject.Namespace, Name: a.Subject.Name(a.Template)}, existing)
	if err == nil {
		return true, nil
	}
	if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return false, err
	}
	run, why, err := c.Fleet.Run(ctx, a)
	if err == nil && why == "" {
		if err = c.Analyses.Create(ctx, run); apierrors.IsInvalid(err) {
			why, err = "the API server does not accept its AnalysisRun", nil
		}
	}
	if err != nil {
		return false, client.IgnoreAlreadyExists(err)
	}
	c.Fleet.Impossible(s, a, why)
	if why != "" {
		log.FromContext(ctx).Info("an analysis cannot run", "workload", a.Member, "template", a.Template, "because", why)
		return false, nil
	}
	log.FromContext(ctx).Info("an analysis began", "workload", a.Member, "template", a.Template, "run", run.GetName())
	return true, c.tidyAnalyses(ctx, a)
}

// tidyAnalyses deletes AnalysisRuns of a workload that are more than are kept.
func (c *Conductor) tidyAnalyses(ctx context.Context, a fleet.Analysis) error {
	runs := &unstructured.UnstructuredList{}
	runs.SetGroupVersionKind(analysis.RunKind)
	if err := c.Analyses.List(ctx, runs, client.InNamespace(a.Subject.Namespace), client.MatchingLabels(a.Subject.Selector())); err != nil {
		return err
	}
	var errs []error
	for _, run := range analysis.Superfluous(runs.Items, a.Together) {
		uid := run.GetUID()
		errs = append(errs, client.IgnoreNotFound(c.Analyses.Delete(ctx, &run, client.Preconditions{UID: &uid})))
	}
	return errors.Join(errs...)
}
