package plan

import "confrev.io/confrev/internal/pin"

// rotate decides about sources that pods read live and that no undo holds (policy rotate). Equal hashes with different numbers
// are different rotations: the content was replaced in between, and pods may have started with the replacement.
func (h history) rotate(d Decision, stay, replaced bool) Decision {
	_, wasRolledOut := h.rolledOut()
	d.Verdict = InSync
	switch {
	case d.From == d.Current:
	case d.From == pin.Pin{}:
		d.Verdict, d.To = Pinned, d.Current
	case replaced:
		// The pods are about to be created.
		d.Verdict, d.To = Advanced, d.Current
	case wasRolledOut:
		// Something brought an earlier template back. Its pods read the present content of the source, so they need not be
		// replaced.
		d.Noted = d.Current
	case stay:
		d.Verdict = Waiting
	default:
		d.Verdict, d.To = Advanced, d.Current
	}
	return d
}
