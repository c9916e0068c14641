package metadata

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestFailed reports whether a JSON patch was refused because one of its tests failed. The API server has no specific reason for that, but
// unlike a failed validation, the error names no field.
func TestFailed(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsInvalid(err) && (status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) == 0)
}
