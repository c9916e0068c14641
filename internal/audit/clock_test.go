package audit

import (
	"testing"
	"time"
)

// Rule 26: what the pods' resourceVersions and times tell of when a source was written.
func TestClock(t *testing.T) {
	second := func(n int) time.Time { return at(n).Time }
	var pods []Pod
	for _, v := range []version{
		// The times of nodes differ, so a later write may have an earlier time.
		{number: 10, at: second(300)}, {number: 20, at: second(200)}, {number: 30, at: second(400)},
		// These tell nothing.
		{number: 0, at: second(100)}, {number: 15},
	} {
		pods = append(pods, Pod{version: v})
	}
	c := newClock(pods)
	tests := map[string]struct {
		number      uint64
		from, until time.Time
		bounded     bool
	}{
		"before all pods":               {5, time.Time{}, second(200), true},
		"as a pod":                      {10, time.Time{}, second(200), true},
		"between pods":                  {15, second(300), second(200), true},
		"between others":                {25, second(300), second(400), true},
		"after all pods":                {35, second(400), time.Time{}, false},
		"with what is no number at all": {0, time.Time{}, time.Time{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			from, until, bounded := c.bounds(version{number: test.number})
			if !from.Equal(test.from) || !until.Equal(test.until) || bounded != test.bounded {
				t.Errorf("written from %s until %s, bounded: %v", from, until, bounded)
			}
		})
	}
}
