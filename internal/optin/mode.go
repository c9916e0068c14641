package optin

import (
	"slices"

	"confrev.io/confrev/internal/keys"
)

// Mode is what confrev does for a workload. What differs between modes is a field here: other packages read the fields, and compare no
// modes.
type Mode struct {
	Name string
	// Pins is true if tracked sources are copied into revisions, which the template pins.
	Pins bool
	// Restarts is true if the template has a hash of each tracked source, so that a change rolls the workload out.
	Restarts bool
	// Attaches is true if the workload's holders own tracked sources, whose names are already unique per deploy. Pins are removed from
	// the template. Sources say themselves that they may be attached, so all are tracked unless the workload says which.
	Attaches bool
}

// The modes.
var (
	// Revision is the default.
	Revision = Mode{Name: "revision", Pins: true}
	Restart  = Mode{Name: "restart", Restarts: true}
	Attach   = Mode{Name: "attach", Attaches: true}
)

// Modes lists all modes.
var Modes = []Mode{Revision, Restart, Attach}

// String returns the mode's name.
func (m Mode) String() string { return m.Name }

// ModeOf returns the mode that annotations ask for; the zero Mode if they ask for none, or for one that does not exist.
func ModeOf(annotations map[string]string) Mode {
	if i := slices.IndexFunc(Modes, func(m Mode) bool { return m.Name == annotations[keys.Mode] }); i >= 0 {
		return Modes[i]
	}
	return Mode{}
}

// Policy is what a source's annotation asks for, no matter which workload tracks it. Like Mode, it is read by its fields. The zero
// Policy means the same as PolicyRevision.
type Policy struct {
	Name string
	// ReadsLive is true if the source is never pinned: pods read the source itself.
	ReadsLive bool
	// Rotates is true if a change rolls the workload out in any mode, and no undo holds it.
	Rotates bool
	// Ignored is true if no change rolls a workload out, in any mode.
	Ignored bool
}

// The policies.
var (
	// PolicyRevision is the default.
	PolicyRevision = Policy{Name: "revision"}
	PolicyRotate   = Policy{Name: "rotate", ReadsLive: true, Rotates: true}
	PolicyLive     = Policy{Name: "live", ReadsLive: true}
	PolicyIgnore   = Policy{Name: "ignore", ReadsLive: true, Ignored: true}
)

// Policies lists all policies.
var Policies = []Policy{PolicyRevision, PolicyRotate, PolicyLive, PolicyIgnore}

// String returns the policy's name.
func (p Policy) String() string { return p.Name }

func policyNamed(name string) (Policy, bool) {
	if i := slices.IndexFunc(Policies, func(p Policy) bool { return p.Name == name }); i >= 0 {
		return Policies[i], true
	}
	return PolicyRevision, false
}
