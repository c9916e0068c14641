package revision

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
)

// clock is a time that tests set.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func hashOf(i int) content.Hash { return content.Hash(fmt.Sprintf("v1-%d", i)) }

// Rule 11.
func TestASourceMayChangeOnlySoOften(t *testing.T) {
	source := Ref{pin.ConfigMap, "default", "app"}
	const perHour = 4
	begin := func() (*Store, *clock) {
		c := &clock{time.Unix(1_800_000_000, 0)}
		return NewStore(nil, nil, nil, c.now, nil, perHour), c
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		terminal, ok := errors.AsType[*notice.TerminalError](err)
		if !ok || terminal.Reason != TooFrequent || !strings.Contains(err.Error(), "configmap/app") || !strings.Contains(err.Error(), "4 times") {
			t.Errorf("not refused: %v", err)
		}
	}
	admitted := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("refused: %v", err)
		}
	}
	exhausted := func(t *testing.T) (*Store, *clock) {
		t.Helper()
		s, c := begin()
		for i := range perHour {
			admitted(t, s.Admit(t.Context(), source, hashOf(i), int64(i)))
		}
		return s, c
	}
	t.Run("up to the limit, and not beyond", func(t *testing.T) {
		s, _ := exhausted(t)
		refused(t, s.Admit(t.Context(), source, hashOf(9), 9))
		refused(t, s.Admit(t.Context(), source, hashOf(9), 9))
	})
	t.Run("many workloads that ask for the same are one change", func(t *testing.T) {
		s, _ := begin()
		for range 10 * perHour {
			admitted(t, s.Admit(t.Context(), source, hashOf(1), 1))
		}
	})
	t.Run("what was let through is let through again", func(t *testing.T) {
		s, _ := exhausted(t)
		admitted(t, s.Admit(t.Context(), source, hashOf(perHour-1), perHour-1))
	})
	t.Run("the same content with another number is another change (rule 5)", func(t *testing.T) {
		s, _ := exhausted(t)
		refused(t, s.Admit(t.Context(), source, hashOf(perHour-1), perHour))
	})
	t.Run("other sources are other sources", func(t *testing.T) {
		s, _ := exhausted(t)
		for _, other := range []Ref{{pin.Secret, "default", "app"}, {pin.ConfigMap, "other", "app"}, {pin.ConfigMap, "default", "web"}} {
			admitted(t, s.Admit(t.Context(), other, hashOf(9), 9))
		}
	})
	t.Run("an hour after each change there is room for another", func(t *testing.T) {
		s, c := begin()
		for i := range perHour {
			admitted(t, s.Admit(t.Context(), source, hashOf(i), int64(i)))
			c.at = c.at.Add(time.Minute)
		}
		c.at = c.at.Add(time.Hour - perHour*time.Minute - time.Second)
		refused(t, s.Admit(t.Context(), source, hashOf(9), 9))
		c.at = c.at.Add(time.Second)
		admitted(t, s.Admit(t.Context(), source, hashOf(9), 9))
		refused(t, s.Admit(t.Context(), source, hashOf(10), 10))
	})
	t.Run("what does not count spends nothing; it is refused too where nothing is left (rule 18)", func(t *testing.T) {
		s, _ := begin()
		for i := range 10 * perHour {
			admitted(t, s.Admit(Uncounted(t.Context()), source, hashOf(i), int64(i)))
		}
		for i := range perHour {
			admitted(t, s.Admit(t.Context(), source, hashOf(i), int64(i)))
		}
		refused(t, s.Admit(Uncounted(t.Context()), source, hashOf(9), 9))
	})
	t.Run("a refused request costs nothing", func(t *testing.T) {
		s, c := exhausted(t)
		for range 100 {
			c.at = c.at.Add(time.Second)
			refused(t, s.Admit(t.Context(), source, hashOf(9), 9))
		}
		c.at = c.at.Add(time.Hour)
		admitted(t, s.Admit(t.Context(), source, hashOf(9), 9))
	})
	t.Run("a quiet hour brings all of them again, and no more", func(t *testing.T) {
		s, c := exhausted(t)
		c.at = c.at.Add(24 * time.Hour)
		for i := range perHour {
			admitted(t, s.Admit(t.Context(), source, hashOf(20+i), 1))
		}
		refused(t, s.Admit(t.Context(), source, hashOf(99), 1))
	})
}
