package rollout

import (
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// injection is a reference of the template that is to name something else.
type injection = podspec.Replacement

// injections returns the references of the template that do not name what they should: with injection into the template the
// revision that their source is pinned to, else the source. changing reports whether pins are about to replace those that
// the template has.
func (seen observed) injections(pins pin.Set, changing bool) []injection {
	if !changing {
		// Stale pins stay until the template changes anyway, and so do their references (rule 21.6).
		if found := seen.resolved(seen.pins.Pins); len(found) == 0 {
			return nil
		}
	}
	return seen.resolved(pins)
}

func (seen observed) resolved(pins pin.Set) []injection {
	into := seen.asked.Mode.Pins && seen.asked.Injection == optin.Template
	sources := pin.Inverse(seen.pins.Pins, seen.before, seen.request)
	return podspec.Replacements(&seen.template.Spec, func(named pin.Source) (string, bool) {
		source, injected := sources[named]
		if !injected {
			source = named
		}
		if revision, pinned := pins.Resolve(source); into && pinned {
			return revision, true
		}
		return source.Name, true
	})
}

// follows reports whether the workload is opted in to anything that is planned.
func (seen observed) follows() bool { return len(seen.pins.Uses)+len(seen.hashes.Uses) > 0 }
