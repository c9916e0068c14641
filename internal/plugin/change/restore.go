package change

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
)

// restoreSource writes the content of an earlier revision back into its source.
func (u *undo) restoreSource(ctx context.Context) error {
	c, err := u.Connect()
	if err != nil {
		return err
	}
	found, err := u.FindTarget(ctx, c, u.workload)
	if err != nil {
		return err
	}
	_, look, err := found.Assess(ctx, c)
	if err != nil {
		return err
	}
	d, err := toRestore(found, look, u.sources, u.toRevision)
	if err != nil {
		return err
	}
	namespace := look.Workload.GetNamespace()
	old := revision.NewSource(d.Source.Kind)
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: d.To.Revision}, old); err != nil {
		return err
	}
	return untilUnchanged(func() error { return u.overwrite(ctx, c, namespace, d, old) })
}

// toRestore finds the one revision whose content is to be restored.
func toRestore(t session.Target, look rollout.Assessment, sources []pin.Source, number int64) (plan.Decision, error) {
	all, err := pinned(t, look, sources)
	if err != nil {
		return plan.Decision{}, err
	}
	if len(all) > 1 {
		return plan.Decision{}, fmt.Errorf("%s has several sources: name the one to restore, such as %s", t, all[0].Source)
	}
	d := all[0]
	// What a workload is held on, or still has of a source that is gone, is what to restore.
	if d.To = d.From; number > 0 || d.Verdict != plan.Held && d.Verdict != plan.SourceMissing {
		d.To, err = earlier(d, look, number)
	}
	return d, err
}

// overwrite replaces the content of a source, and nothing else of it. It creates a source that is gone.
func (u *undo) overwrite(ctx context.Context, c *session.Connection, namespace string, d plan.Decision, old client.Object) error {
	source := revision.NewSource(d.Source.Kind)
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: d.Source.Name}, source)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return err
	}
	if !gone && revision.SameContent(source, old) {
		return u.unchanged(source, fmt.Sprintf("has the content of revision %d already", d.To.Number))
	}
	setContent(source, old)
	switch {
	case u.dryRun == cmdutil.DryRunClient:
	case gone:
		source.SetNamespace(namespace)
		source.SetName(d.Source.Name)
		err = c.Create(ctx, source, &client.CreateOptions{FieldManager: u.fieldManager, DryRun: u.updateOptions().DryRun})
		if apierrors.IsAlreadyExists(err) {
			err = revision.NewChanged("%s", d.Source)
		}
	default:
		// With the resourceVersion that was read: an edit made meanwhile is not to be lost.
		err = c.Update(ctx, source, u.updateOptions())
	}
	if err != nil {
		return err
	}
	u.print.NamePrintFlags.Operation = strings.Replace(u.print.NamePrintFlags.Operation, "rolled back", "restored", 1)
	return u.printed(source,
		fmt.Sprintf("has the content of revision %d (%s) again", d.To.Number, d.To.Revision),
		"every workload that tracks it rolls out to that content, as after any edit; the tool that deploys it (GitOps, Helm) may overwrite it")
}

func setContent(source, from client.Object) {
	switch o := source.(type) {
	case *corev1.Secret:
		if o.Type == "" {
			// It is new: the type of one that exists cannot be changed.
			o.Type = from.(*corev1.Secret).Type
		}
		o.Data = from.(*corev1.Secret).Data
	case *corev1.ConfigMap:
		o.Data, o.BinaryData = from.(*corev1.ConfigMap).Data, from.(*corev1.ConfigMap).BinaryData
	}
}
