package spread_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/spread"
)

func TestSettingsThatCannotBeRead(t *testing.T) {
	for _, text := range []string{"", "0", "-1", "0%", "101%", "+5", "1.5", "5 %", "ten", "9999999999999999999", "%"} {
		if a, err := spread.ParseAmount(text); err == nil {
			t.Errorf("%q is %+v", text, a)
		}
	}
	for _, text := range []string{"", "1,,2", "1,0", strings.Repeat("1,", 20) + "1"} {
		if s, err := spread.ParseSteps(text); err == nil {
			t.Errorf("steps %q are %+v", text, s)
		}
	}
	for _, text := range []string{"", "0", "0s", "-5m", "5", "10000h"} {
		if d, err := spread.ParseBake(text); err == nil {
			t.Errorf("bake %q is %s", text, d)
		}
	}
	for _, text := range []string{"", "first", "1.0", "1000001", "-1000001"} {
		if w, err := spread.ParseWave(text); err == nil {
			t.Errorf("wave %q is %d", text, w)
		}
	}
	for _, text := range []string{"", "app-x", "app-x@1;wave=", "app-x@1;wave=-1", "app-x@2", "app-x;wave=1", "@1;wave=1", "app-x@;wave=1"} {
		if _, w, err := spread.ParsePassed(text); err == nil {
			t.Errorf("%q are %d waves", text, w)
		}
	}
	for _, waves := range []int{0, 2} {
		if r, w, err := spread.ParsePassed(spread.Passed(pin.Pin{Revision: "app-x", Number: 3}, waves)); err != nil || r != "app-x@3" || w != waves {
			t.Errorf("read %q %d %v", r, w, err)
		}
	}
	if _, n, err := spread.ParseResume("app-x@1;stop=0"); err == nil {
		t.Errorf("no stop is %d", n)
	}
}

// Each setting has limits, and what is at a limit is within it.
func TestSettingsAtTheirLimits(t *testing.T) {
	number := func(parse func(string) (int, error)) func(string) (string, error) {
		return func(text string) (string, error) {
			n, err := parse(text)
			return strconv.Itoa(n), err
		}
	}
	amount := func(text string) (string, error) {
		a, err := spread.ParseAmount(text)
		return fmt.Sprint(a.Number, a.Percent), err
	}
	steps := func(text string) (string, error) {
		all, err := spread.ParseSteps(text)
		return strconv.Itoa(len(all)), err
	}
	bake := func(text string) (string, error) {
		d, err := spread.ParseBake(text)
		return d.String(), err
	}
	waves := func(text string) (string, error) {
		_, n, err := spread.ParsePassed(text)
		return strconv.Itoa(n), err
	}
	for name, test := range map[string]struct {
		parse    func(string) (string, error)
		accepted map[string]string
		refused  []string
	}{
		"amount":   {amount, map[string]string{"1": "1 false", "1000000": "1000000 false", "1%": "1 true", "100%": "100 true", "\t5": "5 false"}, []string{"1000001"}},
		"steps":    {steps, map[string]string{strings.Repeat("1,", 19) + "1": "20"}, []string{strings.Repeat("1,", 20) + "1"}},
		"bake":     {bake, map[string]string{"1ns": "1ns", "8784h": "8784h0m0s"}, []string{"0s", "8784h0m1s"}},
		"wave":     {number(spread.ParseWave), map[string]string{"0": "0", "1000000": "1000000", "-1000000": "-1000000"}, []string{"1000001", "-1000001"}},
		"crashes":  {number(spread.ParseCrashes), map[string]string{"1": "1", "1000000": "1000000"}, []string{"", "0", "-1", "1000001", "two"}},
		"failures": {number(spread.ParseStopAfter), map[string]string{"1": "1", "1000000": "1000000"}, []string{"", "0", "-1", "1000001", "two"}},
		"waves": {waves, map[string]string{"app-x@1;wave=0": "0", "app-x@1;wave=1000000": "1000000"},
			[]string{"app-x@1;wave=1000001", "app-x@1;wave=x", "app-x@x;wave=1", "app-x@-1;wave=1", "app-x@1;stop=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			for text, want := range test.accepted {
				if got, err := test.parse(text); err != nil || got != want {
					t.Errorf("%q is %s, want %s; %v", text, got, want, err)
				}
			}
			for _, text := range test.refused {
				if got, err := test.parse(text); err == nil {
					t.Errorf("%q is %s", text, got)
				}
			}
		})
	}
}

