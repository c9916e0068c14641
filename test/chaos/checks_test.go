//go:build chaos

package chaos

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"confrev.io/confrev/internal/keys"
)

// story is a journal that no cluster wrote, to show what the checks find.
type story struct {
	*play
	entries []entry
}

// tell returns a story of a history whose first steps wrote the first versions.
func tell(t *testing.T, steps string) *story {
	t.Helper()
	h, err := parseHistory(steps)
	if err != nil {
		t.Fatal(err)
	}
	w := cluster.WorldIn(t, "story")
	return &story{play: &play{World: &w, history: h, exists: map[ref]bool{}, deleted: map[types.UID]bool{}, recorder: &recorder{own: map[int64]int{}}}}
}

// then adds a version of an object, made by a step, or by no user if step is negative.
func (s *story) then(step int, event watch.EventType, obj *unstructured.Unstructured) {
	version := int64(len(s.entries) + 1)
	if step >= 0 {
		s.own[version] = step
	}
	obj = obj.DeepCopy()
	s.entries = append(s.entries, entry{version: version, event: event, ref: refOf(obj), uid: types.UID(refOf(obj)), obj: obj})
}

// plain makes an object what JSON would make it.
func plain(obj *unstructured.Unstructured) *unstructured.Unstructured {
	text, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	made := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, made); err != nil {
		panic(err)
	}
	return made
}

// web returns deployment/web with pins of configmap/one.
func web(pins string) *unstructured.Unstructured {
	obj := plain(workload("deployment/web"))
	if pins != "" {
		if err := unstructured.SetNestedField(obj.Object, pins, "spec", "template", "metadata", "annotations", keys.Pins); err != nil {
			panic(err)
		}
	}
	obj.SetUID("deployment/web")
	return obj
}

// set returns a ReplicaSet of deployment/web.
func set(name, pins string) *unstructured.Unstructured {
	obj := ref("replicaset/" + name).object()
	obj.Object["spec"] = map[string]any{"template": templateOf(web(pins))}
	obj.SetUID(types.UID("replicaset/" + name))
	obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(web(""), kinds["deployment"])})
	return obj
}

// pod returns a pod of a ReplicaSet, whose references to configmap/one are replaced.
func pod(of *unstructured.Unstructured, one string) *unstructured.Unstructured {
	obj := ref("pod/p").object()
	made := plain(&unstructured.Unstructured{Object: map[string]any{"kind": "x", "t": templateOf(of)}}).Object["t"].(map[string]any)
	obj.Object["spec"] = made["spec"]
	obj.SetAnnotations(map[string]string{keys.Pins: pinsText(templateOf(of))})
	eachReference(made["spec"], func(kind, field string, in map[string]any) {
		if kind == "configmap" {
			in[field] = one
		}
	})
	obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(of, kinds["replicaset"])})
	return obj
}

const (
	revisionA, revisionB = "one-bbbbbbbbbb", "one-cccccccccc"
	pinA, pinB           = "configmap/one=one-bbbbbbbbbb@1", "configmap/one=one-cccccccccc@2"
)

// expect checks that a complaint is there, or that there is none.
func expect(t *testing.T, wrong []string, want string) {
	t.Helper()
	if got := strings.Join(wrong, "\n"); want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("complaints: %q, want %q", got, want)
	}
}

// The checks find what is wrong, and only that: each of these has a story in which all is well, and one in which it is not.
func TestChecksFindPodsWithOtherReferences(t *testing.T) {
	for one, want := range map[string]string{revisionA: "", revisionB: "was created", "one": "was created"} {
		s := tell(t, "")
		s.then(-1, watch.Added, set("a", pinA))
		s.then(-1, watch.Added, pod(set("a", pinA), one))
		wrong, _ := checkPods(s.entries)
		expect(t, wrong, want)
	}
	s := tell(t, "")
	s.then(-1, watch.Added, set("a", "nonsense"))
	s.then(-1, watch.Added, pod(set("a", "nonsense"), "one"))
	wrong, _ := checkPods(s.entries)
	expect(t, wrong, "with the pins")
}

func TestChecksFindRolloutsWithoutReason(t *testing.T) {
	tests := map[string]struct {
		then []string
		want string
	}{
		"a rollout":                    {[]string{pinB}, ""},
		"several, for no reason":       {[]string{pinB, pinB + "0", pinB + "00", pinB + "000", pinB + "0000"}, "for no reason"},
		"one that goes back and forth": {[]string{pinB, pinA}, "flaps"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := tell(t, "create configmap/one\ncreate deployment/web\nedit configmap/one b")
			s.then(0, watch.Added, plain(source("configmap/one", "a", "x")))
			s.then(1, watch.Added, web(pinA))
			s.then(2, watch.Modified, plain(source("configmap/one", "b", "x")))
			for _, pins := range test.then {
				s.then(-1, watch.Modified, web(pins))
			}
			wrong, rollouts := s.checkRollouts(s.entries)
			expect(t, wrong, test.want)
			if rollouts != len(test.then) {
				t.Errorf("%d rollouts", rollouts)
			}
		})
	}
}

