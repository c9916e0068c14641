//go:build perf

package perf

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"confrev.io/confrev/test/env"
)

// goal is what a figure of a scenario should be at most, and what it last was. Nothing fails because of it: a figure depends on the machine.
type goal struct {
	Scenario string  `json:"scenario"`
	Figure   string  `json:"figure"`
	Most     float64 `json:"most"`
	Unit     string  `json:"unit"`
	Last     *last   `json:"last,omitempty"`
}

// last is the run in which a figure was last measured.
type last struct {
	Value  float64 `json:"value"`
	Date   string  `json:"date"`
	Commit string  `json:"commit"`
}

func goalsFile() string { return filepath.Join(env.Root(), "test", "perf", "goals.yaml") }

func readGoals() (goals []goal, err error) {
	text, err := os.ReadFile(goalsFile())
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(text, &goals); err != nil {
		return nil, fmt.Errorf("read %s: %w", goalsFile(), err)
	}
	return goals, nil
}

// cellsOf returns the goal of a figure, whether it is met, and what the figure last was.
func cellsOf(goals []goal, s *scenario, f figure) []string {
	i := slices.IndexFunc(goals, func(g goal) bool { return g.Scenario == s.Name && g.Figure == f.Name })
	if i < 0 {
		return nil
	}
	cells := []string{"at most " + quantity(goals[i].Most, goals[i].Unit), "met", ""}
	switch {
	case s.Failed:
		cells[1] = "failed"
	case f.Value > goals[i].Most:
		cells[1] = "missed"
	}
	if before := goals[i].Last; before != nil {
		cells[2] = fmt.Sprintf("%s (%s, %s)", quantity(before.Value, goals[i].Unit), before.Date, before.Commit)
	}
	return cells
}

// misnamed returns an error if a goal is about a figure that its scenario does not have, in this unit: no one would ever see it.
func misnamed(goals []goal) error {
	for _, g := range goals {
		i := slices.IndexFunc(scenarios, func(s *scenario) bool { return s.Name == g.Scenario && !s.Failed })
		if i < 0 {
			// It did not run.
			continue
		}
		if !slices.ContainsFunc(scenarios[i].Figures, func(f figure) bool { return f.Name == g.Figure && f.Unit == g.Unit }) {
			return fmt.Errorf("%s: %s has no figure %q in %q", goalsFile(), g.Scenario, g.Figure, g.Unit)
		}
	}
	return nil
}

// updateGoals writes this run's figures into the file of goals, below the comment at its top.
func updateGoals(ctx context.Context, goals []goal) error {
	commit, err := exec.CommandContext(ctx, "git", "-C", env.Root(), "describe", "--always", "--dirty").Output()
	if err != nil {
		return fmt.Errorf("ask git for the commit: %w", err)
	}
	for i := range goals {
		g := &goals[i]
		for _, s := range scenarios {
			for _, f := range s.Figures {
				if s.Name == g.Scenario && f.Name == g.Figure && !s.Failed {
					g.Last = &last{f.Value, time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit))}
				}
			}
		}
	}
	text, err := os.ReadFile(goalsFile())
	if err != nil {
		return err
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		b.WriteString(line)
	}
	for _, g := range goals {
		fmt.Fprintf(&b, "- scenario: %s\n  figure: %q\n  most: %v\n  unit: %q\n", g.Scenario, g.Figure, g.Most, g.Unit)
		if g.Last != nil {
			fmt.Fprintf(&b, "  last: {value: %v, date: %q, commit: %q}\n", g.Last.Value, g.Last.Date, g.Last.Commit)
		}
	}
	return os.WriteFile(goalsFile(), []byte(b.String()), 0o644)
}
