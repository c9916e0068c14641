package revision

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Yielding leaves notes and owners of an existing revision to the controller if the user may not write them. The guards refuse them from
// everyone but the controller (rule 17), and a user who may change a workload may lack rights on ConfigMaps. Neither prevents a rollback:
// the controller adds what is missing when it sees the pin.
type Yielding struct {
	client.Writer
	// Refusals are those that are not the guards'.
	Refusals []error
}

// Patch takes a refusal for a success.
func (y *Yielding) Patch(ctx context.Context, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
	err := y.Writer.Patch(ctx, obj, patch, options...)
	if !apierrors.IsForbidden(err) {
		return err
	}
	// Where there are guards, there is a controller.
	if !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
		y.Refusals = append(y.Refusals, err)
	}
	return nil
}