func TestChecksFindBrokenHolds(t *testing.T) {
	for later, want := range map[string]string{"": "", "edit": "", "restart": "and got"} {
		s := tell(t, "create configmap/one\ncreate deployment/web\nedit configmap/one b\nundo deployment/web\nedit configmap/one c\nrestart deployment/web")
		s.then(0, watch.Added, plain(source("configmap/one", "a", "x")))
		s.then(-1, watch.Added, plain(source(revisionRef(revisionA), "a", "x")))
		s.then(1, watch.Added, web(pinA))
		s.then(2, watch.Modified, plain(source("configmap/one", "b", "x")))
		s.then(-1, watch.Added, plain(source(revisionRef(revisionB), "b", "x")))
		s.then(-1, watch.Modified, web(pinB))
		s.then(-1, watch.Added, set("b", pinB))
		s.then(3, watch.Modified, web(pinA))
		switch later {
		case "edit":
			s.then(4, watch.Modified, plain(source("configmap/one", "c", "x")))
			s.then(-1, watch.Modified, web(pinB))
		case "restart":
			s.then(5, watch.Modified, web(pinA))
			s.then(-1, watch.Modified, web(pinB))
		}
		wrong, holds := s.checkHolds(s.entries)
		expect(t, wrong, want)
		if holds != 1 {
			t.Errorf("%q: %d holds", later, holds)
		}
	}
}

func revisionRef(name string) ref { return ref("configmap/" + name) }

func TestChecksFindChangesToOthers(t *testing.T) {
	change := func(event watch.EventType, before, after *unstructured.Unstructured) []string {
		s := tell(t, "create configmap/one")
		s.then(0, watch.Added, before)
		s.then(-1, event, after)
		return s.checkOthers(s.entries)
	}
	one, labeled := source("configmap/one", "a", "x"), source("configmap/one", "a", "x")
	labeled.SetLabels(map[string]string{keys.Source: "one"})
	expect(t, change(watch.Modified, one, labeled), "")
	expect(t, change(watch.Modified, one, source("configmap/one", "b", "x")), "was changed")
	expect(t, change(watch.Deleted, one, one), "by no user")
	expect(t, change(watch.Modified, source(unrelated, "a", "a"), source(unrelated, "b", "a")), "was changed")
	expect(t, change(watch.Deleted, forgery(forged), forgery(forged)), "by no user")
	expect(t, change(watch.Modified, web(pinA), web(pinB)), "")
	scaled := web(pinB)
	scaled.Object["spec"].(map[string]any)["replicas"] = int64(7)
	expect(t, change(watch.Modified, web(pinA), scaled), "was changed")
}

func TestLivingUsersAreFound(t *testing.T) {
	deployment, rs := web(pinA), set("a", pinA)
	p := pod(rs, revisionA)
	p.SetUID("p")
	all := map[types.UID]*unstructured.Unstructured{deployment.GetUID(): deployment, rs.GetUID(): rs, "p": p}
	for _, obj := range all {
		if !usedBy(obj)["configmap/"+revisionA] || usedBy(obj)["configmap/"+revisionB] || !lives(obj, all) {
			t.Errorf("%s: uses %v, lives %v", refOf(obj), usedBy(obj), lives(obj, all))
		}
	}
	delete(all, deployment.GetUID())
	if lives(rs, all) || lives(p, all) {
		t.Error("what goes with its Deployment counts as a user")
	}
}

func TestOnlyHoldersThatLostTheirWorkloadAreOrphans(t *testing.T) {
	owned, orphan, adopted, p := set("a", pinA), set("a", pinA), set("a", pinA), pod(set("a", pinA), revisionA)
	orphan.SetOwnerReferences(nil)
	p.SetOwnerReferences(nil)
	adopted.SetOwnerReferences([]metav1.OwnerReference{{UID: "adopter", Controller: new(true)}})
	created := &journal{entries: []entry{{event: watch.Added, uid: owned.GetUID(), obj: owned}}}
	for obj, want := range map[*unstructured.Unstructured]bool{owned: false, orphan: true, adopted: true, p: false, web(pinA): false} {
		if got := created.isOrphan(obj); got != want {
			t.Errorf("%s, owned by %v: %v", refOf(obj), obj.GetOwnerReferences(), got)
		}
	}
	if newJournal("any").isOrphan(adopted) {
		t.Error("a holder whose creation was not seen counts as an orphan")
	}
}
