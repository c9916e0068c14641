// Package waiting decides whether a pin that is about to move must wait, and what for (rules 32 to 39). It is a function of the
// settings and of the time that it is given: no client, no clock, no context. Controller, webhook and plugin call the same functions.
package waiting

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"confrev.io/confrev/internal/keys"
)

// Reason is what a pin waits for.
type Reason string

// The reasons.
const (
	// Manual: a person has to ask for the move (confrev.io/advance).
	Manual Reason = "Manual"
	// OnDeploy: the move is made together with the next deploy (confrev.io/advance).
	OnDeploy Reason = "OnDeploy"
	// Frozen: nothing moves before a certain time (confrev.io/freeze-until).
	Frozen Reason = "Frozen"
	// Window: nothing moves outside of certain hours (confrev.io/window).
	Window Reason = "Window"
	// Stage: the namespace that comes before has not vouched for the change (confrev.io/after).
	Stage Reason = "Stage"
	// Stopped: the change goes no further (confrev.io/stop).
	Stopped Reason = "Stopped"
	// Wave: the workload's wave has not begun (confrev.io/steps, confrev.io/wave).
	Wave Reason = "Wave"
	// Baking: the wave before has to stay healthy for a while (confrev.io/bake).
	Baking Reason = "Baking"
	// Budget: as many workloads as may are in the middle of the change (confrev.io/max-rolling).
	Budget Reason = "Budget"
)

// Reasons lists all reasons. If a pin waits for several, it is said to wait for the first of them.
var Reasons = []Reason{Stopped, Manual, OnDeploy, Frozen, Window, Stage, Wave, Baking, Budget}

// Gate is one setting that may keep pins from moving. Parse functions make gates.
type Gate struct {
	Reason Reason
	// By says where the setting is written: "annotation confrev.io/window of configmap/app".
	By string
	// Invalid is true for a setting that cannot be read. Nothing passes it: what was meant to wait must not roll out because of a
	// typo.
	Invalid bool
	// Budget is true if the setting says how many workloads may roll out. If it cannot be read, first pins wait too.
	Budget bool
	// Includes is true if a deploy takes changes through this gate, although the gate is shut (confrev.io/deploys).
	Includes bool
	// until is when a freeze ends; windows are when a window is open.
	until   time.Time
	windows []window
}

// Wait is what a pin waits for. The zero value stands for a pin that does not wait.
type Wait struct {
	Reason Reason
	// By says where the setting is written that makes it wait.
	By string
	// Until is when the wait ends by itself. It is zero if only a deploy or a person ends it.
	Until time.Time
	// Invalid is true if the setting cannot be read.
	Invalid bool
	// Source has the arguments of kubectl confrev status for the change that it waits for, where the wait is for a turn.
	Source string
}

// Turn returns what a pin waits for because of how other workloads take the change: Stopped, Stage, Wave, Baking or Budget.
// source names the change that it waits for, as arguments of kubectl confrev status: "configmap/app -n shop".
func Turn(reason Reason, by, source string, until time.Time) Wait {
	return Wait{Reason: reason, By: by, Until: until, Source: source}
}

// ForStop returns what a pin waits for if someone has stopped the change to a source.
func ForStop(source string) Wait {
	return Turn(Stopped, "annotation "+keys.Stop+" of "+source, source, time.Time{})
}

// IsTurn reports whether the wait is for a turn, which comes without anyone doing something about this workload.
func (w Wait) IsTurn() bool { return slices.Contains([]Reason{Stage, Wave, Baking, Budget}, w.Reason) }

// passes reports whether a deploy does not have to wait for this turn (rule 38).
func (w Wait) passes(deploys bool) bool { return w.Reason == Budget && deploys }

// ForTurn returns the first of the turns of the sources that move, if any has to be waited for. They wait together (rule 37).
func ForTurn(turns []Wait, deploys bool) Wait {
	turns = slices.DeleteFunc(slices.Clone(turns), func(w Wait) bool { return !w.IsTurn() || w.passes(deploys) })
	if len(turns) == 0 {
		return Wait{}
	}
	return slices.MinFunc(turns, func(a, b Wait) int {
		return cmp.Compare(slices.Index(Reasons, a.Reason), slices.Index(Reasons, b.Reason))
	})
}

// ends reports whether a gate opens by itself.
func (g Gate) ends() bool { return !g.Invalid && (g.Reason == Frozen || g.Reason == Window) }

