package index

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// However many pin a revision, a few of them are read if these show its number, and all only if they do not.
func TestFewOfThoseThatPinARevisionAreRead(t *testing.T) {
	app, kinds := gen.Source("configmap/app"), &workload.Kinds{}
	kinds.Add(workload.Deployment)
	for name, test := range map[string]struct {
		// Of all that pin it, by name, the first ones have a lower number.
		all, lower, read int
		want             int64
	}{
		"each shows its number":        {100, 0, sample, 9},
		"the last of the first does":   {100, sample - 1, sample, 9},
		"only the last of all does":    {100, 99, sample + 100, 9},
		"none does":                    {100, 100, sample + 100, 7},
		"none does, and there are few": {sample - 1, sample - 1, sample - 1, 7},
	} {
		t.Run(name, func(t *testing.T) {
			b := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
			for i := range test.all {
				pinned := pin.Pin{Revision: "app-bbbbbbbbbb", Number: 9}
				if i < test.lower {
					pinned.Number = 7
				}
				b = b.WithObjects(gen.Web("1", func(d *appsv1.Deployment) { d.Name = fmt.Sprintf("web-%02d", i) }, gen.Pinned(pin.Set{app: pinned}.String())))
			}
			for _, i := range Of(workload.Deployment, optin.Defaults{}) {
				b = b.WithIndex(i.Object, i.Field, i.Func)
			}
			read := 0
			reader := b.WithInterceptorFuncs(interceptor.Funcs{List: limited(&read)}).Build()
			got, err := HighestNumber(t.Context(), reader, kinds, gen.Namespace, app, "app-bbbbbbbbbb", 9)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want || read != test.read {
				t.Errorf("the number is %d, after %d Deployments were read; want %d, %d", got, read, test.want, test.read)
			}
		})
	}
}

// limited lists no more than the limit, as a cache does and this client does not, and counts what it lists.
func limited(read *int) func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
	return func(ctx context.Context, c client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
		if err := c.List(ctx, into, options...); err != nil {
			return err
		}
		limit := (&client.ListOptions{}).ApplyOptions(options).Limit
		if list, ok := into.(*appsv1.DeploymentList); ok {
			if limit > 0 && int64(len(list.Items)) > limit {
				list.Items = list.Items[:limit]
			}
			*read += len(list.Items)
		}
		return nil
	}
}
