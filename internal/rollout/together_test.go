package rollout

import (
	"context"
	"maps"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rules 34 and 40: a workload notes all that moves together, if one of the changes spreads, and what has moved before as such.
func TestWhatIsNotedOfAnAdvance(t *testing.T) {
	app, db, log := gen.Source("configmap/app"), gen.Source("configmap/db"), gen.Source("configmap/log")
	before := gen.PinOfApp("a", "1") + ",configmap/db=" + content.RevisionName("db", content.FromConfigMap(gen.App("a")).Hash(), 0) + "@1"
	logged := "configmap/log=" + content.RevisionName("log", content.FromConfigMap(gen.App("b")).Hash(), 0) + "@2"
	for name, test := range map[string]struct {
		spreads []string
		edited  string
		noted   []pin.Source
	}{
		"one of two spreads":     {[]string{"app"}, "b", []pin.Source{app, db}},
		"both spread":            {[]string{"app", "db"}, "b", []pin.Source{app, db}},
		"none spreads":           {nil, "b", nil},
		"what spreads stays":     {[]string{"app"}, "a", nil},
		"what moved before, too": {[]string{"app", "log"}, "b", []pin.Source{app, db}},
	} {
		t.Run(name, func(t *testing.T) {
			appNow, dbNow, logNow := gen.ConfigMap("app", gen.Data("k", test.edited)), gen.ConfigMap("db", gen.Data("k", "b")), gen.ConfigMap("log", gen.Data("k", "b"))
			settings := map[string]string{keys.OnFailure: "undo"}
			for _, source := range test.spreads {
				switch source {
				case "app":
					appNow.Annotations = settings
				case "db":
					dbNow.Annotations = settings
				case "log":
					logNow.Annotations = settings
				}
			}
			note := spread.Advance{To: gen.Pins(logged), From: pin.Set{log: {Revision: "log-bbbbbbbbbb", Number: 1}}, At: time.Now(), Code: "other"}.String()
			d := gen.Web("1", gen.Template(gen.EnvFrom("configmap/db"), gen.EnvFrom("configmap/log")), gen.Pinned(before+","+logged), gen.Annotated(keys.Advanced, note))
			w := newAdmissionWorld(t, workload.Deployment, appNow, dbNow, logNow, gen.RevisionOfApp("a", "1"), d, gen.ReplicaSet("web-1", d, 1))
			look, err := w.Assess(t.Context(), d, nil)
			if err != nil {
				t.Fatal(err)
			}
			text := look.want.advanced(w.Engine, d, look.seen)
			if test.noted == nil {
				if text != note {
					t.Errorf("it notes %s", text)
				}
				return
			}
			got, ok := spread.ParseAdvance(text)
			if !ok {
				t.Fatalf("it notes %s", text)
			}
			to, from := pin.Set{log: gen.Pins(logged)[log]}, pin.Set{log: {Revision: "log-bbbbbbbbbb", Number: 1}}
			for _, source := range test.noted {
				to[source], from[source] = look.Pins.Pins[source], gen.Pins(before)[source]
			}
			if diff := gocmp.Diff([]any{to, from, map[pin.Source]bool{log: true}}, []any{got.To, got.From, got.Earlier}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// turns are others that let a workload take the changes to some sources, and know in which it has a place.
type turns struct {
	stopped
	waits  map[string]bool
	places map[string]bool
}

func (o turns) Turn(_ context.Context, change Spreading, _ string) (waiting.Wait, error) {
	if name := change.Source.Name; !o.waits[name] {
		o.places[name] = true
		return waiting.Wait{}, nil
	}
	return waiting.Turn(waiting.Wave, "test", change.Source.Text(), time.Time{}), nil
}

func (o turns) GiveBack(_ context.Context, change Spreading, _ string) {
	delete(o.places, change.Source.Name)
}

// Rules 34 and 38: what waits for its turn holds back what would move together with it, and that takes up no place meanwhile.
func TestWhatWaitsTogetherTakesUpNoPlace(t *testing.T) {
	before := gen.PinOfApp("a", "1") + ",configmap/db=" + content.RevisionName("db", content.FromConfigMap(gen.App("a")).Hash(), 0) + "@1"
	for name, test := range map[string]struct {
		waits, places map[string]bool
	}{
		"both may go":     {nil, map[string]bool{"app": true, "db": true}},
		"one has to wait": {map[string]bool{"app": true}, map[string]bool{}},
		"the other has":   {map[string]bool{"db": true}, map[string]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			app, db := gen.App("b"), gen.ConfigMap("db", gen.Data("k", "b"))
			app.Annotations, db.Annotations = map[string]string{keys.MaxRolling: "1"}, map[string]string{keys.MaxRolling: "1"}
			d := gen.Web("1", gen.Template(gen.EnvFrom("configmap/db")), gen.Pinned(before))
			w := newAdmissionWorld(t, workload.Deployment, app, db, gen.RevisionOfApp("a", "1"), d, gen.ReplicaSet("web-1", d, 1))
			others := turns{waits: test.waits, places: map[string]bool{}}
			w.Others = others
			look, err := w.Assess(t.Context(), d, nil)
			if err != nil {
				t.Fatal(err)
			}
			if advances := look.Pins.Pins.String() != before; !maps.Equal(others.places, test.places) || advances != (len(test.waits) == 0) {
				t.Errorf("it has places in %v; it advances: %v", others.places, advances)
			}
		})
	}
}
