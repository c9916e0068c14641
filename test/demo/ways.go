package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
)

// revisionsWay is to edit ConfigMap app: confrev makes revisions of it, and pins them.
type revisionsWay struct{ *canaryStory }

func (w *revisionsWay) name() string        { return "Revisions" }
func (w *revisionsWay) label() string       { return keys.Source + "=app" }
func (w *revisionsWay) inMidCanary() []step { return nil }

func (w *revisionsWay) deploy() string {
	w.folder = "canary"
	w.say(`A Rollout of five pods with ConfigMap "app" and the annotation confrev.io/track: all. Its files: %s.`, w.files())
	w.kubectl("apply", "-f", ".")
	return w.awaitPinned(greetingFirst).Revision
}

func (w *revisionsWay) change(page string) string {
	w.write(fmt.Sprintf("configmap.yaml now has GREETING: %q", page), greetingFirst, page)
	w.kubectl("apply", "-f", "configmap.yaml")
	p := w.awaitPinned(page)
	w.showPins()
	return p.Revision
}

func (w *revisionsWay) pruning() string { return "" }

// listNext has the number of the revision to come, since its hash is not known yet.
func (w *revisionsWay) listNext() string {
	var p pin.Pin
	if w.err == nil {
		p, w.err = w.pinOf(w.subject)
	}
	return fmt.Sprintf("configmap/app@%d", p.Number+1)
}

func (w *revisionsWay) undone() {
	var p pin.Pin
	w.await("confrev has noted it", "event Held", w.event("Held"))
	if w.err == nil {
		p, w.err = w.pinOf(w.subject)
	}
	w.say("\nThe ConfigMap still says what was rolled back from. confrev sees that, and holds:")
	w.kubectl("get", "configmap", "app", "-o", "jsonpath={.data.GREETING}")
	w.showEvents("Held")
	w.barrier()
	w.showPins()
	w.claim("the ConfigMap has the new greeting", greetingLast, w.page("app"))
	w.claim("the Rollout is pinned to the old one, "+w.fixed, w.fixed, func() (string, error) {
		p, err := w.pinOf(w.subject)
		return p.Revision, err
	})
	w.claim("its annotation "+keys.Held+" says from where it was rolled back",
		fmt.Sprintf("configmap/app=%s@%d;on=%s", w.last, p.Number+1, p), w.note)
}

func (w *revisionsWay) deleted() {
	w.claim(`the ConfigMap "app" itself is the user's, and stays`, greetingLast, w.page("app"))
	w.kubectl("delete", "configmap", "app")
}

func (w *revisionsWay) showPins() { w.get("rollouts", "app") }

// attachWay is to name each content anew, as Pulumi and kustomize do: confrev only ties the ConfigMaps to their users.
type attachWay struct {
	*canaryStory
	// version is that of the ConfigMap's name.
	version int
}

func (w *attachWay) name() string  { return "Attach" }
func (w *attachWay) label() string { return "app=app" }

func (w *attachWay) configMap() string { return fmt.Sprintf("app-v%d", w.version) }

func (w *attachWay) deploy() string {
	w.folder, w.version = "attach", 1
	w.say(`The same with names of the user's own: app-v1, app-v2, … are ConfigMaps with confrev.io/attach: "true", and the Rollout
has confrev.io/mode: attach. confrev writes no pins and makes no copies then. Its files: %s.`, w.files())
	w.kubectl("apply", "-f", ".")
	w.await("confrev protects the ConfigMap", "protected", w.protection(w.configMap()))
	w.claim("the template has no pins", "no pins", w.pins)
	return w.configMap()
}

func (w *attachWay) change(page string) string {
	w.version++
	w.write(fmt.Sprintf("configmap.yaml and rollout.yaml now name the ConfigMap %s, which has GREETING: %q", w.configMap(), page),
		greetingFirst, page, "app-v1", w.configMap(), "app:1", w.image)
	w.kubectl("apply", "-f", ".")
	return w.configMap()
}

func (w *attachWay) listNext() string { return fmt.Sprintf("app-v%d", w.version+1) }

func (w *attachWay) inMidCanary() []step {
	return []step{{"the deploy tool deletes the old ConfigMap too early", w.deleteEarly}}
}

func (w *attachWay) pruning() string {
	return fmt.Sprintf(`
(A ConfigMap that the deploy tool did not delete is kept for a grace time after its last user, in case that a deploy is
about to name it again. That is %s here: --grace=%s.)`, grace, grace)
}

func (w *attachWay) deleteEarly() {
	w.say(`app-v1 is not in the user's files any more, so a deploy tool deletes it, although four pods read it. It has
confrev.io/protect: "true", and for that confrev gave it a finalizer:`)
	w.kubectl("delete", "configmap", w.stable, "--wait=false")
	w.claim(w.stable+" is being deleted, and protected", "being deleted, protected", w.protection(w.stable))
	w.claim("so pods can still read it", greetingFirst, w.page(w.stable))
}

func (w *attachWay) undone() {
	w.barrier()
	w.claim("the Rollout names "+w.fixed+"; confrev has nothing to hold", w.fixed+", no pins, "+noNote,
		both(both(w.manifestSays, w.pins), w.note))
	w.claim(w.last+" stays as long as its ReplicaSet", names(w.fixed, w.last), w.copies)
}

func (w *attachWay) deleted() {}

// pins gives the pins of the template.
func (w *attachWay) pins() (string, error) {
	template, err := w.template(w.subject)
	if err != nil {
		return "", err
	}
	if pins, ok := template.Annotations[keys.Pins]; ok {
		return pins, nil
	}
	return "no pins", nil
}

// protection tells whether a ConfigMap has confrev's finalizer, and whether somebody deleted it.
func (w *attachWay) protection(configMap string) look {
	return func() (string, error) {
		cm := &corev1.ConfigMap{}
		if err := w.object(configMap, cm); err != nil {
			return "", err
		}
		var words []string
		if cm.DeletionTimestamp != nil {
			words = append(words, "being deleted")
		}
		if controllerutil.ContainsFinalizer(cm, keys.ProtectFinalizer) {
			words = append(words, "protected")
		}
		return strings.Join(words, ", "), nil
	}
}
