package fleet

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
)

// Rule 38: a dry run whose turn has come takes up no place, and the request itself does.
func TestADryRunTakesUpNoPlace(t *testing.T) {
	f := New(nil, func() time.Time { return noon })
	asked := rollout.Spreading{Source: surveyed(0).Source, Meta: &metav1.PartialObjectMetadata{}}
	c := f.change(asked.Source)
	s := surveyed(0)
	s.at = noon
	s.Spread = spread.Look([]spread.Member{{Name: "a", Stage: spread.Waiting}, {Name: "b", Stage: spread.Waiting}}, spread.Settings{MaxRolling: []spread.Amount{{Number: 1}}}, 0, spread.Place{})
	c.begin(s)
	c.latest = s
	turn := func(dry bool, workload string) waiting.Reason {
		ctx := t.Context()
		if dry {
			ctx = revision.Provisional(ctx)
		}
		wait, err := f.Turn(ctx, asked, workload)
		if err != nil {
			t.Fatal(err)
		}
		return wait.Reason
	}
	if got := turn(true, "a"); got != "" || len(c.admitted) > 0 {
		t.Errorf("the dry run waits for %q, and %v were let go", got, c.admitted)
	}
	if got := turn(false, "a"); got != "" || len(c.admitted) != 1 {
		t.Errorf("the request waits for %q, and %v were let go", got, c.admitted)
	}
	if got := turn(true, "b"); got != waiting.Budget {
		t.Errorf("the next one waits for %q", got)
	}
	// Events are read where another namespace is the default, so their commands name it.
	if wait, err := f.Turn(t.Context(), asked, "b"); err != nil || !strings.HasSuffix(wait.String(), "kubectl confrev status configmap/app -n "+asked.Source.Namespace+")") {
		t.Errorf("the next one waits %s; %v", wait, err)
	}
}

// A survey that took long, because the API server or the machine was busy, does not put the next one off for long.
func TestASlowSurveyDoesNotPutTheNextOneOff(t *testing.T) {
	f, source := New(nil, func() time.Time { return noon }), surveyed(0).Source
	for cost, want := range map[time.Duration]time.Duration{0: 0, 10 * time.Millisecond: 100 * time.Millisecond, time.Minute: 5 * time.Second} {
		f.change(source).cost = cost
		if got := f.Pause(source); got != want {
			t.Errorf("after one of %s: %s, want %s", cost, got, want)
		}
	}
}

// Where confrev may not list pods, the log says so once for a change, and again only if that changes.
func TestWhyPodsCannotBeLookedAtIsSaidOnce(t *testing.T) {
	c := &change{}
	for i, test := range []struct {
		err  error
		news bool
	}{{nil, false}, {errors.New("forbidden"), true}, {errors.New("forbidden"), false}, {errors.New("timeout"), true}, {nil, false}, {errors.New("timeout"), true}} {
		if got := c.isNews(test.err); got != test.news {
			t.Errorf("%d: %v is news: %v", i, test.err, got)
		}
	}
}

// Rule 38: a member that was let go takes up a place, whatever it looks like until the cache shows its new template. The cache may show its new
// ReplicaSet first, as after a rollback.
func TestAMemberThatWasLetGoTakesUpAPlace(t *testing.T) {
	f, s := New(nil, func() time.Time { return noon }), surveyed(0)
	c := f.change(s.Source)
	c.begin(s)
	c.admitted["web"] = noon
	for _, verdict := range []plan.Verdict{plan.Advanced, plan.Held, plan.Unknown, plan.Waiting} {
		of := rollout.Standing{Decision: plan.Decision{Verdict: verdict}}
		if m := c.member(s, "web", of, noon.Add(time.Second)); !m.InFlight() || m.RolledBack || m.Fails {
			t.Errorf("%s: %+v", verdict, m)
		}
		if m := c.member(s, "web", of, noon.Add(admittedFor)); m.InFlight() {
			t.Errorf("%s, much later: %+v", verdict, m)
		}
	}
}

