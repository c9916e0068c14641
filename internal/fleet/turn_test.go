package fleet

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
)

// Rule 38: a dry run whose turn has come takes up no place, and the request itself does.
func TestADryRunTakesUpNoPlace(t *testing.T) {
	f := New(nil, func() time.Time { return noon })
	asked := rollout.Spreading{Source: surveyed(0).Source, Meta: &metav1.PartialObjectMetadata{}}
	c := f.change(asked.Source)
	s := surveyed(0)
	s.at = noon
	s.Spread = spread.Look([]spread.Member{{Name: "a", Stage: spread.Waiting}, {Name: "b", Stage: spread.Waiting}}, spread.Settings{MaxRolling: []spread.Amount{{Number: 1}}}, 0)
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
