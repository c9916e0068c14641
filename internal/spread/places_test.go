package spread_test

import (
	"fmt"
	"testing"
	"time"

	"confrev.io/confrev/internal/spread"
)

var dawn = time.Unix(1_800_000_000, 0)

// Rule 37: a wave that has passed is known by its members. When its members leave, the next wave still needs someone who vouches.
func TestMembersOfPassedWavesLeave(t *testing.T) {
	const all = "a:Vouched@1 b:Waiting@2 c:Waiting@3"
	record := spread.Record{Revision: "uid", Number: 1}.With(spread.Look(members(all), settings(t, "", ""), 0, spread.Place{}), dawn)
	if record.Wave != 1 || record.Passed != (spread.Place{Wave: 1, Name: "a"}) {
		t.Fatalf("it records %s", record)
	}
	for text, want := range map[string]string{
		all:                                 "b",
		"b:Waiting@2 c:Waiting@3":           "b",
		"a:Apart@1 b:Waiting@2 c:Waiting@3": "b",
		"a:Apart@1 b:Rolling@2 c:Waiting@3": "",
		"b:Vouched@2 c:Waiting@3":           "",
		"0:Waiting@0 a:Vouched@1 b:Waiting@2 c:Waiting@3": "0 b",
		"0:Waiting@1 a:Vouched@1 b:Waiting@2 c:Waiting@3": "0 b",
		"a2:Waiting@1 b:Waiting@2 c:Waiting@3":            "a2",
	} {
		if got := going(spread.Look(members(text), settings(t, "", ""), 0, record.Passed)); got != want {
			t.Errorf("%s: %q go, want %q", text, got, want)
		}
	}
	// Once the next wave has passed, that is recorded, although no more waves have passed than before.
	s := spread.Look(members("b:Vouched@2 c:Waiting@3"), settings(t, "", ""), 0, record.Passed)
	next := record.With(s, dawn)
	if !record.IsBehind(next) || next.IsBehind(record) || next.Passed.Name != "b" {
		t.Errorf("it records %s", next)
	}
	if got := going(spread.Look(members("b:Vouched@2 c:Waiting@3"), settings(t, "", ""), 0, next.Passed)); got != "c" {
		t.Errorf("%q go", got)
	}
}

// Rule 39: waves keep their numbers when members of passed ones leave, or steps change. So what a person says of a wave is never about another.
func TestAPersonLetsAWavePassAfterMembersHaveLeft(t *testing.T) {
	for name, test := range map[string]struct {
		before, steps, now string
		first              int
		goes               map[int]string
	}{
		"no one has left":           {before: "a:Vouched@1 b:Idle@2 c:Waiting@3", now: "a:Vouched@1 b:Idle@2 c:Waiting@3", first: 1, goes: map[int]string{0: "", 1: "", 2: "c", 3: "c"}},
		"the first has left":        {before: "a:Vouched@1 b:Idle@2 c:Waiting@3", now: "b:Idle@2 c:Waiting@3", first: 2, goes: map[int]string{0: "", 1: "", 2: "c", 3: "c"}},
		"all but the last":          {before: "a:Vouched@1 b:Idle@2 c:Waiting@3", now: "c:Waiting@3", first: 2, goes: map[int]string{0: "c"}},
		"it is back":                {before: "a:Vouched@1 b:Idle@2 c:Waiting@3", now: "a:Rolling@1 b:Idle@2 c:Waiting@3", first: 1, goes: map[int]string{1: "", 2: "c"}},
		"the second, and steps":     {before: "a:Vouched b:Vouched c:Waiting d:Waiting", steps: "1,2", now: "a:Idle c:Idle d:Waiting@1", first: 3, goes: map[int]string{2: "", 3: "d"}},
		"one has joined before":     {before: "a:Vouched@1 b:Idle@2 c:Waiting@3", now: "0:Idle@0 a:Vouched@1 b:Idle@2 c:Waiting@3", first: 1, goes: map[int]string{2: "", 3: "c"}},
		"a step has become greater": {before: "a:Vouched b:Waiting c:Waiting d:Waiting", steps: "1", now: "a:Vouched b:Idle c:Idle d:Parked e:Waiting@1", first: 2, goes: map[int]string{1: "", 2: "e"}},
	} {
		t.Run(name, func(t *testing.T) {
			record := spread.Record{Revision: "uid", Number: 1}
			for range 2 {
				s := spread.Look(members(test.before), settings(t, test.steps, ""), 0, record.Passed)
				s.Continue(record, 0)
				record = record.With(s, dawn)
			}
			for past, want := range test.goes {
				s := spread.Look(members(test.now), settings(t, "", ""), 0, record.Passed)
				s.Continue(record, past)
				if got := going(s); got != want || s.Number(0) != test.first {
					t.Errorf("with %d passed, %q go, want %q; the first is wave %d, want %d", past, got, want, s.Number(0), test.first)
				}
				// Once that is recorded, it has no further effect.
				then := record.With(s, dawn)
				again := spread.Look(members(test.now), settings(t, "", ""), 0, then.Passed)
				again.Continue(then, past)
				if got := going(again); got != want || then.Wave < record.Wave || then.With(again, dawn).String() != then.String() {
					t.Errorf("afterwards, %q go, want %q; it records %s", got, want, then)
				}
			}
		})
	}
}

