package waiting_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"confrev.io/confrev/internal/waiting"
)

func at(t testing.TB, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// gate makes a gate from "advance manual", "freeze 2026-12-27" or "window 0 9 * * 1-5 8h", with "+" in front if deploys pass it.
func gate(t rapid.TB, text string) waiting.Gate {
	t.Helper()
	text, includes := strings.CutPrefix(text, "+")
	kind, value, _ := strings.Cut(text, " ")
	g, err := map[string]func(string, string) (waiting.Gate, error){
		"advance": waiting.ParseAdvance, "freeze": waiting.ParseFreeze, "window": waiting.ParseWindow,
	}[kind](value, kind)
	if err != nil && !strings.Contains(value, "?") {
		t.Fatal(err)
	}
	g.Includes = includes
	return g
}

func gates(t rapid.TB, texts ...string) []waiting.Gate {
	t.Helper()
	var all []waiting.Gate
	for _, text := range texts {
		if g := gate(t, text); g.Reason != "" {
			all = append(all, g)
		}
	}
	return all
}

// Rule 33.
func TestWaitForAnAct(t *testing.T) {
	for name, test := range map[string]struct {
		gates         []string
		alone, deploy waiting.Reason
	}{
		"nothing is said":                 {},
		"auto":                            {gates: []string{"advance auto"}},
		"on-deploy":                       {gates: []string{"advance on-deploy"}, alone: waiting.OnDeploy},
		"manual":                          {gates: []string{"advance manual"}, alone: waiting.Manual, deploy: waiting.Manual},
		"the strictest counts":            {gates: []string{"advance on-deploy", "advance manual", "advance auto"}, alone: waiting.Manual, deploy: waiting.Manual},
		"a typo":                          {gates: []string{"advance manul?"}, alone: waiting.Manual, deploy: waiting.Manual},
		"a freeze ends by itself":         {gates: []string{"freeze 2999-01-01"}},
		"a freeze that cannot be read":    {gates: []string{"freeze ?"}, alone: waiting.Frozen, deploy: waiting.Frozen},
		"a typo is not for deploys":       {gates: []string{"+freeze ?"}, alone: waiting.Frozen, deploy: waiting.Frozen},
		"a window ends by itself":         {gates: []string{"window 0 9 * * * 1h"}},
		"a window that cannot be read":    {gates: []string{"window ?"}, alone: waiting.Window, deploy: waiting.Window},
		"what takes a person comes first": {gates: []string{"advance on-deploy", "freeze ?"}, alone: waiting.OnDeploy, deploy: waiting.Frozen},
	} {
		t.Run(name, func(t *testing.T) {
			all := gates(t, test.gates...)
			if wait := waiting.ForAct(all, false); wait.Reason != test.alone || !wait.Until.IsZero() {
				t.Errorf("without a deploy, it waits %s", wait)
			}
			if wait := waiting.ForAct(all, true); wait.Reason != test.deploy {
				t.Errorf("in a deploy, it waits %s", wait)
			}
		})
	}
}

// Rule 34. 2026-11-22 is a Sunday.
func TestWaitForATime(t *testing.T) {
	const hours = "window 0 9 * * 1-5 8h Europe/Berlin"
	for name, test := range map[string]struct {
		gates   []string
		now     string
		deploys bool
		want    waiting.Reason
		until   string
	}{
		"nothing is said":               {now: "2026-11-22T12:00:00Z"},
		"what takes a person":           {gates: []string{"advance manual"}, now: "2026-11-22T12:00:00Z"},
		"before a freeze ends":          {gates: []string{"freeze 2026-12-27T00:00:00Z"}, now: "2026-12-26T23:59:59Z", want: waiting.Frozen, until: "2026-12-27T00:00:00Z"},
		"when a freeze ends":            {gates: []string{"freeze 2026-12-27T00:00:00Z"}, now: "2026-12-27T00:00:00Z"},
		"a date is its beginning":       {gates: []string{"freeze 2026-12-27"}, now: "2026-12-26T23:59:59Z", want: waiting.Frozen, until: "2026-12-27T00:00:00Z"},
		"another zone":                  {gates: []string{"freeze 2026-12-27T00:00:00+01:00"}, now: "2026-12-26T23:00:00Z"},
		"before a window":               {gates: []string{hours}, now: "2026-11-23T07:59:59Z", want: waiting.Window, until: "2026-11-23T08:00:00Z"},
		"when a window opens":           {gates: []string{hours}, now: "2026-11-23T08:00:00Z"},
		"just before it closes":         {gates: []string{hours}, now: "2026-11-23T15:59:59Z"},
		"when a window closes":          {gates: []string{hours}, now: "2026-11-23T16:00:00Z", want: waiting.Window, until: "2026-11-24T08:00:00Z"},
		"on the weekend":                {gates: []string{hours}, now: "2026-11-22T12:00:00Z", want: waiting.Window, until: "2026-11-23T08:00:00Z"},
		"without a zone":                {gates: []string{"window 0 9 * * * 1h"}, now: "2026-11-22T08:30:00Z", want: waiting.Window, until: "2026-11-22T09:00:00Z"},
		"across midnight":               {gates: []string{"window 0 22 * * * 4h"}, now: "2026-11-22T01:59:00Z"},
		"longer than its period":        {gates: []string{"window 0 * * * * 2h"}, now: "2026-11-22T01:59:00Z"},
		"the first of several":          {gates: []string{"window 0 9 * * * 1h; 0 7 * * * 1h"}, now: "2026-11-22T06:00:00Z", want: waiting.Window, until: "2026-11-22T07:00:00Z"},
		"in one of several":             {gates: []string{"window 0 9 * * * 1h; 0 7 * * * 1h"}, now: "2026-11-22T09:30:00Z"},
		"two that must both be open":    {gates: []string{"window 0 9 * * * 4h", "window 0 12 * * * 4h"}, now: "2026-11-22T10:00:00Z", want: waiting.Window, until: "2026-11-22T12:00:00Z"},
		"two that meet on Fridays":      {gates: []string{"window 0 0 * * 5 24h", "window 30 12 * * * 1h"}, now: "2026-11-22T10:00:00Z", want: waiting.Window, until: "2026-11-27T12:30:00Z"},
		"two that never meet":           {gates: []string{"window 0 9 * * * 1h", "window 0 12 * * * 1h"}, now: "2026-11-22T10:00:00Z", want: waiting.Window},
		"one that never opens":          {gates: []string{"window 0 9 30 2 * 1h"}, now: "2026-11-22T10:00:00Z", want: waiting.Window},
		"a freeze, and then the window": {gates: []string{"freeze 2026-11-28", hours}, now: "2026-11-23T10:00:00Z", want: waiting.Frozen, until: "2026-11-30T08:00:00Z"},
		"a deploy waits too":            {gates: []string{"freeze 2026-12-27"}, now: "2026-11-22T10:00:00Z", deploys: true, want: waiting.Frozen, until: "2026-12-27T00:00:00Z"},
		"a deploy that includes it":     {gates: []string{"+freeze 2026-12-27"}, now: "2026-11-22T10:00:00Z", deploys: true},
		"only for a deploy":             {gates: []string{"+freeze 2026-12-27"}, now: "2026-11-22T10:00:00Z", want: waiting.Frozen, until: "2026-12-27T00:00:00Z"},
		"only for its own object":       {gates: []string{"+freeze 2026-12-27", "freeze 2026-11-23"}, now: "2026-11-22T10:00:00Z", deploys: true, want: waiting.Frozen, until: "2026-11-23T00:00:00Z"},
		// Clocks in Berlin go forward on 2026-03-29 from 2:00 to 3:00, and back on 2026-10-25 from 3:00 to 2:00.
		"a start in the hour that is skipped does not open":     {gates: []string{"window 30 2 29 3 * 4h Europe/Berlin"}, now: "2026-03-29T02:00:00Z", want: waiting.Window, until: "2027-03-29T00:30:00Z"},
		"a window over the hour that is skipped has its length": {gates: []string{"window 0 1 * * * 3h Europe/Berlin"}, now: "2026-03-29T02:59:59Z"},
		"and not more":                          {gates: []string{"window 0 1 * * * 3h Europe/Berlin"}, now: "2026-03-29T03:00:00Z", want: waiting.Window, until: "2026-03-29T23:00:00Z"},
		"after the change it opens as before":   {gates: []string{hours}, now: "2026-03-30T07:00:00Z"},
		"and not earlier":                       {gates: []string{hours}, now: "2026-03-30T06:59:59Z", want: waiting.Window, until: "2026-03-30T07:00:00Z"},
		"the hour that is repeated is in it":    {gates: []string{"window 0 1 * * * 2h Europe/Berlin"}, now: "2026-10-25T00:59:59Z"},
		"and the window is not longer for that": {gates: []string{"window 0 1 * * * 2h Europe/Berlin"}, now: "2026-10-25T01:00:00Z", want: waiting.Window, until: "2026-10-26T00:00:00Z"},
		// Clocks in Cairo go forward on Friday, 2026-04-24, from 0:00 to 1:00.
		"a day without midnight has its window": {gates: []string{"window 0 9 * * 5 10h Africa/Cairo"}, now: "2026-04-24T08:00:00Z"},
		"and it is in sight before":             {gates: []string{"window 0 9 * * 5 1h Africa/Cairo"}, now: "2026-04-23T08:00:00Z", want: waiting.Window, until: "2026-04-24T06:00:00Z"},
		"it may begin with the day":             {gates: []string{"window 0 1 * * 5 1h Africa/Cairo"}, now: "2026-04-23T08:00:00Z", want: waiting.Window, until: "2026-04-23T22:00:00Z"},
		"it may have a date":                    {gates: []string{"window 0 9 24 4 5 1h Africa/Cairo"}, now: "2026-04-23T08:00:00Z", want: waiting.Window, until: "2026-04-24T06:00:00Z"},
		"but its midnight opens nothing":        {gates: []string{"window 0 0 * * 5 1h Africa/Cairo"}, now: "2026-04-23T08:00:00Z", want: waiting.Window, until: "2026-04-30T21:00:00Z"},
		"the day before does not last into it":  {gates: []string{"window 0 9 * * 4 1h Africa/Cairo"}, now: "2026-04-23T08:00:00Z", want: waiting.Window, until: "2026-04-30T06:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			got := waiting.ForTime(gates(t, test.gates...), test.deploys, at(t, test.now))
			until := ""
			if !got.Until.IsZero() {
				until = got.Until.UTC().Format(time.RFC3339)
			}
			if got.Reason != test.want || until != test.until {
				t.Errorf("it waits %s; want %s until %s", got, test.want, test.until)
			}
		})
	}
}

