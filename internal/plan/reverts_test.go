package plan

import (
	"testing"
	"time"
)

// A controller that undoes what confrev writes is left alone after a few rounds.
func TestReverts(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	var r Reverts
	if wait := r.Backoff("a", MaxReverts, begin); wait != 0 {
		t.Errorf("before anything was written, it waits %s", wait)
	}
	now := begin
	rounds := 0
	for ; r.Backoff("a", MaxReverts, now) == 0 && rounds < 100; rounds++ {
		r.Wrote("a", now)
		now = now.Add(time.Second)
	}
	if rounds != MaxReverts {
		t.Errorf("the same was written %d times, want %d", rounds, MaxReverts)
	}
	if wait := r.Backoff("a", MaxReverts, now); wait <= RetryReverted-time.Minute || wait > RetryReverted {
		t.Errorf("it waits %s", wait)
	}
	if wait := r.Backoff("b", MaxReverts, now); wait != 0 {
		t.Errorf("a change to a source waits %s", wait)
	}
	if wait := r.Backoff("a", MaxReverts, now.Add(RetryReverted)); wait != 0 {
		t.Errorf("after the time to retry, it waits %s", wait)
	}
	r.Wrote("a", now.Add(RetryReverted))
	if wait := r.Backoff("a", MaxReverts, now.Add(RetryReverted+time.Second)); wait == 0 {
		t.Error("one try more is all that the time gives")
	}
	r.Wrote("b", now)
	if wait := r.Backoff("b", MaxReverts, now); wait != 0 {
		t.Errorf("what is written for the first time waits %s", wait)
	}
	t.Run("what is undone after a while is no fight", func(t *testing.T) {
		var r Reverts
		now := begin
		for range 20 {
			r.Wrote("a", now)
			now = now.Add(RevertWindow)
			if wait := r.Backoff("a", MaxReverts, now); wait != 0 {
				t.Fatalf("it waits %s", wait)
			}
		}
	})
	t.Run("changes that take turns are no fight", func(t *testing.T) {
		var r Reverts
		for i := range 20 {
			r.Wrote([]string{"a", "b"}[i%2], begin.Add(time.Duration(i)*time.Second))
		}
		if r.Backoff("a", MaxReverts, begin)+r.Backoff("b", MaxReverts, begin) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// What the API server does not keep is not written again soon, however rarely it was.
func TestWhatIsNotKeptIsNotWrittenAgain(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	var r Reverts
	r.Pruned("a", begin)
	if wait := r.Backoff("a", MaxReverts, begin.Add(time.Second)); wait <= 0 || !r.Lost {
		t.Errorf("it waits %s, lost: %t", wait, r.Lost)
	}
	if wait := r.Backoff("b", MaxReverts, begin.Add(time.Second)); wait != 0 {
		t.Errorf("another change waits %s", wait)
	}
}
