package session

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
)

// Numbered finds a revision by its number. Two writers may have given it to two contents (rule 5).
func Numbered(source pin.Source, revisions []plan.Revision, number int64) (pin.Pin, error) {
	var found []string
	for _, r := range revisions {
		if r.Number == number {
			found = append(found, r.Name)
		}
	}
	switch len(found) {
	case 0:
		return pin.Pin{}, fmt.Errorf("%s has no revision %d: there is %s", source, number, Numbers(revisions))
	case 1:
		return pin.Pin{Revision: found[0], Number: number}, nil
	}
	slices.Sort(found)
	return pin.Pin{}, fmt.Errorf("%s has several revisions %d: %s", source, number, strings.Join(found, ", "))
}

// Numbers lists the numbers of revisions.
func Numbers(revisions []plan.Revision) string {
	if len(revisions) == 0 {
		return "none"
	}
	var numbers []int64
	for _, r := range revisions {
		numbers = append(numbers, r.Number)
	}
	slices.Sort(numbers)
	var texts []string
	for _, number := range slices.Compact(numbers) {
		texts = append(texts, strconv.FormatInt(number, 10))
	}
	return strings.Join(texts, ", ")
}
