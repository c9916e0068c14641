package plan_test

import (
	"testing"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
)

// A number beyond 15 digits is one that pin.Parse and the admission policies refuse, so no pod could start; and beyond
// 64 bits it wraps around. Revisions may carry any number: it is an annotation that a user or a backup can bring.
func TestNumbersThatNoPinCanHoldCountAsNone(t *testing.T) {
	for name, number := range map[string]int64{
		"of 15 digits": 999_999_999_999_999,
		"of 16 digits": 1_000_000_000_000_000,
		"of 63 bits":   1<<63 - 1,
	} {
		t.Run(name, func(t *testing.T) {
			in := planCase{content: "b"}.input()
			s := in.Sources[app]
			s.Name = "app-cccccccccc"
			s.Revisions = []plan.Revision{revision(pin.Pin{Revision: "app-bbbbbbbbbb", Number: number})}
			in.Sources[app] = s
			p := plan.Make(in)
			if _, err := pin.Parse(p.Pins.String()); err != nil {
				t.Errorf("the plan pins what cannot be read again: %v", err)
			}
		})
	}
}
