//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
)

// Rule 6.
func TestMissingSourceIsPinnedWhenItAppears(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("other", "k", "v"), deployment("web", envFrom("web", "other")))
	if w.PinOf("web", "other") == (pin.Pin{}) {
		t.Error("one missing source stopped the rest")
	}
	w.WaitEvent("SourceMissing", "web", "configmap/web does not exist")
	if got := w.PinOf("web", "web"); got != (pin.Pin{}) {
		t.Errorf("a source that does not exist is pinned to %s", got)
	}
	w.Create(configMap("web", "k", "v"))
	w.WaitPinned("web", "web", "k", "v")
}

// Rule 6.
func TestMissingRequiredKeyKeepsEarlierPin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "other", "1"), deployment("web", envKey("web", "needed", false)))
	w.WaitEvent("KeyMissing", "web", `"needed"`)
	w.Barrier()
	if got := w.PinOf("web", "web"); got != (pin.Pin{}) {
		t.Fatalf("without its key the source is pinned to %s", got)
	}
	w.Edit("web", "needed", "1")
	pinned := w.WaitPinned("web", "web", "needed", "1")

	w.Kubectl("patch", "configmap", "web", "--type=json", "-p", `[{"op":"remove","path":"/data/needed"}]`)
	w.WaitEvent("KeyMissing", "web", "pods keep using its revision "+pinned.String())
	w.Barrier()
	if got := w.PinOf("web", "web"); got != pinned {
		t.Errorf("the pin moved to %s, want %s", got, pinned)
	}
	w.Edit("web", "needed", "2")
	w.WaitPinned("web", "web", "needed", "2")
}

// Rule 6.
func TestOptionalSourceAndKeyRollOutWhenTheyAppear(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("keys", "other", "1"), deployment("web", envKey("web", "k", true), envKey("keys", "k", true)))
	pinned := w.WaitPinned("web", "keys", "other", "1")
	w.Barrier()
	if notes := w.Events("SourceMissing", "web"); len(notes) > 0 {
		t.Errorf("an optional source is no reason to warn: %q", notes)
	}
	before := len(w.ReplicaSets("web"))
	w.Create(configMap("web", "k", "v"))
	w.WaitPinned("web", "web", "k", "v")
	w.Edit("keys", "k", "v")
	if now := w.WaitPinned("web", "keys", "k", "v"); now == pinned {
		t.Errorf("the pin did not move from %s", pinned)
	}
	if got := len(w.ReplicaSets("web")) - before; got != 2 {
		t.Errorf("two sources that appeared made %d ReplicaSets, want 2", got)
	}
}

// Rule 6.
func TestDeletedAndRecreatedSource(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.Kubectl("delete", "configmap", "web")
	w.WaitEvent("SourceMissing", "web", "pods keep using its revision "+a.String())
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Fatalf("the pin is %s, want %s", got, a)
	}
	if w.Gone(a.Revision) {
		t.Fatalf("revision %s went with its source", a.Revision)
	}
	w.Create(configMap("web", "color", "A"))
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Fatalf("the same content under a new source moved the pin to %s", got)
	}
	w.Kubectl("delete", "configmap", "web")
	w.Create(configMap("web", "color", "B"))
	w.WaitPinned("web", "web", "color", "B")
}

// Rule 11: a source with too many keys would take too much memory. Its pin stays until it has fewer.
func TestTooManyKeysAreReported(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	data := map[string]string{}
	for i := range revision.MaxKeys + 1 {
		data[fmt.Sprint("k", i)] = "v"
	}
	w.replaceData("web", data)
	w.WaitEvent("TooBig", "web", "configmap/web has 10001 keys")
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("the pin moved to %s", got)
	}
	w.replaceData("web", map[string]string{"color": "B"})
	w.WaitPinned("web", "web", "color", "B")
}

// replaceData replaces the data by a patch, since confrev may label the source meanwhile.
func (w *world) replaceData(configMap string, data map[string]string) {
	w.Helper()
	value, err := json.Marshal(data)
	w.Must(err)
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: configMap}}
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/data","value":%s}]`, value)
	w.Must(cluster.Client.Patch(w.Ctx, obj, client.RawPatch(types.JSONPatchType, patch)))
}

// A copy that a quota forbids is said on the workload, stops no other source, and is made once there is room.
func TestQuotaThatForbidsTheCopyIsReported(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.quota("full", "count/configmaps=1")
	w.Edit("web", "color", "B")
	w.WaitEvent("RevisionRefused", "web", "exceeded quota")
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("the pin moved to %s", got)
	}
	w.Kubectl("delete", "resourcequota", "full")
	// Nothing tells confrev that there is room again: it tries once a minute.
	w.Within(time.Minute+patience, "the copy is made", func() string {
		if now := w.PinOf("web", "web"); now == a {
			return "pinned to " + now.String()
		}
		return ""
	})
	w.WaitPinned("web", "web", "color", "B")
}
