//go:build e2e

package e2e

import (
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// withStale has a Deployment with two pins, in each injection.
func withStale(t *testing.T, test func(w *world, web, one pin.Pin, names func(one string))) {
	for _, injection := range []optin.Injection{optin.Admission, optin.Template} {
		t.Run(string(injection), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Create(configMap("one", "k", "v"), configMap("web", "color", "A"),
				deployment("web", injecting(injection), volume("one"), envFrom("web")))
			a, one := w.WaitPinned("web", "web", "color", "A"), w.WaitPinned("web", "one", "k", "v")
			names := func(source string) {
				w.Helper()
				want := source + " web"
				switch {
				case injection == optin.Template:
					want = source + " " + a.Revision
				case source == one.Revision:
					want = "one web"
				}
				w.waitTemplateNames(want)
			}
			names(one.Revision)
			test(w, a, one, names)
		})
	}
}

// leaves checks that a Deployment has a pin of web and perhaps one of one, after so many rollouts in all.
func (w *world) leaves(web, one pin.Pin, rollouts int) {
	w.Helper()
	w.Barrier()
	if pins := w.Pins("web"); w.PinOf("web", "web") != web || w.PinOf("web", "one") != one {
		w.Errorf("pinned to %s, want %s and %s", pins, web, one)
	}
	if n := len(w.ReplicaSets("web")); n != rollouts {
		w.Errorf("%d rollouts, want %d", n, rollouts)
	}
}

// Rule 21.6: what is to be read live keeps its pin until the template changes anyway, and loses it in that request. An undo does
// not bring it back.
func TestARequestDropsThePinOfWhatIsReadLive(t *testing.T) {
	t.Parallel()
	withStale(t, func(w *world, web, one pin.Pin, names func(string)) {
		w.Kubectl("set", "image", "deployment/web", "app=app:2")
		w.Kubectl("annotate", "configmap/one", keys.Policy+"=live")
		w.Kubectl("annotate", "deployment/web", keys.Settle+"=1s")
		w.leaves(web, one, 2)
		w.Kubectl("set", "image", "deployment/web", "app=app:3")
		if got := w.PinOf("web", "one"); got != (pin.Pin{}) {
			w.Errorf("within the request, it stays pinned to %s", got)
		}
		names("one")
		w.leaves(web, pin.Pin{}, 3)
		w.Undo("web", "--to-revision=1")
		if image := w.Deployment("web").Spec.Template.Spec.Containers[0].Image; image != "app:1" {
			w.Errorf("the undo runs %s", image)
		}
		names("one")
		w.leaves(web, pin.Pin{}, 4)
	})
}

// Rule 21.6: the request that takes the last reference away takes the pin away, and the undo of it brings both back.
func TestARequestDropsThePinOfWhatItUsesNoMore(t *testing.T) {
	t.Parallel()
	withStale(t, func(w *world, web, one pin.Pin, names func(string)) {
		w.Kubectl("patch", "deployment/web", "--type=json", "-p", `[{"op":"remove","path":"/spec/template/spec/volumes"}]`)
		if got := w.PinOf("web", "one"); got != (pin.Pin{}) {
			w.Errorf("within the request, it stays pinned to %s", got)
		}
		w.leaves(web, pin.Pin{}, 2)
		w.Undo("web")
		names(one.Revision)
		w.leaves(web, one, 2)
	})
}

// Rule 21.6: the last pin of a workload goes too.
func TestARequestDropsTheLastPin(t *testing.T) {
	t.Parallel()
	w, _ := deployed(t)
	w.Kubectl("annotate", "configmap/web", keys.Policy+"=ignore")
	w.Barrier()
	w.Kubectl("set", "image", "deployment/web", "app=app:2")
	if pins := w.PinsText("web"); pins != "" {
		t.Errorf("it stays pinned to %s", pins)
	}
	w.leaves(pin.Pin{}, pin.Pin{}, 2)
	w.podsRead("web")
}

// Rule 21.6: what is missing keeps its pin, tracked or not, and so does what an opted-out workload is pinned to.
func TestARequestKeepsThePinOfWhatIsMissing(t *testing.T) {
	t.Parallel()
	withStale(t, func(w *world, web, one pin.Pin, names func(string)) {
		w.Kubectl("delete", "configmap/one")
		w.Kubectl("set", "image", "deployment/web", "app=app:2")
		w.leaves(web, one, 2)
		w.Kubectl("annotate", "--overwrite", "deployment/web", keys.Track+"=configmap/web")
		w.Kubectl("set", "image", "deployment/web", "app=app:3")
		names(one.Revision)
		w.leaves(web, one, 3)
		w.Kubectl("annotate", "--overwrite", "deployment/web", keys.Track+"=none")
		w.Kubectl("set", "image", "deployment/web", "app=app:4")
		w.leaves(web, one, 4)
	})
}
