package reconcile

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

func reconciled(t *testing.T, r *Revisions, ref revision.Ref) {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
}

// Rule 9: a lost revision comes back with its source's old content, also if only a workload pins it that opted out: no event of a source
// reaches that. Each loss is reported once, the next one again.
func TestALostRevisionComesBackWithItsContent(t *testing.T) {
	optedOut := gen.Web("1", gen.Tracking("none"), gen.Pinned(gen.PinOfApp("a", "1")))
	optedOut.UID = "uid-of-web"
	r, _, told := newRevisions(t, gen.App("b"), gen.ConfigMap("other", nil), optedOut)
	lost := revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: gen.NameOfRevision("a")}
	// matters reports whether an event of a ConfigMap leads to the lost revision.
	matters := func(name string) bool {
		q := newQueue(t)
		r.itself(pin.ConfigMap).Update(t.Context(), event.UpdateEvent{ObjectOld: gen.ConfigMap(name, nil), ObjectNew: gen.ConfigMap(name, nil)}, q)
		return taken(q) == lost.Name
	}
	edit := func(value string) {
		t.Helper()
		source := &corev1.ConfigMap{}
		if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(gen.App("")), source); err != nil {
			t.Fatal(err)
		}
		source.Data = gen.App(value).Data
		if err := r.Client.Update(t.Context(), source); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if matters("app") {
			t.Error("nothing is lost, and the source matters")
		}
		reconciled(t, r, lost)
		reconciled(t, r, lost)
		if said := drained(told); len(said) != 1 || !strings.Contains(said[0], notice.RevisionMissing) {
			t.Fatalf("said %q", said)
		}
		if !matters("app") || matters("other") {
			t.Errorf("its source matters: %t, another one: %t", matters("app"), matters("other"))
		}
		edit("a")
		reconciled(t, r, lost)
		if said := drained(told); len(said) != 2 || !strings.Contains(said[0], notice.RevisionRecreated) {
			t.Fatalf("said %q", said)
		}
		edit("b")
		if err := r.Client.Delete(t.Context(), gen.ConfigMap(lost.Name, nil)); err != nil {
			t.Fatal(err)
		}
	}
}

// Rule 9: what others recreated, such as the workload that advances to it, is not lost either.
func TestARevisionThatOthersRecreatedCanBeLostAgain(t *testing.T) {
	web := gen.Web("1", gen.Pinned(gen.PinOfApp("a", "1")))
	web.UID = "uid-of-web"
	r, _, told := newRevisions(t, gen.App("b"), web)
	lost := revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: gen.NameOfRevision("a")}
	reconciled(t, r, lost)
	recreated := gen.RevisionOfApp("a", "1")
	recreated.ResourceVersion = ""
	if err := r.Client.Create(t.Context(), recreated); err != nil {
		t.Fatal(err)
	}
	reconciled(t, r, lost)
	if len(r.lost.of) > 0 {
		t.Errorf("it exists, and %v are lost", r.lost.of)
	}
	if err := r.Client.Delete(t.Context(), gen.ConfigMap(lost.Name, nil)); err != nil {
		t.Fatal(err)
	}
	reconciled(t, r, lost)
	if said := drained(told); len(said) != 2 || !strings.Contains(said[1], notice.RevisionMissing) {
		t.Errorf("said %q", said)
	}
}