// Rule 38: a member that has the change by its own note takes up a place while it cannot be looked at, unless it has vouched.
func TestAMemberThatCannotBeLookedAtKeepsItsPlace(t *testing.T) {
	f, s := New(nil, func() time.Time { return noon }), surveyed(0)
	c := f.change(s.Source)
	c.begin(s)
	look := func(revision string) spread.Stage {
		advance := spread.Advance{To: map[pin.Source]pin.Pin{s.Source.Source(): {Revision: revision, Number: 2}}}
		return c.member(s, "web", rollout.Standing{Decision: plan.Decision{Verdict: plan.Unknown}, Advance: advance}, noon).Stage
	}
	if got := look(s.Current.Revision); got != spread.Rolling {
		t.Errorf("with the change: %s", got)
	}
	c.vouched["web"] = true
	if got := look(s.Current.Revision); got != spread.Vouched {
		t.Errorf("with the change, after it has vouched: %s", got)
	}
	if got := look("app-other"); got != spread.Later {
		t.Errorf("with another: %s", got)
	}
}

// Rule 38: a place is taken from when a member takes the change. One that does not lets others go first for a while, and goes if there is a place.
func TestAPlaceThatIsGivenBack(t *testing.T) {
	now := noon
	f := New(nil, func() time.Time { return now })
	asked := rollout.Spreading{Source: surveyed(0).Source, Meta: &metav1.PartialObjectMetadata{}}
	c, s := f.change(asked.Source), surveyed(0)
	c.begin(s)
	// look looks at two members, one of which may go, as a survey does.
	look := func(health workload.Health) {
		var members []spread.Member
		for _, name := range []string{"job", "web"} {
			members = append(members, c.member(s, name, rollout.Standing{Decision: plan.Decision{Verdict: plan.Advanced}, Health: []workload.Health{health}}, now))
		}
		s.at, s.Spread = now, spread.Look(members, spread.Settings{MaxRolling: []spread.Amount{{Number: 1}}}, 0, spread.Place{})
		c.latest = s
	}
	turn := func(workload string, want waiting.Reason) {
		t.Helper()
		if wait, err := f.Turn(t.Context(), asked, workload); err != nil || wait.Reason != want {
			t.Errorf("%s waits for %q, want %q; %v", workload, wait.Reason, want, err)
		}
	}
	for range 2 {
		look(healthy)
		turn("job", "")
		turn("web", waiting.Budget)
		// A dry run has no place.
		f.GiveBack(revision.Provisional(t.Context()), asked, "job")
		turn("web", waiting.Budget)
		f.GiveBack(t.Context(), asked, "job")
		turn("job", "")
		f.GiveBack(t.Context(), asked, "job")
		look(healthy)
		turn("web", "")
		turn("job", waiting.Budget)
		look(healthy)
		turn("job", waiting.Budget)
		f.GiveBack(t.Context(), asked, "web")
		now = now.Add(yieldedFor)
	}
	// What is in the middle of another rollout takes up a place in any case.
	look(healthy)
	turn("job", "")
	f.GiveBack(t.Context(), asked, "job")
	if look(rolling); s.Waves[0].Members[0].Stage != spread.Waiting {
		t.Errorf("%+v", s.Waves)
	}
}

// Rule 38: the same holds for first pins.
func TestAPlaceOfAFirstPinThatIsGivenBack(t *testing.T) {
	c, s := &change{}, surveyed(0)
	c.begin(s)
	c.yielded["web"] = noon
	of := rollout.Standing{First: true, Decision: plan.Decision{Verdict: plan.Pinned}, Health: []workload.Health{healthy}}
	for after, want := range map[time.Duration]spread.Stage{0: spread.Later, yieldedFor: spread.Waiting} {
		if m := c.member(s, "web", of, noon.Add(after)); m.Stage != want {
			t.Errorf("after %s: %+v", after, m)
		}
	}
}

// Rule 40: a stop is for everyone, also for a member that was let go and has not taken the change yet. It concerns no first pins.
func TestAStopIsForThoseThatWereLetGo(t *testing.T) {
	for _, first := range []bool{false, true} {
		f := New(nil, func() time.Time { return noon })
		asked := rollout.Spreading{Source: surveyed(0).Source, Meta: &metav1.PartialObjectMetadata{}, FirstPin: first}
		c, s := f.change(asked.Source), surveyed(0)
		c.begin(s)
		s.at, s.Meta = noon, asked.Meta
		s.Spread = spread.Look([]spread.Member{{Name: "web", Stage: spread.Waiting, First: first}}, s.Settings, 0, spread.Place{})
		c.latest = s
		for _, want := range []waiting.Reason{"", waiting.Stopped} {
			if first {
				want = ""
			}
			if wait, err := f.Turn(t.Context(), asked, "web"); err != nil || wait.Reason != want {
				t.Errorf("first pin: %v; stopped: %v; it waits for %q, want %q; %v", first, s.Stopped, wait.Reason, want, err)
			}
			s.Stopped = true
		}
	}
}
