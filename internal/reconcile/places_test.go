package reconcile

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/gate"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/test/gen"
)

// places are others that let everyone go, and count how many have a place.
type places struct{ taken map[string]bool }

func (p places) Turn(_ context.Context, _ rollout.Spreading, workload string) (waiting.Wait, error) {
	p.taken[workload] = true
	return waiting.Wait{}, nil
}

func (p places) GiveBack(_ context.Context, _ rollout.Spreading, workload string) {
	delete(p.taken, workload)
}

func (places) Stopped(context.Context, rollout.Spreading) (waiting.Wait, pin.Pin, error) {
	return waiting.Wait{}, pin.Pin{}, nil
}

// Rule 38: a workload takes up a place from when it takes the change. One whose change is refused takes up none; one that may have taken it, does.
func TestWhoTakesUpAPlace(t *testing.T) {
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, test := range map[string]struct {
		err    error
		shut   bool
		settle string
		pins   string
		takes  bool
	}{
		"one that takes the change":     {takes: true, pins: gen.PinOfApp("a", "1")},
		"a policy refuses it":           {err: apierrors.NewForbidden(deployments, "web", errors.New("denied")), pins: gen.PinOfApp("a", "1")},
		"it may have been written":      {err: apierrors.NewTimeoutError("too slow", 1), pins: gen.PinOfApp("a", "1"), takes: true},
		"nothing resolves pins":         {shut: true, pins: gen.PinOfApp("a", "1")},
		"it settles, and is about to":   {settle: "1m", pins: gen.PinOfApp("a", "1"), takes: true},
		"a first pin that is given":     {takes: true},
		"a first pin that is refused":   {err: apierrors.NewForbidden(deployments, "web", errors.New("denied"))},
		"a first pin, nothing resolves": {shut: true},
	} {
		t.Run(name, func(t *testing.T) {
			app := gen.App("b")
			app.Annotations = map[string]string{keys.MaxRolling: "1"}
			d := gen.Web("1", gen.Annotated(keys.Settle, cmp.Or(test.settle, "0s")))
			if test.pins != "" {
				gen.Pinned(test.pins)(d)
			}
			w := newWorld(app, gen.RevisionOfApp("a", "1"), d, gen.ReplicaSet("web-1", d, 1))
			w.Client = interceptor.NewClient(w.client, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
					if test.err != nil && obj.GetName() == d.Name {
						return test.err
					}
					return c.Patch(ctx, obj, patch, options...)
				},
			})
			if test.shut {
				w.Gate = gate.NewShut(errors.New("a policy is missing"))
			}
			others := places{map[string]bool{}}
			w.Others = others
			w.Conductor = &Conductor{Fleet: fleet.New(w.client, time.Now), States: NewStates(false)}
			_, err := w.Reconcile(t.Context(), requests([]client.Object{d})[0])
			if failed := test.err != nil && !revision.Denied(test.err); (err != nil) != failed || others.taken["deployment/web"] != test.takes {
				t.Errorf("it takes up a place: %v; %v", others.taken, err)
			}
		})
	}
}
