//go:build soak

package soak

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

const (
	// apps are Deployments; each has a ConfigMap of its own, and share of them have one in common.
	apps, share = 24, 4
	// most is how many pods a Deployment has at most, history how many old ReplicaSets.
	most, history = 3, 3
)

// world is a namespace, and what users do in it.
type world struct {
	*testing.T
	env.World
	random *rand.Rand
	// edits makes each content another one.
	edits int
	// contents are those that sources have.
	contents map[string]string
	done     map[string]int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{T: t, World: env.NewWorld(t, cluster, "soak"), random: newRandom(), contents: map[string]string{}, done: map[string]int{}}
}

func own(app int) string    { return fmt.Sprint("own-", app) }
func common(app int) string { return fmt.Sprint("common-", app/share) }
func name(app int) string   { return fmt.Sprint("web-", app) }

func (w *world) anyApp() int { return w.random.IntN(apps) }

// anySource returns a source, and one in four times one that is shared.
func (w *world) anySource() string {
	if app := w.anyApp(); w.random.IntN(4) > 0 {
		return own(app)
	}
	return common(w.anyApp())
}

func (w *world) next() string {
	w.edits++
	return fmt.Sprint("content ", w.edits)
}

func (w *world) populate() {
	w.Helper()
	for app := range apps {
		w.Must(w.createSource(own(app)))
		if app%share == 0 {
			w.Must(w.createSource(common(app)))
		}
		w.Must(w.createWorkload(app))
	}
	w.Eventually("all have the current content", w.notCurrent)
}

func (w *world) createSource(source string) error {
	w.contents[source] = w.next()
	return w.TryCreate(gen.Unsaved(gen.ConfigMap(source, gen.Data("key", w.contents[source]))))
}

func (w *world) createWorkload(app int) error {
	return w.TryCreate(gen.Unsaved(gen.Deployment(name(app), gen.Tracking("all"), gen.Replicas(1), gen.HistoryLimit(history),
		gen.Template(gen.EnvFrom("configmap/"+own(app)), gen.Volume("configmap/"+common(app)), func(spec *corev1.PodSpec) {
			spec.TerminationGracePeriodSeconds = new(int64(0))
		}))))
}

func (w *world) patch(obj client.Object, name, format string, args ...any) error {
	obj.SetNamespace(w.NS)
	obj.SetName(name)
	return cluster.Client.Patch(w.Ctx, obj, client.RawPatch(types.StrategicMergePatchType, fmt.Appendf(nil, format, args...)))
}

func (w *world) edit() error {
	source := w.anySource()
	w.contents[source] = w.next()
	return w.patch(&corev1.ConfigMap{}, source, `{"data":{"key":%q}}`, w.contents[source])
}

func (w *world) deploy() error {
	return w.patch(&appsv1.Deployment{}, name(w.anyApp()), `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"app:%s"}]}}}}`,
		strings.ReplaceAll(w.next(), " ", "-"))
}

func (w *world) scale() error {
	return w.patch(&appsv1.Deployment{}, name(w.anyApp()), `{"spec":{"replicas":%d}}`, 1+w.random.IntN(most))
}

func (w *world) undo() error {
	_, err := cluster.Kubectl(w.Ctx, "--namespace", w.NS, "rollout", "undo", "deployment/"+name(w.anyApp()))
	if err != nil && (strings.Contains(err.Error(), "no rollout history found") || strings.Contains(err.Error(), "no last revision to roll back to")) {
		// It is new.
		return nil
	}
	return err
}

func (w *world) replaceWorkload() error {
	app := w.anyApp()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: name(app)}}
	if err := cluster.Client.Delete(w.Ctx, d, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	return w.createWorkload(app)
}

func (w *world) replaceSource() error {
	source := w.anySource()
	if err := cluster.Client.Delete(w.Ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: source}}); err != nil {
		return err
	}
	return w.createSource(source)
}

// comesToRest edits all sources, which ends every hold, and waits until each workload has that, and nothing unused is left.
func (w *world) comesToRest() {
	w.Helper()
	for source := range w.contents {
		w.contents[source] = w.next()
		w.Must(w.patch(&corev1.ConfigMap{}, source, `{"data":{"key":%q}}`, w.contents[source]))
	}
	w.Eventually("all have the current content", w.notCurrent)
	w.Within(grace+w.Patience, "revisions are those that are in use", w.leftovers)
}

// notCurrent complains of a Deployment that does not have what its sources contain, or has not rolled it out.
func (w *world) notCurrent() string {
	for app := range apps {
		pins := w.Pins(name(app))
		for _, source := range []string{own(app), common(app)} {
			revision := &corev1.ConfigMap{}
			if err := w.Get(pins[pin.Source{Kind: pin.ConfigMap, Name: source}].Revision, revision); err != nil {
				return fmt.Sprintf("%s: %s: %v", name(app), source, err)
			}
			if got, want := revision.Data["key"], w.contents[source]; got != want {
				return fmt.Sprintf("%s has %q of %s, want %q", name(app), got, source, want)
			}
		}
		if complaint := w.NotRolledOut(name(app)); complaint != "" {
			return name(app) + ": " + complaint
		}
	}
	return ""
}

// leftovers complains of revisions that nothing uses, and of those that are used and not there.
func (w *world) leftovers() string {
	used, revisions := map[string]bool{}, &corev1.ConfigMapList{}
	sets, deployments := &appsv1.ReplicaSetList{}, &appsv1.DeploymentList{}
	w.List(revisions, client.HasLabels{keys.Content})
	w.List(sets)
	w.List(deployments)
	note := func(template corev1.PodTemplateSpec) {
		for _, revision := range index.Pins(template.Annotations[keys.Pins]) {
			used[revision] = true
		}
	}
	for _, set := range sets.Items {
		note(set.Spec.Template)
	}
	for _, d := range deployments.Items {
		note(d.Spec.Template)
	}
	for _, revision := range revisions.Items {
		text := pin.Source{Kind: pin.ConfigMap, Name: revision.Name}.String()
		if !used[text] {
			return text + " is left, and nothing uses it"
		}
		delete(used, text)
	}
	for text := range used {
		return text + " is used, and does not exist"
	}
	return ""
}
