//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/view"
)

// Rule 36: with the chart value safety, changes spread to sources for which nothing else is said, and a source can be an exception.
// Not parallel: the chart has another value meanwhile.
func TestChangesSpreadByDefault(t *testing.T) {
	stop(t)
	w := newWorld(t)
	reinstallAfter(t)
	w.Must(reinstall(t, "safety=careful"))
	c, err := cluster.Confrev(w.Ctx, "default-safety", binary, "--settle", "0s", "--grace", grace.String(), "--default-safety", "careful")
	w.Must(err)
	w.Must(c.Start(w.Ctx))
	defer func() { w.Must(c.Stop()) }()
	w.Must(cluster.WaitWebhook(w.Ctx))
	first := w.fleet(nil, "a", "b", "c")
	exception := configMap("exception", "k", "1")
	exception.Annotations = map[string]string{keys.Safety: "none"}
	w.Create(exception, deployment("d", envFrom("exception")), deployment("e", envFrom("exception")))
	for _, name := range []string{"d", "e"} {
		w.WaitPinned(name, "exception", "k", "1")
	}
	w.Edit("shared", "color", "B")
	w.allHave(first, "a")
	w.areRolledOut("a")
	w.Edit("exception", "k", "2")
	for _, name := range []string{"d", "e"} {
		w.WaitPinned(name, "exception", "k", "2")
	}
	// The plugin knows the default from the installation.
	if s := w.spreads(); s.State != view.Underway || !strings.Contains(s.Setting, "safety") || !strings.HasPrefix(stages(s), "a:Baking b:Waiting") {
		t.Errorf("status says %+v", s)
	}
	if have := w.have(first, "b", "c"); len(have) > 0 {
		t.Errorf("%v have the change before the first has stayed healthy for five minutes", have)
	}
}
