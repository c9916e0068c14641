package revision

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Who asks during a round gets the answer of the next one, together with all others who do.
func TestAnAnswerIsNoOlderThanTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rounds[int]
		asked := 0
		ask := func() (int, error) {
			asked++
			answer := asked
			time.Sleep(time.Second)
			return answer, nil
		}
		var all sync.WaitGroup
		get := func(want int) {
			all.Go(func() {
				if got, err := r.join(t.Context(), "key", ask); err != nil || got != want {
					t.Errorf("answer %d, %v; want %d", got, err, want)
				}
			})
		}
		get(1)
		synctest.Wait()
		for range 10 {
			get(2)
		}
		time.Sleep(1500 * time.Millisecond)
		get(3)
		all.Wait()
		if asked != 3 || len(r.next)+len(r.present) > 0 {
			t.Errorf("asked %d times; %v %v are left", asked, r.next, r.present)
		}
	})
}

func TestKeysHaveRoundsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rounds[string]
		var all sync.WaitGroup
		begun := time.Now()
		for i := range 3 {
			key := fmt.Sprint(i)
			all.Go(func() {
				got, err := r.join(t.Context(), key, func() (string, error) {
					time.Sleep(time.Second)
					return key, errors.New(key)
				})
				if got != key || err == nil || err.Error() != key {
					t.Errorf("%s, %v; want %s", got, err, key)
				}
			})
		}
		all.Wait()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// A round continues for the others when one of them ends.
func TestNoOneEndsARoundForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rounds[int]
		ask := func() (int, error) {
			time.Sleep(time.Second)
			return 1, nil
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := r.join(impatient, "key", ask); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the impatient one got %v", err)
			}
		})
		// While the round runs, another waits for the next.
		synctest.Wait()
		if got, err := r.join(t.Context(), "key", ask); got != 1 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
		all.Wait()
	})
}

// Whatever the order, no answer is from before its question.
func TestRoundsUnderLoad(t *testing.T) {
	var r rounds[int64]
	var clock atomic.Int64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 500 {
				before := clock.Add(1)
				got, err := r.join(t.Context(), "key", func() (int64, error) { return clock.Add(1), nil })
				if err != nil || got < before {
					t.Errorf("asked at %d, and the answer is of %d (%v)", before, got, err)
				}
			}
		})
	}
	all.Wait()
}
