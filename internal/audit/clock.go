package audit

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// version is an object's resourceVersion, and the last time that its managed fields record.
type version struct {
	// number is 0 if it cannot be compared.
	number uint64
	at     time.Time
}

func versionOf(meta metav1.Object) version {
	v := version{at: meta.GetCreationTimestamp().Time}
	// What is no number cannot be compared, and stays 0.
	v.number, _ = strconv.ParseUint(meta.GetResourceVersion(), 10, 64)
	for _, entry := range meta.GetManagedFields() {
		if entry.Time != nil {
			v.at = later(v.at, entry.Time.Time)
		}
	}
	return v
}

// clock tells the time of a resourceVersion: they increase with each write of any object
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions). Pods are written often, and each write of a
// kubelet has a time. So a source that was written after a pod was written at least that late.
type clock struct {
	numbers []uint64
	// from has the latest time up to each number, until the earliest time from each number on.
	from, until []time.Time
}

func newClock(pods []Pod) clock {
	var known []version
	for i := range pods {
		if v := pods[i].version; v.number > 0 && !v.at.IsZero() {
			known = append(known, v)
		}
	}
	slices.SortFunc(known, func(a, b version) int { return cmp.Compare(a.number, b.number) })
	c := clock{}
	for i, v := range known {
		c.numbers, c.from, c.until = append(c.numbers, v.number), append(c.from, v.at), append(c.until, v.at)
		if i > 0 {
			c.from[i] = later(c.from[i-1], v.at)
		}
	}
	for i := len(known) - 2; i >= 0; i-- {
		if c.until[i+1].Before(c.until[i]) {
			c.until[i] = c.until[i+1]
		}
	}
	return c
}

// bounds returns when an object was last written: not before from, and not after until if bounded.
func (c clock) bounds(v version) (from, until time.Time, bounded bool) {
	if v.number == 0 {
		return time.Time{}, time.Time{}, false
	}
	i := sort.Search(len(c.numbers), func(i int) bool { return c.numbers[i] >= v.number })
	if i > 0 {
		from = c.from[i-1]
	}
	if i < len(c.numbers) {
		return from, c.until[i], true
	}
	return from, time.Time{}, false
}
