//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/gen"
)

// Rule 21.3: an undo and the deploy after it come before the Deployment controller has done anything about the undo. With this history limit, it then deletes
// the ReplicaSet that shows what was rolled back to, since that is the oldest, and keeps the one that was undone. The next deploy must not take the code of the
// first for what was rolled back to. Not parallel: no other test gets along without the controllers.
func TestAHoldOutlivesALateDeploymentController(t *testing.T) {
	w, a := deployed(t, gen.HistoryLimit(1))
	b := w.editTo("B")
	// One that starts again sees nothing of what was between. One that is suspended and resumed may see it all.
	w.Must(cluster.KillProcess("kube-controller-manager"))
	revive := sync.OnceFunc(func() { w.Must(cluster.Revive(context.Background(), os.Stderr)) })
	t.Cleanup(revive)
	w.Undo("web")
	w.WaitHeld("web", "web")
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	revive()
	w.Eventually("the ReplicaSet that shows what was rolled back to is gone", func() string {
		if left := w.NotRolledOut("web"); left != "" {
			return left
		}
		for _, rs := range w.ReplicaSets("web") {
			if rs.Spec.Template.Spec.Containers[0].Image != "app:2" && pinsRevision(rs.Spec.Template.Annotations[keys.Pins], a.Revision) {
				return fmt.Sprint(rs.Name, " is there")
			}
		}
		return ""
	})
	for _, image := range []string{"app:3", "app:4"} {
		w.Kubectl("set", "image", "deployment/web", "app="+image)
		w.WaitPinned("web", "web", "color", "A")
		w.Barrier()
		if got := w.PinOf("web", "web"); got != a {
			t.Fatalf("after image %s the pin is %s, want %s: %s was rolled back", image, got, a, b)
		}
	}
	w.editTo("C")
}
