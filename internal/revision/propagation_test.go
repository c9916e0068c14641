package revision

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/test/gen"
)

// Rules 12 and 40: the write that notes a decision keeps the note from being deleted with the workloads that the decision is about. A note that
// cannot be kept so is written anyway.
func TestANoteMayOutlastTheUsersOfItsRevision(t *testing.T) {
	deployment := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "2"}
	other := Owner{APIVersion: "v1", Kind: "Other", Name: "other", UID: "9"}
	anchor := Owner{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName, UID: "uid-of-anchor"}
	noted := spread.Record{Revision: "x", Number: 9, Stops: 1}
	forged := ownedBy(deployment)
	forged.Data["k"] = "w"
	for name, test := range map[string]struct {
		revision client.Object
		outlasts bool
		anchor   client.Object
		want     []string
	}{
		"it need not":                    {revision: ownedBy(deployment), anchor: anchorObject(map[string]string{keys.Anchor: "true"}), want: []string{"web"}},
		"it does":                        {revision: ownedBy(other, deployment), outlasts: true, anchor: anchorObject(map[string]string{keys.Anchor: "true"}), want: []string{"other", AnchorName}},
		"without any owner":              {revision: ownedBy(), outlasts: true, anchor: anchorObject(map[string]string{keys.Anchor: "true"}), want: []string{AnchorName}},
		"the anchor owns it already":     {revision: ownedBy(anchor), outlasts: true, anchor: anchorObject(map[string]string{keys.Anchor: "true"}), want: []string{AnchorName}},
		"there is no anchor yet":         {revision: ownedBy(deployment), outlasts: true, want: []string{AnchorName}},
		"something else has its name":    {revision: ownedBy(deployment), outlasts: true, anchor: anchorObject(nil), want: []string{"web"}},
		"its name is not of its content": {revision: forged, outlasts: true, anchor: anchorObject(map[string]string{keys.Anchor: "true"}), want: []string{"web"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{test.revision.DeepCopyObject().(client.Object)}
			if test.anchor != nil {
				objects = append(objects, test.anchor)
			}
			store, c, sent := storeOf(t, objects...)
			if err := store.SetPropagation(t.Context(), Ref{pin.ConfigMap, gen.Namespace, appX}, noted, test.outlasts); err != nil {
				t.Fatal(err)
			}
			meta := metadataOf(t, c)
			if diff := cmp.Diff(test.want, ownerNames(meta)); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			if meta.Annotations[keys.Propagation] != noted.String() || len(*sent) != 1 {
				t.Errorf("sent %q", *sent)
			}
		})
	}
}

// Rule 40: what was decided about a change is kept when only what workloads note raises the number of its revision, and is void once other content was
// current in between. Workloads that took the change before have it still.
func TestARaisedNumberKeepsWhatWasDecided(t *testing.T) {
	const mine, uid = int64(3), "mine"
	stop := func(number, since int64) spread.Record {
		return spread.Record{Revision: uid, Number: number, Since: since, Wave: 2, Stops: 1}
	}
	for name, test := range map[string]struct {
		record spread.Record
		// other is the number of the other revision; 0 if there is none.
		other, raised int64
		want          spread.Record
		since         int64
	}{
		"only workloads show a higher one": {record: stop(3, 0), other: 2, raised: 1000, want: stop(1000, 3), since: 3},
		"there is no other revision":       {record: stop(3, 0), raised: 8, want: stop(8, 3), since: 3},
		"it was raised before":             {record: stop(3, 2), other: 1, raised: 8, want: stop(8, 2), since: 2},
		"nothing was decided yet":          {other: 2, raised: 8, want: spread.Record{Revision: uid, Number: 8, Since: 3}, since: 3},
		"other content was there":          {record: stop(3, 0), other: 4, raised: 5, want: stop(3, 0), since: 5},
		"both":                             {record: stop(3, 0), other: 4, raised: 9, want: spread.Record{Revision: uid, Number: 9, Since: 5}, since: 5},
		"it was void already":              {record: stop(1, 0), other: 2, raised: 8, want: spread.Record{Revision: uid, Number: 8, Since: 3}, since: 3},
		"it was about the number to come":  {record: stop(5, 0), other: 4, raised: 9, want: stop(9, 5), since: 5},
		"it is about another object":       {record: spread.Record{Revision: "other", Number: 3, Stops: 1, Version: "1"}, raised: 8, want: spread.Record{Revision: uid, Number: 8, Since: 3}, since: 3},
	} {
		for by, raise := range map[string]func(*Store, Ref, Observation, pin.Pin) error{
			"a look": func(s *Store, ref Ref, seen Observation, p pin.Pin) error {
				return s.Refresh(t.Context(), ref, seen, p)
			},
			"a pin": func(s *Store, ref Ref, seen Observation, p pin.Pin) error {
				_, _, err := s.Ensure(t.Context(), ref, seen, p.Number, Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "1"})
				return err
			},
		} {
			t.Run(name+", by "+by, func(t *testing.T) {
				made := claiming(nameOfValue("a", 0), "a", "a")
				made.UID, made.Annotations[keys.Number] = uid, strconv.FormatInt(mine, 10)
				if test.record.Revision != "" {
					made.Annotations[keys.Propagation] = test.record.String()
				}
				objects := []client.Object{gen.ConfigMap("app", map[string]string{"k": "a"}), made}
				if test.other > 0 {
					other := claiming(nameOfValue("b", 0), "b", "b")
					other.Annotations[keys.Number] = strconv.FormatInt(test.other, 10)
					objects = append(objects, other)
				}
				store, c, _ := observing(t, objects...)
				if err := raise(store, Ref{pin.ConfigMap, gen.Namespace, "app"}, observe(t, store, c, made.Name), pin.Pin{Revision: made.Name, Number: test.raised}); err != nil {
					t.Fatal(err)
				}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil {
					t.Fatal(err)
				}
				if got := made.Annotations[keys.Propagation]; number(made) != test.raised || got != test.want.String() {
					t.Errorf("number %d, and %s is noted; want %d and %s", number(made), got, test.raised, test.want)
				}
				if got := observe(t, store, c, made.Name).Since(); got != test.since {
					t.Errorf("current since %d, want %d", got, test.since)
				}
			})
		}
	}
}

// Rule 40: a decision from before the number was raised does not replace the record that was carried over.
func TestALateRecordDoesNotReplaceTheOneThatWasCarriedOver(t *testing.T) {
	raised := ownedBy()
	raised.Annotations[keys.Number] = "1000"
	store, _, sent := storeOf(t, raised)
	err := store.SetPropagation(t.Context(), Ref{pin.ConfigMap, gen.Namespace, appX}, spread.Record{Revision: "x", Number: 3, Wave: 1}, false)
	if !IsChanged(err) || len(*sent) > 0 {
		t.Errorf("%v, sent %q", err, *sent)
	}
}
