//go:build perf

package perf

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// patches is how many patches each variant sends in one run.
const patches = 200

// BenchmarkGuards measures what the guards of revisions add to a patch of a ConfigMap: a small one and one of 900 KiB that
// are no revisions, and a revision that is patched by a user that the guards let through, as all of confrev's writes are. Each
// is in a namespace with guards and in one that they leave alone. Patches are dry runs, which pass the whole of admission
// but write nothing to etcd, so the ratios are higher than those of real ones; both namespaces take turns, so that a busy
// machine slows both.
//
// The metrics are medians in milliseconds, and ratios to the same without guards.
func BenchmarkGuards(b *testing.B) {
	w := newWorld(b)
	revision := configMap("perf-bcdfghjklm", "v")
	revision.Immutable = new(true)
	revision.Labels = map[string]string{keys.Content: "v1-" + strings.Repeat("a", 52)}
	revision.Annotations = map[string]string{keys.SourceName: "perf"}
	// Of a kind that is not served: garbage collection leaves it alone, and so does confrev.
	revision.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Thing", Name: "perf", UID: "0"}}
	for name, obj := range map[string]*corev1.ConfigMap{
		"small": configMap("perf-small", "v"), "large": configMap("perf-large", strings.Repeat("x", 900<<10)), "revision": revision,
	} {
		b.Run(name, func(b *testing.B) {
			c := named(b, "system:serviceaccount:kube-system:generic-garbage-collector")
			variants := [2]patched{{Client: c, obj: obj.DeepCopy()}, {Client: c, obj: obj.DeepCopy()}}
			for i, namespace := range []string{env.Namespace, w.NS} {
				variants[i].obj.Namespace = namespace
				env.Create(b, variants[i].Client, variants[i].obj)
			}
			compare(b, "guards-ms", func(variant int) time.Duration { return variants[variant].patch(b) })
		})
	}
}

type patched struct {
	client.Client
	obj *corev1.ConfigMap
}

func (p *patched) patch(b *testing.B) time.Duration {
	b.Helper()
	obj := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	obj.Namespace, obj.Name = p.obj.Namespace, p.obj.Name
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+stamp+`":"x"}}}`))
	start := time.Now()
	if err := p.Patch(b.Context(), obj, patch, client.DryRunAll); err != nil {
		b.Fatal(err)
	}
	return time.Since(start)
}
