//go:build e2e

package e2e

import (
	"slices"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/view"
)

// A configured kind whose schema prunes pins is said, once, and not written again and again.
func TestAKindThatKeepsNoPinsIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"))
	app := objectOf(prunedApp, "web", map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
		"name": "app", "image": "app:1", "envFrom": []any{map[string]any{"configMapRef": map[string]any{"name": "web"}}}}}}}})
	app.SetAnnotations(map[string]string{keys.Track: "all"})
	w.Create(app)
	w.WaitEvent("PinsNotKept", "web", "the API server does not keep annotations at spec.template.metadata of this prunedapp")
	w.WaitEvent("RevisionCreated", "web", "Created revision")
	w.Barrier()
	if notes := w.Events("RevisionCreated", "web"); len(notes) != 1 {
		t.Errorf("tried %d times: %q", len(notes), notes)
	}
	w.Edit("web", "color", "B")
	w.Eventually("it is tried again with other content, and the revisions go", func() string {
		if notes := w.Events("RevisionCreated", "web"); len(notes) < 2 {
			return notes[0]
		}
		if left := w.Revisions("web"); len(left) > 0 {
			return left[0].Name
		}
		return ""
	})
	var d view.Diagnosis
	w.pluginJSON(&d, "doctor")
	if f := found(d, "PinsNotKept", "customresourcedefinition/prunedapps.e2e.confrev.io"); f == nil || f.Fix == "" {
		t.Errorf("%+v", d.Findings)
	}
	if slices.ContainsFunc(d.Findings, func(f view.Finding) bool {
		return f.Reason == "PinsNotKept" && f.Object != "customresourcedefinition/prunedapps.e2e.confrev.io"
	}) {
		t.Errorf("the schemas of other kinds keep pins: %+v", d.Findings)
	}
}
