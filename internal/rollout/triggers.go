package rollout

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/plan"
)

// missingTrigger is the warning that an object does not exist.
const missingTrigger = "annotation %s names %s, which does not exist; the workload restarts when it appears"

// readTriggers reads the objects of other kinds that make the workload restart, each after making sure that confrev may read and watch it,
// and warns about those that it may not.
func (r *Engine) readTriggers(ctx context.Context, seen *observed) error {
	var errs []error
	for _, trigger := range seen.config.RestartOn {
		if trigger.IsSource() {
			continue
		}
		err := r.readTrigger(ctx, seen, trigger)
		if terminal, ok := errors.AsType[*notice.TerminalError](err); ok {
			seen.warnings = append(seen.warnings, terminal.About(trigger.Source))
			seen.retry = true
			continue
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (r *Engine) readTrigger(ctx context.Context, seen *observed, trigger optin.Trigger) error {
	prepared, err := r.Triggers.Prepare(ctx, trigger)
	if err != nil {
		return err
	}
	seen.triggers = append(seen.triggers, prepared.Followed())
	hash, err := r.Triggers.Read(ctx, seen.namespace, prepared)
	var key *content.Key
	if err == nil {
		// An object that does not exist needs no key.
		key, err = r.Store.Key(ctx, seen.namespace)
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		seen.warn(notice.SourceMissing, trigger.Source, missingTrigger, keys.RestartOn, trigger.Source)
	}
	seen.contents[trigger.Source] = contents{
		plan.Source{Present: err == nil, Name: key.Sum(trigger.Source, hash), Scheme: key.Scheme()}, hash,
	}
	return nil
}