// took returns members with when they took the change.
func took(text string, at map[string]time.Time) []spread.Member {
	all := members(text)
	for i := range all {
		all[i].Took = at[all[i].Name]
	}
	return all
}

// Rules 37 and 40: a member that has vouched has done so for every process that comes later; one that takes the change later has not.
func TestWhoHasVouchedIsRecorded(t *testing.T) {
	at := map[string]time.Time{"a": dawn, "b": dawn, "c": dawn.Add(time.Hour), "0": dawn.Add(time.Hour)}
	vouched := func(r spread.Record) string {
		var names string
		for _, m := range took("0:Rolling@1 a:Rolling@1 b:Rolling@1 c:Rolling@1 d:Rolling@1 e:Rolling@2", at) {
			if r.HasVouched(m) {
				names += m.Name
			}
		}
		return names
	}
	tests := []struct {
		members string
		at      time.Duration
		want    string
	}{
		{"a:Vouched@1 b:Rolling@1", time.Minute, ""},
		{"a:Vouched@1 b:Vouched@1", time.Minute, "ab"},
		{"a:Rolling@1 b:Vouched@1", 2 * time.Minute, "ab"},
		{"a:Vouched@1 b:Vouched@1 c:Apart@1", 3 * time.Minute, "ab"},
		// A person lets two more go, after the others were done.
		{"0:Rolling@1 a:Vouched@1 b:Vouched@1 c:Rolling@1", 2 * time.Hour, "ab"},
		{"0:Vouched@1 a:Rolling@1 b:Vouched@1 c:Rolling@1", 3 * time.Hour, "0ab"},
		{"0:Vouched@1 a:Vouched@1 b:Vouched@1 c:Vouched@1", 4 * time.Hour, "0abc"},
	}
	record := spread.Record{Revision: "uid", Number: 1}
	for _, test := range tests {
		record = record.With(spread.Look(took(test.members, at), settings(t, "", ""), 0, record.Passed), dawn.Add(test.at))
		if got := vouched(record); got != test.want {
			t.Errorf("after %s: %q have vouched, want %q", test.members, got, test.want)
		}
	}
	again, ok := spread.ParseRecord(record.String())
	if !ok || again.Proven != record.Proven || again.ProvenAt != record.ProvenAt || again.Passed != record.Passed || !again.Decides() {
		t.Errorf("%s is read as %s", record, again)
	}
}

