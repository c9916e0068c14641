package fleet

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/analysis"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
)

// ReadAnalyses lets the Fleet read AnalysisRuns. runs is a reader that asks the API server.
func (f *Fleet) ReadAnalyses(runs client.Reader) { f.analyses = runs }

// analysed is what the analyses of a member have shown since it took the change.
type analysed struct {
	at       time.Time
	outcomes map[string]analysis.Outcome
	// wrong says why there can be no outcome, by template.
	wrong map[string]string
	// read is when the AnalysisRuns were last read.
	read map[string]time.Time
}

// outcomeOf returns the outcome of an analysis of a member.
func (c *change) outcomeOf(member string, of rollout.Standing, template string) analysis.Outcome {
	if known := c.analysed[member]; known.at.Equal(of.Subject.At) {
		return known.outcomes[template]
	}
	return analysis.Unknown
}

// runningAnalyses returns the analyses of a member that have not ended yet, or not begun.
func (c *change) runningAnalyses(member string, of rollout.Standing) []string {
	return slices.DeleteFunc(slices.Clone(of.Analysis), func(template string) bool { return c.outcomeOf(member, of, template) != analysis.Unknown })
}

// byAnalysis sets the stage of a healthy member if one of its analyses decides that: one that failed, or one from which nothing can come. It
// reports whether it did.
func (c *change) byAnalysis(m *spread.Member, of rollout.Standing) bool {
	switch {
	case of.InvalidAnalysis:
		m.Stage, m.Why = spread.Parked, "annotation "+keys.Analysis+" cannot be read"
		return true
	case len(of.Analysis) > 0 && !c.analyses:
		m.Stage, m.Why = spread.Parked, "annotation "+keys.Analysis+" needs the chart's value analysis.enabled"
		return true
	}
	for _, template := range of.Analysis {
		switch c.outcomeOf(m.Name, of, template) {
		case analysis.Failed:
			if m.Stage, m.Fails, m.Why = spread.Failed, true, "its analysis "+template+" failed"; of.Advance.Unwell {
				// It was not healthy before (rule 40).
				m.Stage, m.Fails = spread.Unwell, false
			}
			return true
		case analysis.Undecided:
			m.Stage, m.Why = spread.Parked, "its analysis "+template+" has no result"
			if why := c.analysed[m.Name].wrong[template]; why != "" {
				m.Why += ": " + why
			}
		}
	}
	return m.Stage == spread.Parked
}

// readAgain is how often to look whether the AnalysisRun of an analysis without a result was deleted, so that it runs again.
const readAgain = 10 * time.Second

// Analysis is one that a member needs and that may have to be made.
type Analysis struct {
	Member, Template string
	Subject          analysis.Subject
	// Together is how many the member needs.
	Together int
}

// Analyses returns the analyses whose outcome the members of a change wait for, and those of which there could be none so far.
func (f *Fleet) Analyses(s *Survey) []Analysis {
	return f.analysesOf(s, analysed.isAwaited)
}

func (a analysed) isAwaited(template string) bool {
	return a.outcomes[template] == analysis.Unknown || a.wrong[template] != ""
}

// unread returns the analyses that have to be read: besides those, now and then, those without a result.
func (f *Fleet) unread(s *Survey) []Analysis {
	now := f.now()
	return f.analysesOf(s, func(a analysed, template string) bool {
		return a.isAwaited(template) || a.outcomes[template] == analysis.Undecided && now.Sub(a.read[template]) >= readAgain
	})
}

// analysesOf returns the analyses of the members that bake, or need a person, of which what is known is as wanted.
func (f *Fleet) analysesOf(s *Survey, wanted func(known analysed, template string) bool) []Analysis {
	if f.analyses == nil {
		return nil
	}
	c := f.change(s.Source)
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Analysis
	for _, m := range s.Has() {
		if m.Stage != spread.Baking && m.Stage != spread.Parked {
			continue
		}
		of := s.Workloads[m.Name].standing
		known := c.analysed[m.Name]
		if !known.at.Equal(of.Subject.At) {
			known = analysed{}
		}
		for _, template := range of.Analysis {
			if wanted(known, template) {
				all = append(all, Analysis{m.Name, template, of.Subject, len(of.Analysis)})
			}
		}
	}
	return all
}

// Run returns the AnalysisRun that an analysis needs, or why there can be none, if a person must act.
func (f *Fleet) Run(ctx context.Context, a Analysis) (run *unstructured.Unstructured, why string, err error) {
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(analysis.TemplateKind)
	err = f.analyses.Get(ctx, client.ObjectKey{Namespace: a.Subject.Namespace, Name: a.Template}, template)
	switch {
	case apierrors.IsNotFound(err):
		return nil, "there is no AnalysisTemplate of this name", nil
	case meta.IsNoMatchError(err):
		return nil, "the cluster has no AnalysisTemplates of Argo Rollouts", nil
	case err != nil:
		return nil, "", err
	}
	run, why = a.Subject.Run(template)
	return run, why, nil
}

// Impossible notes whether and why an analysis can have no outcome.
func (f *Fleet) Impossible(s *Survey, a Analysis, why string) {
	c := f.change(s.Source)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.impossible(a, why)
}

func (c *change) impossible(a Analysis, why string) (news bool) {
	if why == "" {
		return c.note(a, analysis.Unknown, "")
	}
	return c.note(a, analysis.Undecided, why)
}

// note notes an outcome, and reports whether it is news. The caller holds c.mu.
func (c *change) note(a Analysis, outcome analysis.Outcome, wrong string) bool {
	known := c.analysed[a.Member]
	if !known.at.Equal(a.Subject.At) || known.outcomes == nil {
		known = analysed{a.Subject.At, map[string]analysis.Outcome{}, map[string]string{}, map[string]time.Time{}}
	}
	before, reason := known.outcomes[a.Template], known.wrong[a.Template]
	known.outcomes[a.Template], known.wrong[a.Template] = outcome, wrong
	c.analysed[a.Member] = known
	return before != outcome || reason != wrong
}

// readAnalyses reads the analyses that members wait for, and reports whether anything else is known of any now.
func (f *Fleet) readAnalyses(ctx context.Context, s *Survey) bool {
	news := false
	c := f.change(s.Source)
	for _, a := range f.unread(s) {
		run := &unstructured.Unstructured{}
		run.SetGroupVersionKind(analysis.RunKind)
		err := f.analyses.Get(ctx, client.ObjectKey{Namespace: a.Subject.Namespace, Name: a.Subject.Name(a.Template)}, run)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			// It is to come, unless there can be none.
			if _, why, err := f.Run(ctx, a); err == nil {
				c.mu.Lock()
				news = c.impossible(a, why) || news
				c.mu.Unlock()
			}
			continue
		}
		if err != nil {
			// The member vouches for nothing meanwhile.
			log.FromContext(ctx).Error(err, "cannot read an AnalysisRun", "workload", a.Member)
			continue
		}
		c.mu.Lock()
		news = c.note(a, a.Subject.Read(run), "") || news
		c.analysed[a.Member].read[a.Template] = f.now()
		c.mu.Unlock()
	}
	return news
}
