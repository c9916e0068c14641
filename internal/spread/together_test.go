package spread_test

import (
	"maps"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/test/gen"
)

// Rule 40: what moved together goes back together, and with it what moved since. What moved before, and with which the workload was well, stays.
func TestWhatGoesBackTogether(t *testing.T) {
	app, db, log := gen.Source("configmap/app"), gen.Source("configmap/db"), gen.Source("configmap/log")
	at := func(source pin.Source, number int64) pin.Pin {
		return pin.Pin{Revision: source.Name + "-bbbbbbbbbb", Number: number}
	}
	first := spread.Advance{To: pin.Set{app: at(app, 2), db: at(db, 2)}, From: pin.Set{app: at(app, 1), db: at(db, 1)}}
	for name, test := range map[string]struct {
		pins    pin.Set
		settled bool
		want    map[pin.Source]pin.Set
	}{
		"well in between": {pin.Set{app: at(app, 2), db: at(db, 2), log: at(log, 2)}, true, map[pin.Source]pin.Set{
			log: {log: at(log, 1)}, app: {app: at(app, 1), db: at(db, 1), log: at(log, 1)},
		}},
		"never well": {pin.Set{app: at(app, 2), db: at(db, 2), log: at(log, 2)}, false, map[pin.Source]pin.Set{
			log: {app: at(app, 1), db: at(db, 1), log: at(log, 1)}, app: {app: at(app, 1), db: at(db, 1), log: at(log, 1)},
		}},
		"one has another pin since": {pin.Set{app: at(app, 2), db: at(db, 3), log: at(log, 2)}, false, map[pin.Source]pin.Set{
			log: {app: at(app, 1), log: at(log, 1)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			then := spread.Advance{To: pin.Set{log: at(log, 2)}, From: pin.Set{log: at(log, 1)}}
			then.Keep(first, test.pins, test.settled)
			read, ok := spread.ParseAdvance(then.String())
			if !ok || !maps.Equal(read.Earlier, then.Earlier) {
				t.Errorf("read %v, %v", ok, read.Earlier)
			}
			for source, want := range test.want {
				if diff := gocmp.Diff(want, read.Back(source)); diff != "" {
					t.Errorf("with %s: %s", source, diff)
				}
			}
		})
	}
	// A later move does not make one that was earlier part of it.
	then := spread.Advance{To: pin.Set{}, From: pin.Set{}}
	first.Earlier = map[pin.Source]bool{db: true}
	if then.Keep(first, first.To, false); !then.Earlier[db] || then.Earlier[app] {
		t.Errorf("earlier are %v", then.Earlier)
	}
}

// Rule 40: a workload whose code has changed since it took a change does not go back from it, also if the deploy moved another source.
func TestTheCodeWithWhichEachSourceMoved(t *testing.T) {
	app, db, log := gen.Source("configmap/app"), gen.Source("configmap/db"), gen.Source("configmap/log")
	moved := func(source pin.Source, code string) spread.Advance {
		p := pin.Pin{Revision: source.Name + "-bbbbbbbbbb", Number: 2}
		return spread.Advance{To: pin.Set{source: p}, From: pin.Set{source: {Revision: p.Revision, Number: 1}}, Code: code}
	}
	note, pins := moved(app, "1"), moved(app, "1").To
	for _, next := range []spread.Advance{moved(db, "2"), moved(log, "2")} {
		maps.Copy(pins, next.To)
		next.Keep(note, pins, true)
		var ok bool
		if note, ok = spread.ParseAdvance(next.String()); !ok {
			t.Fatalf("%s cannot be read", next)
		}
	}
	if got := [...]string{note.CodeOf(app), note.CodeOf(db), note.CodeOf(log)}; got != [...]string{"1", "2", "2"} || len(note.Codes) != 1 {
		t.Errorf("they moved with %q: %s", got, note)
	}
	// An earlier version noted one for all.
	if old, ok := spread.ParseAdvance(moved(app, "1").String()); !ok || old.CodeOf(app) != "1" || old.Codes != nil {
		t.Errorf("it is read as %+v", old)
	}
}
