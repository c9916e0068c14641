package spread_test

import (
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

// Rules 37 and 40: a member that has vouched has done so for every process that comes later; one that takes the change later has not.
func TestWhoHasVouchedIsRecorded(t *testing.T) {
	took := func(text string, at map[string]time.Time) []spread.Member {
		all := members(text)
		for i := range all {
			all[i].Took = at[all[i].Name]
		}
		return all
	}
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
