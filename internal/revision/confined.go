package revision

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"confrev.io/confrev/internal/notice"
)

// ConfinementRefused is the reason of a TerminalError about a write that the policy for confrev's own account refused.
const ConfinementRefused = "ConfinementRefused"

// ExplainRefusal turns a refusal by the policy that confines confrev's own account into a TerminalError that names the fields,
// and returns any other error as it is. confrev itself writes nothing that the policy refuses, so another admission webhook must
// have changed further fields in confrev's request.
func ExplainRefusal(err error) error {
	fields, refused := confinementRefusal(err)
	if !refused {
		return err
	}
	return notice.Terminal(ConfinementRefused, "the policy that confines confrev's own account refused one of its writes: %s. If another admission webhook changes such "+
		"fields in every request, list them in the chart's value selfConfinement.tolerate", fields)
}

// confinementRefusal returns the policy's message, which names fields and never values.
func confinementRefusal(err error) (said string, refused bool) {
	if !apierrors.IsForbidden(err) {
		return "", false
	}
	_, policy, found := strings.Cut(err.Error(), "ValidatingAdmissionPolicy '")
	name, after, _ := strings.Cut(policy, "'")
	_, said, denied := strings.Cut(after, "denied request: ")
	return said, found && denied && strings.Contains(name, "-confine-")
}
