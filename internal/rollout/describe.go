package rollout

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/workload"
)

// Roller is a workload whose controller rolls out a template: its own, or that of the workload that it refers to.
type Roller struct {
	Kind   workload.Kind
	Object client.Object
}

// Describe completes a look for the plugin, with all sources that the template refers to and with the workloads that roll it out.
func (r *Engine) Describe(ctx context.Context, look *Assessment) (err error) {
	// The warnings already say that the template is not one.
	if look.seen.template != nil {
		if look.Uses, err = r.Kind.Uses(look.Workload); err != nil {
			return err
		}
	}
	return r.findHolders(ctx, look)
}

// findHolders finds the workloads that roll the template out, and their holders.
func (r *Engine) findHolders(ctx context.Context, look *Assessment) error {
	referring, err := index.Referring(ctx, r.Client, r.Kinds, look.Kind, look.Workload)
	if err != nil {
		return err
	}
	for _, obj := range referring {
		i := slices.IndexFunc(r.Kinds.All(), func(k workload.Kind) bool { return k.GVK == workload.GVKOf(obj) })
		look.Rollers = append(look.Rollers, Roller{r.Kinds.All()[i], obj})
	}
	if len(referring) == 0 {
		look.Rollers = []Roller{{look.Kind, look.Workload}}
	}
	for _, roller := range look.Rollers {
		found, err := index.List(ctx, r.Client, roller.Kind.Holder.NewList(), roller.Object.GetNamespace(), index.ByController, string(roller.Object.GetUID()))
		if err != nil {
			return err
		}
		look.Holders = append(look.Holders, found...)
	}
	return nil
}
