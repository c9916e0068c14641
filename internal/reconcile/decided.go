package reconcile

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
)

// decides reports whether what a revision notes of its change still keeps workloads from it, or will let workloads of another namespace have
// it. Such a revision is in use although nothing pins it: with it, the note would be gone.
func (r *Revisions) decides(ctx context.Context, ref revision.Ref, obj *metav1.PartialObjectMetadata) (bool, error) {
	record, ok := spread.ParseRecord(obj.Annotations[keys.Propagation])
	if !ok || record.Revision != string(obj.UID) {
		return false, nil
	}
	if stopped, err := r.stopped(ctx, obj, record); stopped || err != nil {
		return stopped, err
	}
	return r.Fleet.Awaited(ctx, ref, obj)
}

// stopped reports whether a change is stopped because of failures (rule 40): no one has ended that, and the source has the content still. If
// other content was there in between, the number of the revision has been raised since, or is about to be.
func (r *Revisions) stopped(ctx context.Context, obj *metav1.PartialObjectMetadata, record spread.Record) (bool, error) {
	if record.Stops == 0 || record.Number != revision.Labelled(obj).Number {
		return false, nil
	}
	source, err := r.Store.SourceWith(ctx, obj)
	if err != nil || source == nil {
		return false, err
	}
	change := pin.Pin{Revision: obj.Name, Number: record.Number}
	return record.Stops > spread.Ended(source.GetAnnotations()[keys.Resume], change, record.First()), nil
}
