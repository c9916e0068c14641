// Package spread decides how far a change to a source has spread over the workloads that use it, and which of them may take it next
// (rules 36 to 39). It is a function of what was observed of those workloads, of settings, and of what was recorded: no client, no clock,
// no context. Controller, webhook and plugin call the same functions.
package spread

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"confrev.io/confrev/internal/quote"
)

// Amount is a number of workloads, or a share of them in percent.
type Amount struct {
	Number  int
	Percent bool
}

const (
	// maxNumber bounds amounts, so that sums never overflow.
	maxNumber = 1_000_000
	whole     = 100
)

// ParseAmount reads "5" or "10%". An amount of nothing would never let anything go, so 0 is an error.
func ParseAmount(text string) (Amount, error) {
	digits, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > maxNumber || percent && n > whole || strings.HasPrefix(digits, "+") {
		return Amount{}, fmt.Errorf("%s is not an amount: want a number such as 5, or a share such as 10%%", quote.Text(text))
	}
	return Amount{n, percent}, nil
}

// Of returns how many of a number of workloads it is: a share is rounded down, but is at least one workload.
func (a Amount) Of(all int) int {
	if a.Percent {
		return max(1, a.Number*all/whole)
	}
	return a.Number
}

// maxSteps is how many steps a setting may have.
const maxSteps = 20

// ParseSteps reads "1,10%,50%".
func ParseSteps(text string) ([]Amount, error) {
	if n := strings.Count(text, ",") + 1; n > maxSteps {
		return nil, fmt.Errorf("it has %d steps: want at most %d", n, maxSteps)
	}
	var steps []Amount
	for one := range strings.SplitSeq(text, ",") {
		step, err := ParseAmount(one)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	return steps, nil
}

// maxBake is how long a workload may have to stay healthy.
const maxBake = 366 * 24 * time.Hour

// ParseBake reads a duration such as "10m".
func ParseBake(text string) (time.Duration, error) {
	bake, err := time.ParseDuration(text)
	if err != nil || bake <= 0 || bake > maxBake {
		return 0, fmt.Errorf("%s is not a duration such as 10m, of at most %v", quote.Text(text), maxBake)
	}
	return bake, nil
}

// LastWave is after all waves that can be stated.
const LastWave = maxNumber + 1

// ParseWave reads the number of a wave.
func ParseWave(text string) (int, error) {
	wave, err := strconv.Atoi(text)
	if err != nil || max(wave, -wave) > maxNumber {
		return 0, fmt.Errorf("%s is not a whole number between -%d and %d", quote.Text(text), maxNumber, maxNumber)
	}
	return wave, nil
}

// OnFailure is what happens when a change fails.
type OnFailure int

// What may happen. A later one includes those before it.
const (
	// None: the member's wave waits for it.
	None OnFailure = iota
	// StopIt: no further member gets the change.
	StopIt
	// Undo: besides, members that failed go back to what they had.
	Undo
	// UndoAll: all members that have the change go back.
	UndoAll
)

var onFailures = []string{"none", "stop", "undo", "undo-all"}

// ParseOnFailure reads "none", "stop", "undo" or "undo-all".
func ParseOnFailure(text string) (OnFailure, error) {
	if i := slices.Index(onFailures, text); i >= 0 {
		return OnFailure(i), nil
	}
	return None, fmt.Errorf("%s is not known: want none, stop, undo or undo-all", quote.Text(text))
}

// ParseCrashes reads how many crashes of a container are a failure.
func ParseCrashes(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxNumber {
		return 0, fmt.Errorf("%s is not a number of crashes, such as 2", quote.Text(text))
	}
	return n, nil
}

// ParseStopAfter reads a number of failures.
func ParseStopAfter(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxNumber {
		return 0, fmt.Errorf("%s is not a number of failures, such as 1", quote.Text(text))
	}
	return n, nil
}

// Settings are those of one source: its own and those of its namespace. Without any, a change goes to all workloads at once.
type Settings struct {
	// Steps are how many workloads a change has reached, at most, at the end of each wave.
	Steps []Amount
	// MaxRolling are how many workloads may be in the middle of the change. The smallest counts.
	MaxRolling []Amount
	// Bake is how long a workload must stay healthy before it vouches for the change.
	Bake time.Duration
	// OnFailure is what happens when members fail, and StopAfter how many failures it takes; 0 means one.
	OnFailure OnFailure
	StopAfter int
	// After is the namespace whose source of the same name has to vouch first; Exempt is true if the source does not have to wait for that.
	After  string
	Exempt bool
	// NoDefault is true if the settings of the installation do not count where there are no others.
	NoDefault bool
	// Leads is true if sources of other namespaces wait for those of this one.
	Leads bool
	// By says where one of the settings is written: "annotation confrev.io/steps of configmap/app".
	By string
}

// Careful returns the settings of the preset "careful".
func Careful(by string) Settings {
	return Settings{
		Steps: []Amount{{Number: 1}, {Number: 10, Percent: true}, {Number: 50, Percent: true}}, MaxRolling: []Amount{{Number: 10, Percent: true}},
		Bake: 5 * time.Minute, OnFailure: Undo, By: by,
	}
}

// Active reports whether there is any setting.
func (s Settings) Active() bool { return s.By != "" }

// With returns the settings to which all of both add up: the strictest counts.
func (s Settings) With(other Settings) Settings {
	return Settings{
		Steps: slices.Concat(s.Steps, other.Steps), MaxRolling: slices.Concat(s.MaxRolling, other.MaxRolling),
		Bake: max(s.Bake, other.Bake), OnFailure: max(s.OnFailure, other.OnFailure), StopAfter: fewest(s.StopAfter, other.StopAfter),
		After: cmp.Or(s.After, other.After), Exempt: s.Exempt || other.Exempt, NoDefault: s.NoDefault || other.NoDefault, Leads: s.Leads || other.Leads,
		By: cmp.Or(s.pacedBy(), other.pacedBy(), s.By, other.By),
	}
}

// Or returns the settings, with those of the installation if they say nothing of how a change spreads.
func (s Settings) Or(installation Settings) Settings {
	if s.paces() || s.NoDefault {
		return s
	}
	return s.With(installation)
}

// paces reports whether a setting says how a change spreads within its namespace.
func (s Settings) paces() bool {
	return len(s.Steps) > 0 || len(s.MaxRolling) > 0 || s.Bake > 0 || s.OnFailure > None || s.StopAfter > 0
}

// pacedBy returns where that is written; empty if there is none.
func (s Settings) pacedBy() string {
	if s.paces() {
		return s.By
	}
	return ""
}

// Follows returns the namespace whose source has to vouch first; empty if there is none.
func (s Settings) Follows() string {
	if s.Exempt {
		return ""
	}
	return s.After
}

// fewest returns the smaller of two numbers of which 0 says nothing.
func fewest(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// budget returns how many of the members may be in the middle of a change; 0 if there is no limit.
func (s Settings) budget(members int) int {
	least := 0
	for _, amount := range s.MaxRolling {
		if n := amount.Of(members); least == 0 || n < least {
			least = n
		}
	}
	return least
}
