package plan

import "confrev.io/confrev/internal/pin"

// rotate decides on what pods read live and no undo holds (policy rotate). Equal hashes with different numbers are different
// rotations: what came back was away in between, and pods may have started on that.
func (h history) rotate(d Decision, stay, replaced bool) Decision {
	_, wasRolledOut := h.rolledOut()
	d.Verdict = InSync
	switch {
	case d.From == d.Current:
	case d.From == pin.Pin{}:
		d.Verdict, d.To = Pinned, d.Current
	case replaced:
		// The pods are about to be made.
		d.Verdict, d.To = Advanced, d.Current
	case wasRolledOut:
		// Something brought an earlier template back. Its pods read what the source has now, so they need no other.
		d.Noted = d.Current
	case stay:
		d.Verdict = Waiting
	default:
		d.Verdict, d.To = Advanced, d.Current
	}
	return d
}
