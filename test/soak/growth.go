// Package soak runs confrev for a long time on a real control plane (hack/cluster), with a steady mix of what users do, and watches what it takes:
// memory, goroutines, open files, revisions and queues. What grows without bound is a failure; how much there is is not.
package soak

import (
	"fmt"
	"slices"
)

// sample is what there was at one moment.
type sample map[string]float64

// bound is by how much the mean of the last quarter may exceed that of the second: ratio times, and slack more, so that small numbers may vary.
// By the second quarter, caches and histories are full.
type bound struct {
	of           string
	ratio, slack float64
	// mayBeNone is true if there may be none at all. Of anything else there is always some, or it was not measured.
	mayBeNone bool
}

// tooFew is how many samples say nothing.
const tooFew = 8

// growth returns what grew beyond its bound, or was not measured: what is not there never grows.
func growth(samples []sample, bounds []bound) (complaints []string) {
	if len(samples) < tooFew {
		return []string{fmt.Sprintf("%d samples are too few to see what grows, want %d", len(samples), tooFew)}
	}
	quarter := len(samples) / 4
	for _, b := range bounds {
		if lacking := slices.IndexFunc(samples, func(s sample) bool { _, ok := s[b.of]; return !ok }); lacking >= 0 {
			complaints = append(complaints, fmt.Sprintf("%s is missing in sample %d of %d", b.of, lacking+1, len(samples)))
			continue
		}
		second, last := mean(samples[quarter:2*quarter], b.of), mean(samples[len(samples)-quarter:], b.of)
		if !b.mayBeNone && min(second, last) == 0 {
			complaints = append(complaints, fmt.Sprintf("%s was not measured: it is 0 for a quarter of the time", b.of))
		}
		if last > b.ratio*second+b.slack {
			complaints = append(complaints, fmt.Sprintf("%s grew: %.1f in the second quarter, %.1f in the last; at most %.1f × that and %.1f more are taken for no growth",
				b.of, second, last, b.ratio, b.slack))
		}
	}
	slices.Sort(complaints)
	return complaints
}

func mean(samples []sample, of string) (m float64) {
	for _, s := range samples {
		m += s[of] / float64(len(samples))
	}
	return m
}