// Rules 37 and 40: a wave that does not pass, since it waits for someone who may take months, keeps no vouch from being recorded.
func TestVouchesAreRecordedWhileAWaveWaits(t *testing.T) {
	later := dawn.Add(time.Hour)
	at := map[string]time.Time{"a": dawn, "b": dawn, "c": dawn, "d": later, "e": dawn, "0": later}
	for name, test := range map[string]struct {
		before, now, steps, rolling string
		stopped                     bool
		want                        string
	}{
		"one is paused":                      {now: "a:Vouched b:Later c:Vouched", want: "ac"},
		"one needs a person":                 {now: "a:Vouched b:Parked c:Vouched", want: "ac"},
		"one has failed":                     {now: "a:Vouched b:Failed c:Vouched", want: "ac"},
		"one cannot get well":                {now: "a:Vouched b:Parked c:Unwell", want: "a"},
		"one rolls out":                      {now: "a:Vouched b:Later c:Rolling", want: ""},
		"one bakes":                          {now: "a:Vouched b:Later c:Baking", want: ""},
		"one may go":                         {now: "a:Vouched b:Later c:Waiting", want: ""},
		"the change is stopped":              {now: "a:Vouched b:Waiting c:Failed", stopped: true, want: "a"},
		"one has no place":                   {now: "a:Failed b:Waiting c:Vouched", rolling: "1", want: "c"},
		"no one has vouched":                 {now: "a:Failed b:Later", want: ""},
		"a person let one go":                {now: "a:Later b:Waiting@1 c:Vouched@1", want: "c"},
		"the next wave has not begun":        {now: "a:Vouched b:Parked c:Waiting@1", want: "a"},
		"the other vouches later":            {before: "a:Vouched b:Parked c:Vouched", now: "a:Vouched b:Vouched c:Vouched", want: "abc"},
		"it lost a pod meanwhile":            {before: "a:Vouched b:Parked c:Vouched", now: "a:Failed b:Parked c:Vouched", want: "ac"},
		"the one that was paused rolls out":  {before: "a:Vouched d:Later e:Vouched", now: "a:Vouched d:Rolling e:Vouched", want: "ae"},
		"the one that was paused has failed": {before: "a:Vouched d:Later e:Vouched", now: "a:Vouched d:Failed e:Vouched", want: "ae"},
		"the one that was paused vouches":    {before: "a:Vouched d:Later e:Vouched", now: "a:Vouched d:Vouched e:Vouched", want: "ade"},
		"two came later, and one vouches":    {before: "0:Later a:Vouched d:Later e:Vouched", now: "0:Failed a:Vouched d:Vouched e:Vouched", want: "ade"},
	} {
		t.Run(name, func(t *testing.T) {
			record := spread.Record{Revision: "uid", Number: 1}
			for i, text := range []string{test.before, test.now} {
				s := spread.Look(took(text, at), settings(t, test.steps, test.rolling), 0, record.Passed)
				s.Stopped = test.stopped
				record = record.With(s, dawn.Add(time.Duration(i)*2*time.Hour).Add(time.Minute))
				if again := record.With(s, dawn.Add(9*time.Hour)); again.String() != record.String() {
					t.Errorf("nothing is new, and it records %s after %s", again, record)
				}
			}
			read, ok := spread.ParseRecord(record.String())
			if !ok {
				t.Fatalf("%s cannot be read", record)
			}
			var got string
			for _, m := range took(test.now, at) {
				if read.HasVouched(m) && m.Stage != spread.Later && m.Stage != spread.Waiting && m.Stage != spread.Unwell {
					got += m.Name
				}
			}
			if got != test.want {
				t.Errorf("%q have vouched, want %q: %s", got, test.want, read)
			}
		})
	}
	// The record has room for some that have not vouched. Beyond, it waits for their wave.
	for n, want := range map[int]bool{100: true, 101: false} {
		all := members("z:Vouched a:Vouched@-1 m:Parked")
		for i := range n - 1 {
			all = append(all, spread.Member{Name: fmt.Sprintf("m%03d", i), Stage: spread.Parked})
		}
		for i := range all {
			all[i].Took = dawn
		}
		record := spread.Record{Revision: "uid", Number: 1}.With(spread.Look(all, settings(t, "", ""), 0, spread.Place{}), dawn)
		if record.HasVouched(all[0]) != want || !record.HasVouched(all[1]) || record.HasVouched(all[2]) {
			t.Errorf("with %d others: %s", n, record)
		}
	}
}
