package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rule 5: a number counts as far as a template or a holder has it in a pin. Only the highest matters, so no one is asked about lower ones.
func TestNumbersCountAsFarAsPinsShowThem(t *testing.T) {
	app := gen.Source("configmap/app")
	for name, test := range map[string]struct {
		revisions map[string]int64
		// mine and others are pins of the workload itself and of other ones.
		mine, others pin.Pin
		want         int64
		asked        bool
	}{
		"what the workload pins":                {map[string]int64{"app-bbbbbbbbbb": 7}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, pin.Pin{}, 8, false},
		"many below it":                         {map[string]int64{"app-bbbbbbbbbb": 7, "app-cccccccccc": 6, "app-dddddddddd": 5, "app-eeeeeeeeee": 4}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, pin.Pin{}, 8, false},
		"a forged one":                          {map[string]int64{"app-bbbbbbbbbb": 7, "app-ffffffffff": 1000}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, pin.Pin{}, 8, true},
		"one that another workload pins":        {map[string]int64{"app-bbbbbbbbbb": 7, "app-cccccccccc": 9}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, pin.Pin{Revision: "app-cccccccccc", Number: 9}, 10, true},
		"raised beyond what a workload pins":    {map[string]int64{"app-bbbbbbbbbb": 7, "app-cccccccccc": 1000}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, pin.Pin{Revision: "app-cccccccccc", Number: 9}, 10, true},
		"raised beyond what it pins itself":     {map[string]int64{"app-bbbbbbbbbb": 1000}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, pin.Pin{}, 8, true},
		"a copy of the present content":         {map[string]int64{"app-bbbbbbbbbb": 7, "app-pppppppppp": 1000}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, pin.Pin{}, 8, false},
		"an implausible one hides no other one": {map[string]int64{"app-bbbbbbbbbb": 7, "app-cccccccccc": pin.MaxNumber}, pin.Pin{Revision: "app-cccccccccc", Number: pin.MaxNumber}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, 8, true},
		"the present content's, higher":         {map[string]int64{"app-bbbbbbbbbb": 7, "app-nnnnnnnnnn": 12}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, pin.Pin{}, 12, false},
		"the present content's, forged":         {map[string]int64{"app-bbbbbbbbbb": 7, "app-nnnnnnnnnn": pin.MaxNumber - 2}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, pin.Pin{}, 8, true},
		"that, above what another pins":         {map[string]int64{"app-bbbbbbbbbb": 7, "app-nnnnnnnnnn": pin.MaxNumber - 2}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, pin.Pin{Revision: "app-nnnnnnnnnn", Number: 12}, 12, true},
		"that, as another pins it":              {map[string]int64{"app-bbbbbbbbbb": 7, "app-nnnnnnnnnn": 5_000_000}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, pin.Pin{Revision: "app-nnnnnnnnnn", Number: 5_000_000}, 5_000_000, true},
		"that, below forged others":             {map[string]int64{"app-bbbbbbbbbb": 7, "app-ffffffffff": pin.MaxNumber - 3, "app-nnnnnnnnnn": pin.MaxNumber - 2}, pin.Pin{Revision: "app-bbbbbbbbbb", Number: 7}, pin.Pin{}, 8, true},
		"nothing pinned":                        {map[string]int64{"app-bbbbbbbbbb": 7, "app-cccccccccc": 9}, pin.Pin{}, pin.Pin{}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			all := &workload.Kinds{}
			all.Add(workload.Deployment)
			b := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
			if test.others != (pin.Pin{}) {
				b = b.WithObjects(gen.Web("1", func(d *appsv1.Deployment) { d.Name = "other" }, gen.Pinned(pin.Set{app: test.others}.String())))
			}
			for _, i := range index.Of(workload.Deployment, optin.Defaults{}) {
				b = b.WithIndex(i.Object, i.Field, i.Func)
			}
			lists := 0
			r := &Engine{Kind: workload.Deployment, Kinds: all, Client: b.WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					lists++
					return c.List(ctx, list, options...)
				},
			}).Build()}
			seen := newObserved(gen.Namespace, view{reader: r.Client})
			now := plan.Source{Present: true, Name: "app-nnnnnnnnnn", Hash: "v1-present"}
			for _, name := range slices.Sorted(maps.Keys(test.revisions)) {
				hash := content.Hash("v1-" + name)
				if name == "app-pppppppppp" || name == now.Name {
					hash = now.Hash
				}
				now.Revisions = append(now.Revisions, plan.Revision{Name: name, Number: test.revisions[name], Hash: hash})
			}
			seen.sources[app] = revision.Observation{Source: now}
			if test.mine != (pin.Pin{}) {
				seen.pins.Pins = pin.Set{app: test.mine}
			}
			if err := r.credit(t.Context(), seen, app, now.Revisions); err != nil {
				t.Fatal(err)
			}
			if got := now.FollowingNumber(); got != test.want || (lists > 0) != test.asked {
				t.Errorf("the next number is %d, asked %d times; want %d, asked: %t (%s)", got, lists, test.want, test.asked, fmt.Sprint(now.Revisions))
			}
		})
	}
}