// passes reports whether a deploy passes the gate.
func (g Gate) passes(deploys bool) bool {
	return deploys && !g.Invalid && (g.Reason == OnDeploy || g.Includes)
}

// ForAct returns what a source waits for until a person acts or something is deployed, of all the gates that concern it. deploys is
// true if the move is part of a deploy (rule 33).
func ForAct(gates []Gate, deploys bool) Wait {
	return first(slices.DeleteFunc(slices.Clone(gates), func(g Gate) bool { return g.ends() || g.passes(deploys) }), time.Time{})
}

// ForFirst returns what a first pin waits for, of all the gates that concern it: settings that cannot be read of how many may roll out (rule 36).
func ForFirst(gates []Gate) Wait {
	return first(slices.DeleteFunc(slices.Clone(gates), func(g Gate) bool { return !g.Budget || !g.Invalid }), time.Time{})
}

// ForTime returns what moves wait for that ends by itself. gates are those of all the sources that move: they wait together, so that
// they are one rollout (rule 34).
func ForTime(gates []Gate, deploys bool, now time.Time) Wait {
	timed := slices.DeleteFunc(slices.Clone(gates), func(g Gate) bool { return !g.ends() || g.passes(deploys) })
	known := openings{}
	shut := slices.DeleteFunc(slices.Clone(timed), func(g Gate) bool { return g.opens(now, known).Equal(now) })
	return first(shut, allOpen(timed, now, known))
}

// first returns the wait for the most important of the gates that are shut.
func first(shut []Gate, until time.Time) Wait {
	if len(shut) == 0 {
		return Wait{}
	}
	g := slices.MinFunc(shut, func(a, b Gate) int {
		return cmp.Compare(slices.Index(Reasons, a.Reason), slices.Index(Reasons, b.Reason))
	})
	return Wait{Reason: g.Reason, By: g.By, Until: until, Invalid: g.Invalid}
}

// openings has, by window, the first time from some time on at which it is open; zero if it never is. It takes long to find that of a window that
// opens rarely, or never, and there may be thousands of them.
type openings map[*window]time.Time

// of returns the first time, not before now, at which a window is open. The times that are asked for must not go back.
func (o openings) of(w *window, now time.Time) time.Time {
	at, known := o[w]
	if !known || !at.IsZero() && at.Before(now) {
		at = w.opens(now)
		o[w] = at
	}
	return at
}

// opens returns the first time, not before now, at which a gate is open that opens by itself. It is zero if that is not within the next
// years.
func (g Gate) opens(now time.Time, known openings) time.Time {
	if g.Reason == Frozen {
		if g.until.After(now) {
			return g.until
		}
		return now
	}
	var earliest time.Time
	for i := range g.windows {
		if at := known.of(&g.windows[i], now); !at.IsZero() && (earliest.IsZero() || at.Before(earliest)) {
			earliest = at
		}
	}
	return earliest
}

// maxRounds limits the search for a time at which several gates are open. Those of one hour a week each meet within a year, or never.
const maxRounds = 500

// allOpen returns the first time, not before now, at which all gates are open. It is zero if none was found.
func allOpen(gates []Gate, now time.Time, known openings) time.Time {
	at := now
	for range maxRounds {
		before := at
		for _, g := range gates {
			if at = g.opens(at, known); at.IsZero() {
				return at
			}
		}
		if at.Equal(before) {
			return at
		}
	}
	return time.Time{}
}

// String returns a clause that completes "it waits …": "until 2026-12-27T00:00:00Z (annotation confrev.io/freeze-until)".
func (w Wait) String() string {
	switch {
	case w.Reason == "":
		return "until the controller advances it"
	case w.Invalid:
		return fmt.Sprintf("until %s is corrected, which cannot be read", w.By)
	case w.Reason == Manual:
		return fmt.Sprintf("until a person advances it (%s)", w.By)
	case w.Reason == OnDeploy:
		return fmt.Sprintf("for a deploy (%s)", w.By)
	case w.Reason == Stopped:
		return fmt.Sprintf("until a person resumes it (%s)", w.By)
	case w.IsTurn():
		// It says the same for each reason, since these follow each other quickly; status tells more.
		return fmt.Sprintf("for its turn (%s; how far it is: kubectl confrev status %s)", w.By, w.Source)
	case w.Until.IsZero():
		return fmt.Sprintf("for a time at which every window is open, and none is in sight (%s)", w.By)
	}
	return fmt.Sprintf("until %s (%s)", w.Until.UTC().Format(time.RFC3339), w.By)
}
