package reconcile

import (
	"cmp"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// revisionOf returns a revision of a source with a value, and a pin of it.
func revisionOf(source, value, number string) (*corev1.ConfigMap, string) {
	data := gen.ConfigMap(source, gen.Data("k", value))
	hash := content.FromConfigMap(data).Hash()
	made := gen.ConfigMap(content.RevisionName(source, hash, 0), data.Data)
	made.Immutable = new(true)
	made.Labels = map[string]string{keys.Content: string(hash), keys.Source: source}
	made.Annotations = map[string]string{keys.SourceName: source, keys.Number: number}
	return made, "configmap/" + source + "=" + made.Name + "@" + number
}

// Rule 40: sources that moved together go back together, also one whose changes do not spread. Since nothing stops its changes, no one can end a stop of
// it: its hold is one as after any other rollback.
func TestUndoBringsBackWhatMovedTogether(t *testing.T) {
	app, db := gen.Source("configmap/app"), gen.Source("configmap/db")
	onFailure := func(what, after string) map[string]string {
		return map[string]string{keys.OnFailure: what, keys.StopAfter: after}
	}
	for name, test := range map[string]struct {
		settings map[string]string
		earlier  map[pin.Source]bool
		codes    map[pin.Source]string
		image    string
		undone   []string
		back     []pin.Source
		stop     int
	}{
		"only one spreads":              {back: []pin.Source{app, db}},
		"nothing stops it":              {settings: map[string]string{keys.Bake: "1m"}, back: []pin.Source{app, db}},
		"both can be stopped":           {settings: onFailure("stop", "1"), back: []pin.Source{app, db}, stop: 1},
		"a failure does not stop it":    {settings: onFailure("undo", "2"), back: []pin.Source{app, db}},
		"those that go back do":         {settings: onFailure("undo", "2"), undone: []string{"deployment/other"}, back: []pin.Source{app, db}, stop: 1},
		"the other does not have it":    {settings: onFailure("undo", "2"), undone: []string{"deployment/third"}, back: []pin.Source{app, db}},
		"it moved before, alone":        {earlier: map[pin.Source]bool{db: true}, back: []pin.Source{app}},
		"other code was deployed since": {image: "2"},
		"with the change to the other":  {earlier: map[pin.Source]bool{app: true}, codes: map[pin.Source]string{app: "other"}},
	} {
		t.Run(name, func(t *testing.T) {
			appA, pinA := revisionOf("app", "a", "1")
			appB, pinB := revisionOf("app", "b", "2")
			dbA, pinDBA := revisionOf("db", "a", "1")
			dbB, pinDBB := revisionOf("db", "b", "2")
			before, now := pinA+","+pinDBA, pinB+","+pinDBB
			appNow, dbNow := gen.App("b"), gen.ConfigMap("db", gen.Data("k", "b"))
			appNow.Annotations = map[string]string{keys.OnFailure: "undo"}
			dbNow.Annotations = test.settings
			uses := gen.Template(gen.EnvFrom("configmap/db"))
			took := workload.Deployment.Facts(gen.Web("1", uses, gen.Pinned(now)))
			note := spread.Advance{To: gen.Pins(now), From: gen.Pins(before), Earlier: test.earlier, At: time.Now(), Code: took.Code, Codes: test.codes}
			d := gen.Web(cmp.Or(test.image, "1"), uses, gen.Pinned(now), gen.Annotated(keys.Advanced, note.String()))
			other := d.DeepCopy()
			other.Name, other.UID = "other", "other"
			w := newWorld(appNow, dbNow, appA, appB, dbA, dbB, d, other, gen.ReplicaSet("web-1", gen.Web("1", uses, gen.Pinned(before)), 1), gen.ReplicaSet("web-2", d, 2))
			c := &Conductor{Fleet: fleet.New(w.client, time.Now)}
			c.Fleet.Add(w.Engine)
			s := &fleet.Survey{Current: gen.Pins(now)[app]}
			s.Source, s.Record.Stops = revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: "app"}, 3
			stops := c.stopsOf(s, append(test.undone, "deployment/web"))
			if err := c.undoOne(t.Context(), s, fleet.Workload{Engine: w.Engine, Name: client.ObjectKeyFromObject(d)}, stops); err != nil {
				t.Fatal(err)
			}
			after := &appsv1.Deployment{}
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(d), after); err != nil {
				t.Fatal(err)
			}
			want := gen.Pins(now)
			for _, source := range test.back {
				want[source] = gen.Pins(before)[source]
			}
			if pins := after.Spec.Template.Annotations[keys.Pins]; pins != want.String() {
				t.Errorf("it is pinned to %s, want %s", pins, want)
			}
			held := gen.Notes(after.Annotations[keys.Held])
			if len(held) != len(test.back) || len(held) > 0 && held[app].Stop != 3 || held[db].Stop != test.stop {
				t.Errorf("it is held by %s", held)
			}
			// All workloads that use a source are looked at once for all that go back.
			if err := w.client.Delete(t.Context(), dbNow); err != nil {
				t.Fatal(err)
			}
			if stop, err := stops(t.Context(), db); err != nil || len(test.back) > 1 && stop != test.stop {
				t.Errorf("the next one is held by stop %d; %v", stop, err)
			}
		})
	}
}
