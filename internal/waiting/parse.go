package waiting

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // The image has no time zones of its own.

	"github.com/robfig/cron/v3"

	"confrev.io/confrev/internal/quote"
)

// Always is the value of confrev.io/advance that is no gate.
const Always = "auto"

// advances has the gate of each value of confrev.io/advance.
var advances = map[string]Reason{"on-deploy": OnDeploy, "manual": Manual}

// ParseAdvance reads confrev.io/advance. Without an error and a Reason, the value is no gate.
func ParseAdvance(text, by string) (Gate, error) {
	if text == Always {
		return Gate{}, nil
	}
	reason, known := advances[text]
	if !known {
		return Gate{Reason: Manual, By: by, Invalid: true}, fmt.Errorf("%s is not known: want auto, on-deploy or manual", quote.Text(text))
	}
	return Gate{Reason: reason, By: by}, nil
}

// ParseFreeze reads confrev.io/freeze-until: a time, or a date, at whose beginning in UTC the freeze ends. Labels can have dates only.
func ParseFreeze(text, by string) (Gate, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if until, err := time.Parse(layout, text); err == nil {
			return Gate{Reason: Frozen, By: by, until: until}, nil
		}
	}
	return Gate{Reason: Frozen, By: by, Invalid: true},
		fmt.Errorf("%s is not a time such as 2026-12-27T00:00:00Z or a date such as 2026-12-27", quote.Text(text))
}

const (
	// maxWindows is how many windows a setting may have, and maxWindowText how many bytes each of them: its fields of cron are lists.
	maxWindows    = 16
	maxWindowText = 512
	// maxOpen is how long a window may be open.
	maxOpen = 366 * 24 * time.Hour
)

// window is open for a while after each of its starts.
type window struct {
	starts cron.Schedule
	open   time.Duration
}

// opens returns the first time, not before now, at which the window is open. It is zero if that is not within the next five years.
func (w window) opens(now time.Time) time.Time {
	// Next returns times after the given one. A window that closes now is closed.
	if start := w.starts.Next(now.Add(-w.open)); !start.IsZero() && !start.After(now) {
		return now
	}
	return w.starts.Next(now)
}

// yearsAhead is how far a start may be away.
const yearsAhead = 5

// schedule has a start whenever the clocks of its zone show what the fields of cron say: twice in an hour that is repeated, and never in one that
// is skipped. On its own, cron mistakes one day for the next where the clocks skip midnight, as in Cairo and Havana. So it is given
// times in UTC, one period without a change to the clocks after the other.
type schedule struct {
	fields cron.Schedule
	zone   *time.Location
}

// Next returns the first start after a time. It is zero if there is none within yearsAhead.
func (s schedule) Next(after time.Time) time.Time {
	last := after.AddDate(yearsAhead, 0, 0)
	for period := after.In(s.zone); ; {
		_, offset := period.Zone()
		ahead := time.Duration(offset) * time.Second
		start := s.fields.Next(after.UTC().Add(ahead))
		if start.IsZero() || start.After(last) {
			return time.Time{}
		}
		start = start.Add(-ahead)
		_, change := period.ZoneBounds()
		if change.IsZero() || start.Before(change) {
			return start
		}
		after, period = change.Add(-time.Second), change
	}
}

// minutes reads the five fields of cron, without its names for schedules ("@daily").
var minutes = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// ParseWindow reads confrev.io/window: windows separated by semicolons. Each has the five fields of cron, how long it is open, and a time zone,
// which is UTC if there is none: "0 9 * * 1-5 8h Europe/Berlin".
func ParseWindow(text, by string) (Gate, error) {
	g := Gate{Reason: Window, By: by}
	if n := strings.Count(text, ";") + 1; n > maxWindows {
		return Gate{Reason: Window, By: by, Invalid: true}, fmt.Errorf("it has %d windows: want at most %d", n, maxWindows)
	}
	for one := range strings.SplitSeq(text, ";") {
		w, err := parseWindow(one)
		if err != nil {
			return Gate{Reason: Window, By: by, Invalid: true}, err
		}
		g.windows = append(g.windows, w)
	}
	return g, nil
}

const cronFields = 5

func parseWindow(text string) (window, error) {
	if len(text) > maxWindowText {
		return window{}, fmt.Errorf("a window is longer than %d bytes: %s", maxWindowText, quote.Text(text))
	}
	fields := strings.Fields(text)
	if len(fields) != cronFields+1 && len(fields) != cronFields+2 {
		return window{}, fmt.Errorf(`%s is not a window: want five fields of cron, a duration and a time zone, such as "0 9 * * 1-5 8h Europe/Berlin"`,
			quote.Text(text))
	}
	open, err := time.ParseDuration(fields[cronFields])
	if err != nil || open <= 0 || open > maxOpen {
		return window{}, fmt.Errorf("%s is not a duration such as 8h, of at most %v", quote.Text(fields[cronFields]), maxOpen)
	}
	zone := time.UTC
	if len(fields) == cronFields+2 {
		if zone, err = zoneNamed(fields[cronFields+1]); err != nil {
			return window{}, err
		}
	}
	if slices.ContainsFunc(fields[:cronFields], func(field string) bool { return strings.ContainsAny(field, "=@") }) {
		return window{}, fmt.Errorf("%s are not five fields of cron", quote.Text(strings.Join(fields[:cronFields], " ")))
	}
	starts, err := minutes.Parse(strings.Join(fields[:cronFields], " "))
	if err != nil {
		return window{}, fmt.Errorf("%s are not five fields of cron: %s", quote.Text(strings.Join(fields[:cronFields], " ")), quote.Text(err.Error()))
	}
	return window{schedule{starts, zone}, open}, nil
}

// zones has the time zones that were asked for, since each is read from a file.
var zones sync.Map

func zoneNamed(name string) (*time.Location, error) {
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	// "Local" differs from one machine to the next.
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%s is not a time zone such as Europe/Berlin", quote.Text(name))
	}
	zones.Store(name, zone)
	return zone, nil
}
