package revision

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/test/gen"
)

// Rule 5: a forged number on the revision of the present content uses up none. Others may have raised the number further. No one lowers it: two
// workloads that disagree would never end.
func TestAForgedNumberOfThePresentContentDoesNotCount(t *testing.T) {
	ref := Ref{pin.ConfigMap, gen.Namespace, "app"}
	for noted, want := range map[int64]int64{
		1: 3, 3: 3, 4: 4, 3 + plan.MaxLeap: 3 + plan.MaxLeap, 4 + plan.MaxLeap: 3, pin.MaxNumber - 1: 3, pin.MaxNumber: 3,
	} {
		for what, write := range map[string]func(*Store, Observation) error{
			"pinned": func(s *Store, seen Observation) error {
				p, created, err := s.Ensure(t.Context(), ref, seen, 3, Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "web"})
				if err == nil && (created || p != pin.Pin{Revision: seen.Name, Number: want}) {
					return fmt.Errorf("pinned to %s, created: %v", p, created)
				}
				return err
			},
			"refreshed": func(s *Store, seen Observation) error {
				return s.Refresh(t.Context(), ref, seen, pin.Pin{Revision: seen.Name, Number: 3})
			},
		} {
			t.Run(fmt.Sprintf("%d %s", noted, what), func(t *testing.T) {
				source := gen.ConfigMap("app", map[string]string{"k": "v"})
				seen := snapshotOf(source)
				made := object(source, seen, content.RevisionName("app", seen.Hash, 0), noted)
				made.SetUID("uid-of-revision")
				s, c, _ := observing(t, source, made)
				s.now = time.Now
				if err := write(s, observe(t, s, c, "")); err != nil {
					t.Error(err)
				}
				got := &corev1.ConfigMap{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(made), got); err != nil || number(got) != max(noted%pin.MaxNumber, 3) {
					t.Errorf("it has number %s, %v", got.Annotations[keys.Number], err)
				}
			})
		}
	}
}

// A pin has the number that was planned for it, or pods would be refused.
func TestANewRevisionIsPinnedWithItsNumber(t *testing.T) {
	s, c, _ := observing(t, gen.ConfigMap("app", map[string]string{"k": "v"}))
	p, created, err := s.Ensure(t.Context(), Ref{pin.ConfigMap, gen.Namespace, "app"}, observe(t, s, c, ""), pin.MaxNumber, Owner{})
	if err != nil || !created || p.Number != pin.MaxNumber {
		t.Errorf("%s, created: %v, %v", p, created, err)
	}
}
