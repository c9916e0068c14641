//go:build e2e

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/pin"
)

// Rule 6.
func TestMissingSourceIsPinnedWhenItAppears(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(configMap("other", "k", "v"), deployment("web", envFrom("web", "other")))
	if w.pinOf("web", "other") == (pin.Pin{}) {
		t.Error("one missing source stopped the rest")
	}
	w.waitEvent("SourceMissing", "web", "configmap/web does not exist")
	if got := w.pinOf("web", "web"); got != (pin.Pin{}) {
		t.Errorf("a source that does not exist is pinned to %s", got)
	}
	w.create(configMap("web", "k", "v"))
	w.waitPinned("web", "web", "k", "v")
}

// Rule 6.
func TestRequiredKeyMissingGivesNoPinAndKeepsAnEarlierOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(configMap("web", "other", "1"), deployment("web", envKey("web", "needed", false)))
	w.waitEvent("KeyMissing", "web", `"needed"`)
	w.barrier()
	if got := w.pinOf("web", "web"); got != (pin.Pin{}) {
		t.Fatalf("without its key the source is pinned to %s", got)
	}
	w.edit("web", "needed", "1")
	pinned := w.waitPinned("web", "web", "needed", "1")

	w.kubectl("patch", "configmap", "web", "--type=json", "-p", `[{"op":"remove","path":"/data/needed"}]`)
	w.waitEvent("KeyMissing", "web", "pods keep using its revision "+pinned.String())
	w.barrier()
	if got := w.pinOf("web", "web"); got != pinned {
		t.Errorf("the pin moved to %s, want %s", got, pinned)
	}
	w.edit("web", "needed", "2")
	w.waitPinned("web", "web", "needed", "2")
}

// Rule 6.
func TestOptionalSourceAndKeyRollOutWhenTheyAppear(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(configMap("keys", "other", "1"), deployment("web", envKey("web", "k", true), envKey("keys", "k", true)))
	pinned := w.waitPinned("web", "keys", "other", "1")
	w.barrier()
	if notes := w.events("SourceMissing", "web"); len(notes) > 0 {
		t.Errorf("an optional source is no reason to warn: %q", notes)
	}
	before := len(w.replicaSets("web"))
	w.create(configMap("web", "k", "v"))
	w.waitPinned("web", "web", "k", "v")
	w.edit("keys", "k", "v")
	if now := w.waitPinned("web", "keys", "k", "v"); now == pinned {
		t.Errorf("the pin did not move from %s", pinned)
	}
	if got := len(w.replicaSets("web")) - before; got != 2 {
		t.Errorf("two sources that appeared made %d ReplicaSets, want 2", got)
	}
}

// Rule 6.
func TestDeletedAndRecreatedSource(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.kubectl("delete", "configmap", "web")
	w.waitEvent("SourceMissing", "web", "pods keep using its revision "+a.String())
	w.barrier()
	if got := w.pinOf("web", "web"); got != a {
		t.Fatalf("the pin is %s, want %s", got, a)
	}
	if w.gone(a.Revision) {
		t.Fatalf("revision %s went with its source", a.Revision)
	}
	w.create(configMap("web", "color", "A"))
	w.barrier()
	if got := w.pinOf("web", "web"); got != a {
		t.Fatalf("the same content under a new source moved the pin to %s", got)
	}
	w.kubectl("delete", "configmap", "web")
	w.create(configMap("web", "color", "B"))
	w.waitPinned("web", "web", "color", "B")
}

// A copy that a quota forbids is said on the workload, stops no other source, and is made once there is room.
func TestQuotaThatForbidsTheCopyIsSaid(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "full"}}
	quota.Spec.Hard = corev1.ResourceList{"count/configmaps": resource.MustParse("1")}
	w.create(quota)
	w.eventually("the quota counts", func() string {
		w.must(w.get("full", quota))
		if len(quota.Status.Used) == 0 {
			return "not yet"
		}
		return ""
	})
	w.edit("web", "color", "B")
	w.waitEvent("RevisionRefused", "web", "exceeded quota")
	if got := w.pinOf("web", "web"); got != a {
		t.Errorf("the pin moved to %s", got)
	}
	w.kubectl("delete", "resourcequota", "full")
	// Nothing tells confrev that there is room again: it tries once a minute.
	w.within(time.Minute+patience, "the copy is made", func() string {
		if now := w.pinOf("web", "web"); now == a {
			return "pinned to " + now.String()
		}
		return ""
	})
	w.waitPinned("web", "web", "color", "B")
}
