package workload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

func configMaps(kind pin.Kind) bool { return kind == pin.ConfigMap }

func TestTracked(t *testing.T) {
	template := gen.Template(gen.EnvFrom("configmap/app"), gen.Volume("secret/db"))
	tests := map[string]struct {
		deployment *appsv1.Deployment
		want       string
		unused     int
		problem    bool
	}{
		"no annotation":            {gen.Deployment("web", template), "", 0, false},
		"all":                      {gen.Deployment("web", template, gen.Tracking("all")), "configmap/app", 0, false},
		"none":                     {gen.Deployment("web", template, gen.Tracking("none")), "", 0, false},
		"one that nobody refers":   {gen.Deployment("web", template, gen.Tracking("configmap/app,configmap/x")), "configmap/app", 1, false},
		"a slip beside a source":   {gen.Deployment("web", template, gen.Tracking("configmap/app,oops")), "configmap/app", 0, true},
		"a slip alone":             {gen.Deployment("web", template, gen.Tracking("oops")), "", 0, true},
		"all of a bare template":   {gen.Deployment("web", gen.Tracking("all")), "", 0, false},
		"a Secret, which is so-so": {gen.Deployment("web", template, gen.Tracking("secret/db")), "", 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			uses, unused, err := workload.Tracked(workload.Deployment{}, test.deployment, configMaps)
			var got []string
			for _, use := range uses {
				got = append(got, use.String())
			}
			if strings.Join(got, " ") != test.want || len(unused) != test.unused || (err != nil) != test.problem {
				t.Errorf("tracked %v, unused %v, error %v", got, unused, err)
			}
		})
	}
}

func TestPins(t *testing.T) {
	const text = "configmap/app=app-a@1"
	got, err := workload.Pins(workload.Deployment{}, gen.Deployment("web", gen.Pinned(text)))
	if err != nil || got.String() != text {
		t.Errorf("Pins = %v, %v", got, err)
	}
	for _, text := range []string{"oops", text + ",oops"} {
		if got, err := workload.Pins(workload.Deployment{}, gen.Deployment("web", gen.Pinned(text))); err == nil || len(got) > 0 {
			t.Errorf("malformed pins %q read as %v, %v", text, got, err)
		}
	}
	if got, err := workload.Pins(workload.Deployment{}, gen.Deployment("web")); err != nil || len(got) > 0 {
		t.Errorf("no pins read as %v, %v", got, err)
	}
}

func TestOrderOfReplicaSets(t *testing.T) {
	holder := workload.ReplicaSet{}
	if got := holder.Order(gen.ReplicaSet("web-1", gen.Deployment("web"), 7)); got != 7 {
		t.Errorf("Order = %d, want 7", got)
	}
	for _, text := range []string{"", "x", "1.5", "99999999999999999999"} {
		rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"deployment.kubernetes.io/revision": text}}}
		if got := holder.Order(rs); got != 0 {
			t.Errorf("Order of %q = %d, want 0", text, got)
		}
	}
}

// What confrev reads of an object is the same before and after it went into the cache.
func TestCompactKeepsWhatIsRead(t *testing.T) {
	d := gen.Deployment("web", gen.Tracking("all"), gen.Pinned("configmap/app=app-a@1"), gen.Template(gen.EnvFrom("configmap/app")),
		gen.Annotated(corev1.LastAppliedConfigAnnotation, strings.Repeat("x", 1000)))
	d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	d.Status.Replicas = 3
	rs := gen.ReplicaSet("web-1", d, 4)
	rs.ManagedFields, rs.Status.Replicas = d.ManagedFields, 3

	before := d.DeepCopy()
	workload.Deployment{}.Compact(d)
	if diff := cmp.Diff(before.Spec, d.Spec); diff != "" {
		t.Errorf("the spec changed (-before +after):\n%s", diff)
	}
	if d.ManagedFields != nil || d.Status.Replicas != 0 || len(d.Annotations) != 1 || d.UID != before.UID {
		t.Errorf("compacted to %+v", d.ObjectMeta)
	}

	holder, full := workload.ReplicaSet{}, rs.DeepCopy()
	holder.Compact(rs)
	if holder.Order(rs) != holder.Order(full) || holder.PinsText(rs) != holder.PinsText(full) {
		t.Errorf("order %d and pins %q became %d and %q", holder.Order(full), holder.PinsText(full), holder.Order(rs), holder.PinsText(rs))
	}
	if diff := cmp.Diff(full.OwnerReferences, rs.OwnerReferences); diff != "" || rs.UID != full.UID || rs.Name != full.Name {
		t.Errorf("it is not the same object any more:\n%s", diff)
	}
	if len(rs.Spec.Template.Spec.Containers) > 0 || rs.ManagedFields != nil {
		t.Error("the pod spec stays in memory")
	}
	holder.Compact(rs) // Twice is once: the cache may do so.
	if holder.Order(rs) != 4 {
		t.Error("compacted twice, the order is lost")
	}
}
