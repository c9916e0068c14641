//go:build e2e

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// rollOut deploys a release and returns the name of the ConfigMap that the template then names.
func (w *world) rollOut(t tool, r release) string {
	w.Helper()
	t.deploy(w, r)
	return w.waitNamed(r)
}

// waitNamed waits until the ConfigMap that the template names is that of a release, and returns its name.
func (w *world) waitNamed(r release) string {
	w.Helper()
	m := matrix{world: w, tool: tool{attach: true}}
	return m.waitReleased(r)
}

// kustomize never prunes what it generated; mode attach lets it go with the last ReplicaSet that names it.
func TestHashedNamesGoWithTheirLastReplicaSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tool := kustomized("", hashedNames)
	releases := []release{{image: "app:1", color: "A"}, {image: "app:2", color: "B"}, {image: "app:3", color: "C"}, {image: "app:4", color: "D"}}
	a := w.rollOut(tool, releases[0])
	w.Kubectl("patch", "deployment/web", "-p", `{"spec":{"revisionHistoryLimit":1}}`)
	b := w.rollOut(tool, releases[1])
	w.waitOwners(a)
	c := w.rollOut(tool, releases[2])
	w.waitGone(a)
	// An undo finds what it needs.
	w.Undo("web")
	w.podsRead(w.waitNamed(releases[1]))
	w.waitOwners(b)
	// Nothing is held: the same deploy again goes forward again.
	w.podsRead(w.rollOut(tool, releases[2]))
	// Nor is an edit of what kustomize made anyone's business.
	d := w.rollOut(tool, releases[3])
	generation := w.Deployment("web").Generation
	w.Edit(d, "more", "x")
	w.Barrier()
	if got := w.Deployment("web").Generation; got != generation {
		t.Errorf("an edit moved generation %d to %d", generation, got)
	}
	w.waitGone(b)
	w.waitOwners(c)
	tool.remove(w, releases[3])
	w.allIsGone()
}

// kubectl apply --prune deletes the ConfigMaps of earlier deploys, which an undo needs. With confrev.io/protect they stay
// readable.
func TestPruningHashedNames(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"by label":    {"--prune", "--selector=app=web"},
		"by ApplySet": {"--prune", "--applyset=web"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := release{image: "app:1", color: "A"}, release{image: "app:2", color: "B"}
			t.Run("unprotected", func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				tool := kustomized("", hashedNames, flags...)
				a := w.rollOut(tool, first)
				w.rollOut(tool, second)
				w.waitGone(a)
				w.Undo("web")
				if named := w.Deployment("web").Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name; named != a {
					t.Errorf("undone to %s, want %s", named, a)
				}
			})
			t.Run("protected", func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				tool := kustomized("", hashedNames.protected(), flags...)
				a := w.rollOut(tool, first)
				w.Eventually("the finalizer is on", func() string {
					cm := &corev1.ConfigMap{}
					w.Must(w.Get(a, cm))
					return missingFinalizer(cm)
				})
				b := w.rollOut(tool, second)
				w.Undo("web")
				w.podsRead(w.waitNamed(first))
				// Its deletion waits; it is not forgotten.
				w.rollOut(tool, second)
				w.Kubectl("patch", "deployment/web", "-p", `{"spec":{"revisionHistoryLimit":0}}`)
				w.waitGone(a)
				w.podsRead(b)
				tool.remove(w, second)
				w.Kubectl("delete", "secret", "web", "--ignore-not-found")
				w.allIsGone()
			})
		})
	}
}

// kustomize puts ConfigMaps before workloads. Who asks for another order gets a rollout for each (rule 2), and still one
// ReplicaSet at first (rule 7).
func TestKustomizeInTheOrderOfTheFile(t *testing.T) {
	forEachInjection(t, never, func(w *world, r release) {
		w.KubectlIn(r.manifest(), "delete", "-f", "-")
		fifo := plainNames
		fifo.more = "sortOptions: {order: fifo}\n"
		tool := kustomized("", fifo)
		tool.deploy(w, r)
		w.runs(r, 1)
		w.onlyReplicaSets("web", 1)
		r.image, r.color = "app:2", "B"
		w.deployedApart(r, func(r release) { tool.deploy(w, r) })
	})
}