func TestTheStrictestSettings(t *testing.T) {
	both := settings(t, "1", "50%").With(settings(t, "3", "2"))
	s := spread.Look(members("a:Waiting b:Waiting c:Waiting d:Waiting e:Waiting f:Waiting"), both, 0, spread.Place{})
	if s.Budget != 2 || shape(s) != "a|b c|d e f" {
		t.Errorf("a budget of %d, waves %s", s.Budget, shape(s))
	}
	stages, steps := spread.Settings{After: "staging", By: "after"}, spread.Settings{Bake: time.Minute, By: "bake"}
	if by, alone := stages.With(steps).By, stages.With(spread.Settings{}).By; by != "bake" || steps.With(stages).By != "bake" || alone != "after" {
		t.Errorf("what spreads is said to be written at %q, and alone at %q", by, alone)
	}
	if got := (spread.Settings{Bake: time.Minute}).With(spread.Settings{Bake: time.Hour}).Bake; got != time.Hour {
		t.Errorf("it bakes for %s", got)
	}
	if (spread.Settings{}).Active() || !spread.Careful("x").Active() {
		t.Error("nothing is a setting, or careful is none")
	}
}

// What one of two settings says, both together say; of what both say, the strictest counts.
func TestSettingsAddUp(t *testing.T) {
	for name, test := range map[string]struct{ one, other, both spread.Settings }{
		"nothing":              {},
		"exempt":               {spread.Settings{Exempt: true}, spread.Settings{}, spread.Settings{Exempt: true}},
		"no default":           {spread.Settings{NoDefault: true}, spread.Settings{}, spread.Settings{NoDefault: true}},
		"others wait for it":   {spread.Settings{Leads: true}, spread.Settings{}, spread.Settings{Leads: true}},
		"the stage before":     {spread.Settings{After: "staging"}, spread.Settings{}, spread.Settings{After: "staging"}},
		"a number of failures": {spread.Settings{StopAfter: 3}, spread.Settings{}, spread.Settings{StopAfter: 3}},
		"two of them":          {spread.Settings{StopAfter: 3}, spread.Settings{StopAfter: 2}, spread.Settings{StopAfter: 2}},
		"on failure":           {spread.Settings{OnFailure: spread.Undo}, spread.Settings{OnFailure: spread.StopIt}, spread.Settings{OnFailure: spread.Undo}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, got := range []spread.Settings{test.one.With(test.other), test.other.With(test.one)} {
				if diff := gocmp.Diff(test.both, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// The settings of the installation count where no one says how a change spreads, or that they do not count.
func TestSettingsOfTheInstallation(t *testing.T) {
	careful := spread.Careful("installation")
	if careful.Bake != 5*time.Minute {
		t.Errorf("careful bakes for %s", careful.Bake)
	}
	for name, test := range map[string]struct {
		own   spread.Settings
		count bool
	}{
		"nothing":              {spread.Settings{}, true},
		"a stage alone":        {spread.Settings{After: "staging", By: "after"}, true},
		"not the defaults":     {spread.Settings{NoDefault: true}, false},
		"steps":                {spread.Settings{Steps: []spread.Amount{{Number: 1}}}, false},
		"a budget":             {spread.Settings{MaxRolling: []spread.Amount{{Number: 1}}}, false},
		"time":                 {spread.Settings{Bake: time.Second}, false},
		"what a failure does":  {spread.Settings{OnFailure: spread.StopIt}, false},
		"a number of failures": {spread.Settings{StopAfter: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.own.Or(careful); (got.OnFailure == spread.Undo) != test.count {
				t.Errorf("%+v", got)
			}
		})
	}
}
