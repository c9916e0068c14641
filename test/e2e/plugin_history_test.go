//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"confrev.io/confrev/internal/view"
)

func TestPluginHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A", "size", "1"), configMap("unused", "k", "v"), deployment("web", envFrom("app")))
	w.WaitPinned("web", "app", "color", "A")
	w.Kubectl("annotate", "configmap/app", "kubernetes.io/change-cause=warmer", "--overwrite")
	w.Kubectl("patch", "configmap/app", "--type=merge", "-p", `{"data":{"color":"B","size":null,"shape":"round"}}`)
	second := w.WaitPinned("web", "app", "color", "B")
	w.plugin("status", "deployment/web", "--wait")

	got := w.plugin("history", "configmap/app")
	first := got.rowOf("configmap/app", "1")
	if len(first) != 7 || first[0] != "-" || !slices.Equal(first[2:], []string{"deployment/web", "0", "+color", "+size", "-"}) {
		t.Errorf("the first revision: %q\n%+v", first, got)
	}
	last := got.rowOf("configmap/app", "2")
	if len(last) != 8 || last[0] != "*" || !slices.Equal(last[2:], []string{"deployment/web", "1", "+shape", "-size", "~color", "warmer"}) {
		t.Errorf("the second revision: %q\n%+v", last, got)
	}
	var list view.HistoryList
	if status := w.pluginJSON(&list, "history", "deploy/web"); status != 0 || len(list.Items) != 1 || len(list.Items[0].Revisions) != 2 {
		t.Fatalf("status %d, %+v", status, list)
	}
	entry := list.Items[0].Revisions[1]
	if entry.Name != second.Revision || !entry.Current || entry.Bytes != len("colorBshaperound") || len(entry.Holders) != 1 ||
		!strings.HasPrefix(entry.Holders[0], "replicaset/web-") {
		t.Errorf("as JSON: %+v", entry)
	}
	if got := w.pluginPrints("history", "cm/app", "-o", "name"); !strings.HasSuffix(got, "configmap/"+second.Revision+"\n") {
		t.Error(got)
	}
	if got := w.plugin("history", "configmap/unused"); got.status != 0 || got.stdout != "" || !strings.Contains(got.stderr, "No revisions") {
		t.Errorf("%+v", got)
	}
	for _, line := range examplesOf(t, "history") {
		w.runExample(t.TempDir(), line)
	}
}

// What a Secret holds is never shown, only which of its keys changed.
func TestPluginHistoryOfSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, _ := w.launch(subjects[0], "web")
	a.editTo("hush-hush")
	for _, format := range []string{"wide", "json", "yaml"} {
		got := w.pluginPrints("history", "secret/"+a.secret, "-o", format)
		if strings.Contains(got, "hush") || strings.Contains(got, "aHVzaC1odXNo") || !strings.Contains(got, sourceKey) {
			t.Errorf("-o %s: %s", format, got)
		}
	}
}

func TestPluginHistoryRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A"), deployment("web", envFrom("app")))
	revision := w.WaitPinned("web", "app", "color", "A").Revision
	w.pluginFails(1, "no object given", "history")
	w.pluginFails(1, "a name is missing", "history", "configmap")
	w.pluginFails(1, `configmaps "nothing" not found`, "history", "configmap/nothing")
	w.pluginFails(1, `deployments.apps "stranger" not found`, "history", "deploy", "stranger")
	w.pluginFails(1, "is itself a revision; its source is configmap/app", "history", "configmap/"+revision)
	w.pluginFails(1, "services are not a kind of workload", "history", "service/web")
	w.pluginFails(1, "cannot reach the API server", "history", "configmap/app", w.unreachable())
	w.pluginFails(1, "cannot list resource", "history", "configmap/app", w.account("nothing"))
	some := w.account("some", rights("apps", []string{"deployments"}, "list"), rights("", []string{"configmaps"}, "list", "get"))
	w.pluginFails(1, `secrets is forbidden`, "history", "secret/db", some)
	if got := w.plugin("history", "configmap/app", some); got.status != 0 || got.rowOf("configmap/app", "1") == nil ||
		!strings.Contains(got.stderr, "note: you may not list pods") {
		t.Errorf("%+v", got)
	}
}
