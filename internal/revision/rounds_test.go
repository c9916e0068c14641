package revision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Who asks during a round gets the answer of the next one, together with all others who do.
func TestAnAnswerIsNoOlderThanTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rounds[int, int]
		asked := 0
		brought := 0
		ask := func(items []int) (int, error) {
			asked++
			answer := asked
			brought += len(items)
			time.Sleep(time.Second)
			return answer, nil
		}
		var all sync.WaitGroup
		get := func(want int) {
			all.Go(func() {
				if got, err := r.join(t.Context(), "key", want, ask); err != nil || got != want {
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
		if brought != 12 {
			t.Errorf("%d callers of 12 took part", brought)
		}
		if asked != 3 || len(r.next)+len(r.present) > 0 {
			t.Errorf("asked %d times; %v %v are left", asked, r.next, r.present)
		}
	})
}

func TestKeysHaveRoundsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rounds[int, string]
		var all sync.WaitGroup
		begun := time.Now()
		for i := range 3 {
			key := fmt.Sprint(i)
			all.Go(func() {
				got, err := r.join(t.Context(), key, i, func([]int) (string, error) {
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
		var r rounds[int, int]
		ask := func([]int) (int, error) {
			time.Sleep(time.Second)
			return 1, nil
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := r.join(impatient, "key", 0, ask); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the impatient one got %v", err)
			}
		})
		// While the round runs, another waits for the next.
		synctest.Wait()
		if got, err := r.join(t.Context(), "key", 0, ask); got != 1 || err != nil {
			t.Errorf("%d, %v", got, err)
		}
		all.Wait()
	})
}

// Whatever the order, no answer is from before its question, and each caller's item is in the round that answers it.
func TestRoundsUnderLoad(t *testing.T) {
	type answer struct {
		at    int64
		items []int64
	}
	var r rounds[int64, answer]
	var clock atomic.Int64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 500 {
				before := clock.Add(1)
				got, err := r.join(t.Context(), "key", before, func(items []int64) (answer, error) { return answer{clock.Add(1), items}, nil })
				if err != nil || got.at < before || !slices.Contains(got.items, before) {
					t.Errorf("asked at %d, and the answer is of %d, for %v (%v)", before, got.at, got.items, err)
				}
			}
		})
	}
	all.Wait()
}
