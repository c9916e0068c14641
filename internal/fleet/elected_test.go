package fleet

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/rollout"
)

// Rules 37 and 40: what a process that does not lead sees of members, whenever someone asks it, says nothing about what came in between. Once it leads, it
// begins with what the record says, and remembers.
func TestAProcessThatDoesNotLeadRemembersNothing(t *testing.T) {
	elected := make(chan struct{})
	f, asked := New(fake.NewClientBuilder().Build(), func() time.Time { return noon }), rollout.Spreading{Source: surveyed(0).Source, Meta: &metav1.PartialObjectMetadata{}}
	f.RememberFrom(elected)
	c := f.change(asked.Source)
	for i, step := range []struct{ elects, remembers bool }{{false, false}, {false, false}, {true, false}, {false, true}, {false, true}} {
		if step.elects {
			close(elected)
		}
		if _, err := f.survey(t.Context(), c, asked); err != nil {
			t.Fatal(err)
		}
		_, stays := c.stuck["web"]
		if remembers := !c.healthy["web"].IsZero() && stays && c.vouched["web"]; remembers != step.remembers {
			t.Errorf("%d: it remembers: %v, want %v", i, remembers, step.remembers)
		}
		if _, let := c.admitted["web"]; let != (i > 0) {
			t.Errorf("%d: who was let go a moment ago: %v", i, let)
		}
		c.healthy["web"], c.stuck["web"], c.vouched["web"], c.admitted["web"] = noon, stuck{"0 of 1", noon}, true, noon
	}
}