// The most windows, and the longest, are read.
func TestTheMostWindows(t *testing.T) {
	for _, text := range []string{strings.Repeat("0 9 * * * 8h;", 15) + "0 9 * * * 8h", "0 9 * * * 8784h"} {
		if _, err := waiting.ParseWindow(text, "annotation x"); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A setting that cannot be read makes everything wait, and the error names what is wrong.
func TestSettingsThatCannotBeRead(t *testing.T) {
	for text, want := range map[string]string{
		"advance ":                         `"" is not known: want auto, on-deploy or manual`,
		"advance Manual":                   `"Manual" is not known: want auto, on-deploy or manual`,
		"freeze tomorrow":                  `"tomorrow" is not a time such as 2026-12-27T00:00:00Z or a date such as 2026-12-27`,
		"freeze 0":                         `"0" is not a time such as 2026-12-27T00:00:00Z or a date such as 2026-12-27`,
		"freeze 2026-12-27T00:00:00":       `"2026-12-27T00:00:00" is not a time such as 2026-12-27T00:00:00Z or a date such as 2026-12-27`,
		"window 0":                         `"0" is not a window: want five fields of cron, a duration and a time zone, such as "0 9 * * 1-5 8h Europe/Berlin"`,
		"window ":                          `"" is not a window: want five fields of cron, a duration and a time zone, such as "0 9 * * 1-5 8h Europe/Berlin"`,
		"window 0 9 * * 1-5 8h Berlin":     `"Berlin" is not a time zone such as Europe/Berlin`,
		"window 0 9 * * 1-5 8h Local":      `"Local" is not a time zone such as Europe/Berlin`,
		"window 0 9 * * 1-5 8":             `"8" is not a duration such as 8h, of at most 8784h0m0s`,
		"window 0 9 * * 1-5 0s":            `"0s" is not a duration such as 8h, of at most 8784h0m0s`,
		"window 0 9 * * 1-5 -8h":           `"-8h" is not a duration such as 8h, of at most 8784h0m0s`,
		"window 0 9 * * 1-5 9000h":         `"9000h" is not a duration such as 8h, of at most 8784h0m0s`,
		"window 0 25 * * 1-5 8h":           `"0 25 * * 1-5" are not five fields of cron: "end of range (25) above maximum (23): 25"`,
		"window @daily * * * * 8h":         `"@daily * * * *" are not five fields of cron`,
		"window TZ=Europe/Rome 9 * * 1 8h": `"TZ=Europe/Rome 9 * * 1" are not five fields of cron`,
		"window 0 9 * * * 8h;":             `"" is not a window: want five fields of cron, a duration and a time zone, such as "0 9 * * 1-5 8h Europe/Berlin"`,
		"window " + strings.Repeat("0 9 * * * 8h;", 16) + "0 9 * * * 8h": `it has 17 windows: want at most 16`,
		"window " + strings.Repeat("0,", 251) + "0 9 * * * 8h":           `a window is longer than 512 bytes: "` + strings.Repeat("0,", 32) + `"…`,
	} {
		kind, value, _ := strings.Cut(text, " ")
		parse := map[string]func(string, string) (waiting.Gate, error){
			"advance": waiting.ParseAdvance, "freeze": waiting.ParseFreeze, "window": waiting.ParseWindow}[kind]
		g, err := parse(value, "annotation x")
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		wait := waiting.ForAct([]waiting.Gate{g}, true)
		if !wait.Invalid || wait.String() != "until annotation x is corrected, which cannot be read" {
			t.Errorf("%s: it waits %s", text, wait)
		}
	}
}

// Every minute of an hour, one by one, is shorter.
func TestALongWindow(t *testing.T) {
	text := "0 9 * * * 8h"
	if _, err := waiting.ParseWindow(text+strings.Repeat(" ", 512-len(text)), "annotation x"); err != nil {
		t.Error(err)
	}
}

func TestTextOfAWait(t *testing.T) {
	for want, wait := range map[string]waiting.Wait{
		"until a person advances it (annotation confrev.io/advance)": {Reason: waiting.Manual, By: "annotation confrev.io/advance"},
		"for a deploy (label confrev.io/advance)":                    {Reason: waiting.OnDeploy, By: "label confrev.io/advance"},
		"until 2026-12-27T00:00:00Z (annotation confrev.io/freeze-until of configmap/app)": {
			Reason: waiting.Frozen, By: "annotation confrev.io/freeze-until of configmap/app", Until: time.Date(2026, 12, 27, 1, 0, 0, 0, time.FixedZone("", 3600))},
		"for a time at which every window is open, and none is in sight (annotation confrev.io/window)": {Reason: waiting.Window, By: "annotation confrev.io/window"},
		"until the controller advances it": {},
	} {
		if got := wait.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Each wait that ends by itself ends when it says, and not before; and what waits for an act passes when that act comes.
func TestAWaitEndsWhenItSays(t *testing.T) {
	settings := []string{
		"advance manual", "advance on-deploy", "freeze 2026-11-25", "+freeze 2026-12-01T12:00:00Z", "window 0 9 * * 1-5 8h Europe/Berlin",
		"window */30 * * * * 10m", "+window 0 0 * * 0 24h America/New_York", "window 15 6 1 * * 72h; 0 22 * * 5 5h Australia/Lord_Howe",
	}
	rapid.Check(t, func(rt *rapid.T) {
		all := gates(t, rapid.SliceOfNDistinct(rapid.SampledFrom(settings), 0, 4, rapid.ID).Draw(rt, "settings")...)
		now := time.Unix(rapid.Int64Range(1795000000, 1830000000).Draw(rt, "now"), 0).UTC()
		deploys := rapid.Bool().Draw(rt, "deploys")
		wait := waiting.ForTime(all, deploys, now)
		if wait.Reason == "" || wait.Until.IsZero() {
			if act := waiting.ForAct(all, deploys); act.Reason != "" && !act.Until.IsZero() {
				rt.Fatalf("it waits %s for an act, which has no time", act)
			}
			return
		}
		if !wait.Until.After(now) {
			rt.Fatalf("at %s, it waits %s", now, wait)
		}
		if after := waiting.ForTime(all, deploys, wait.Until); after.Reason != "" {
			rt.Fatalf("it waits %s, and then %s", wait, after)
		}
		before := now.Add(time.Duration(rapid.Int64Range(0, int64(wait.Until.Sub(now))-1).Draw(rt, "before")))
		if early := waiting.ForTime(all, deploys, before); early.Reason == "" {
			rt.Fatalf("it waits %s, and not at %s", wait, before)
		}
		if !slices.Contains(waiting.Reasons, wait.Reason) {
			rt.Fatalf("reason %s", wait.Reason)
		}
	})
}

// Rule 34: a window opens whenever the clocks of its zone show its fields, also around the hours that they skip or repeat. Windows of a minute are
// compared with a walk from minute to minute.
func TestWindowsOpenWhenTheClocksSayTheirFields(t *testing.T) {
	zones := []string{"Africa/Cairo", "America/Havana", "Asia/Beirut", "Australia/Lord_Howe", "Europe/Berlin", "America/New_York"}
	rapid.Check(t, func(rt *rapid.T) {
		zone, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(rt, "zone"))
		if err != nil {
			rt.Fatal(err)
		}
		// The next time that the clocks are changed, and two days around it.
		_, change := time.Date(2026, time.Month(rapid.IntRange(1, 12).Draw(rt, "month")), 1, 0, 0, 0, 0, zone).ZoneBounds()
		now := change.Add(-24 * time.Hour).Add(time.Duration(rapid.IntRange(0, 48*60).Draw(rt, "minutes")) * time.Minute)
		minute, hour, weekday := rapid.SampledFrom([]int{0, 30}).Draw(rt, "minute"), rapid.IntRange(0, 23).Draw(rt, "hour"), rapid.IntRange(0, 7).Draw(rt, "weekday")
		days, daily := strconv.Itoa(weekday), weekday == 7
		if daily {
			days = "*"
		}
		want := now
		for ; ; want = want.Add(time.Minute) {
			if want.Minute() == minute && want.Hour() == hour && (daily || int(want.Weekday()) == weekday) {
				break
			}
		}
		wait := waiting.ForTime(gates(rt, fmt.Sprintf("window %d %d * * %s 1m %s", minute, hour, days, zone)), false, now)
		if got := wait.Until; want.Equal(now) != (wait.Reason == "") || !want.Equal(now) && !got.Equal(want) {
			rt.Fatalf("at %s, it waits %s; want %s", now, wait, want)
		}
	})
}

// No text makes the parser panic or search for long, and what cannot be read always waits.
func FuzzParseWindow(f *testing.F) {
	for _, text := range []string{"0 9 * * 1-5 8h Europe/Berlin", "*/5 * * * * 1m; 0 0 30 2 * 1h", "0 9 * * 1-5 8h ../x", "TZ= 1 2 3 4 5h"} {
		f.Add(text)
	}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		g, err := waiting.ParseWindow(text, "x")
		if (err != nil) != g.Invalid || err != nil && waiting.ForAct([]waiting.Gate{g}, true).Reason == "" {
			t.Fatalf("%+v, %v", g, err)
		}
		if wait := waiting.ForTime([]waiting.Gate{g}, false, now); !wait.Until.IsZero() && !wait.Until.After(now) {
			t.Fatalf("it waits %s", wait)
		}
	})
}

// Rules 37 and 38.
func TestWaitForATurn(t *testing.T) {
	turn := func(reason waiting.Reason) waiting.Wait {
		return waiting.Turn(reason, "by", "configmap/app", time.Time{})
	}
	for name, test := range map[string]struct {
		turns         []waiting.Wait
		alone, deploy waiting.Reason
	}{
		"nothing spreads":                       {},
		"a wave":                                {turns: []waiting.Wait{turn(waiting.Wave)}, alone: waiting.Wave, deploy: waiting.Wave},
		"a deploy does not wait for a budget":   {turns: []waiting.Wait{turn(waiting.Budget)}, alone: waiting.Budget},
		"a deploy waits for what is left":       {turns: []waiting.Wait{turn(waiting.Budget), turn(waiting.Baking)}, alone: waiting.Baking, deploy: waiting.Baking},
		"the most urgent of several is said":    {turns: []waiting.Wait{turn(waiting.Baking), turn(waiting.Stage), turn(waiting.Wave)}, alone: waiting.Stage, deploy: waiting.Stage},
		"what waits for a person is not a turn": {turns: []waiting.Wait{waiting.ForStop("configmap/app"), {Reason: waiting.Manual}}},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(test.turns)
			if got := waiting.ForTurn(test.turns, false).Reason; got != test.alone {
				t.Errorf("waits for %q, want %q", got, test.alone)
			}
			if got := waiting.ForTurn(test.turns, true).Reason; got != test.deploy {
				t.Errorf("a deploy waits for %q, want %q", got, test.deploy)
			}
			if !slices.Equal(before, test.turns) {
				t.Errorf("the turns changed: %v", test.turns)
			}
		})
	}
}

func TestTextOfATurn(t *testing.T) {
	for want, wait := range map[string]waiting.Wait{
		"until a person resumes it (annotation confrev.io/stop of configmap/app)":            waiting.ForStop("configmap/app"),
		"for its turn (by; how far it is: kubectl confrev status configmap/app)":             waiting.Turn(waiting.Wave, "by", "configmap/app", time.Time{}),
		"for a time at which every window is open, and none is in sight (annotation window)": {Reason: waiting.Window, By: "annotation window"},
		"until the controller advances it":                                                   {},
	} {
		if got := wait.String(); got != want {
			t.Errorf("%+v: %q, want %q", wait, got, want)
		}
	}
}
