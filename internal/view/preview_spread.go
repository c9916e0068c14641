package view

import (
	"context"

	"confrev.io/confrev/internal/overlay"
	"confrev.io/confrev/internal/pin"
)

// ChangePreview is how a change to a source would spread.
type ChangePreview struct {
	SpreadStatus `json:",inline"`
	// AtLeast is how long it takes if every workload gets well at once: "25m0s".
	AtLeast string `json:"atLeast"`
}

// spreadsOf returns how changes to the edited sources of a namespace would spread, of those that spread and that any workload would get.
func spreadsOf(ctx context.Context, planner *Planner, namespace string, edits overlay.Edits) ([]ChangePreview, error) {
	var all []ChangePreview
	for _, e := range edits.In(namespace) {
		source, is := e.Source()
		if !is || planner.hidden && source.Kind == pin.Secret {
			continue
		}
		survey, err := planner.Spread(ctx, namespace, source)
		if err != nil {
			return nil, err
		}
		if survey.Settings.Active() && len(survey.Waits()) > 0 {
			all = append(all, ChangePreview{spreadStatus(survey), survey.AtLeast(survey.Settings.Bake).String()})
		}
	}
	return all, nil
}
