//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/revision"
)

// release is what a user deploys: an image of the Deployment web and a value of the ConfigMap web.
type release struct {
	image, color string
	injection    optin.Injection
	// settle is the Deployment's annotation confrev.io/settle; none if empty.
	settle string
}

// never is a settle time that no test waits for: what rolls out anyway was included by a deploy. It is for what is deployed together, too: on a
// busy machine, the sources come so long before the workload's new code that they would advance by themselves.
const never = "1h"

func (r release) String() string { return r.image + " with " + r.color }

// manifest returns the release as a user writes it: no trace of confrev but its annotations.
func (r release) manifest() string { return r.configMap() + "---" + r.deployment("web") }

func (r release) configMap() string {
	return `
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  labels: {app: web}
data: {color: ` + r.color + `}
`
}

// deployment returns the release's Deployment, which names a ConfigMap, with annotations in the form "key: value" in addition to its own.
func (r release) deployment(configMap string, annotations ...string) string {
	annotations = append(annotations, keys.Track+": all")
	if r.injection != "" {
		annotations = append(annotations, fmt.Sprintf("%s: %s", keys.Injection, r.injection))
	}
	if r.settle != "" {
		annotations = append(annotations, keys.Settle+": "+r.settle)
	}
	return `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
  annotations: {` + strings.Join(annotations, ", ") + `}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: app
        image: ` + r.image + `
        envFrom: [{configMapRef: {name: ` + configMap + `}}]
`
}

// tool is a deploy tool as its users use it. Each of its functions fails the test when the tool reports an error or a
// conflict.
type tool struct {
	name string
	// deploy installs a release, or upgrades to it.
	deploy func(w *world, r release)
	// rollBack goes from one release back to the one before.
	rollBack func(w *world, from, to release)
	// held is true when rolling back leaves the source at its newest content, so that the workload is held.
	held bool
	// remove uninstalls.
	remove func(w *world, r release)
	// drift returns the differences that the tool reports between a release and the cluster; empty when there are none. Nil
	// where the tool looks for none.
	drift func(w *world, r release) string
	// driftOfTemplate is true when the tool cannot but report the names that injection template writes. docs/guide says
	// which setting helps.
	driftOfTemplate bool
	// attach is true when the tool gives its ConfigMaps names that are unique per deploy (mode attach): pods read what the
	// template names, whatever the injection.
	attach bool
	// withCode is true when the tool changes the template along with each ConfigMap.
	withCode bool
	// replaces is true when the tool writes back whole objects, and fails if they change meanwhile.
	replaces bool
}

// runMatrix takes a tool through the life of a release, for both injections: install, edit the configuration, upgrade code
// and configuration in one deploy, roll back, uninstall. No drift, no conflicts, and just one rollout for each.
func runMatrix(t *testing.T, tool tool) {
	runBoth(t, tool, (*matrix).run)
}

// runBoth runs something with a tool, for both injections.
func runBoth(t *testing.T, tool tool, run func(*matrix, optin.Injection)) {
	t.Run(tool.name, func(t *testing.T) {
		t.Parallel()
		for _, injection := range []optin.Injection{optin.Admission, optin.Template} {
			t.Run(string(injection), func(t *testing.T) {
				t.Parallel()
				run(&matrix{world: newWorld(t), tool: tool}, injection)
			})
		}
	})
}

// matrix is one run of a tool.
type matrix struct {
	*world
	tool     tool
	rollouts int
}

func (m *matrix) run(injection optin.Injection) {
	m.Helper()
	started := time.Now()
	first := release{image: "app:1", color: "A", injection: injection}
	edited := release{image: "app:1", color: "B", injection: injection}
	upgraded := release{image: "app:2", color: "C", injection: injection, settle: never}
	if m.tool.withCode {
		// On a busy machine, the tool takes longer than a settle time from the ConfigMap to the Deployment, which has the
		// settle time of the release before until then.
		first.settle, edited.settle = never, never
	}
	if m.tool.replaces {
		// Or else confrev may advance just then, on a busy machine.
		first.settle = never
	}
	m.upgrade(first)
	if m.tool.replaces {
		unsettled := edited
		unsettled.settle = never
		m.tool.deploy(m.world, unsettled)
		m.Barrier()
	}
	m.upgrade(edited)
	// From here on nothing advances by itself: that a deploy takes the configuration along is no matter of speed. To say so
	// is a change to the Deployment's metadata only.
	edited.settle = never
	m.again(edited)
	m.upgrade(upgraded)
	m.tool.rollBack(m.world, upgraded, edited)
	m.rolledOut(edited)
	m.Barrier()
	m.rolledOutTimes(m.rollouts)
	if m.tool.held {
		m.WaitHeld("web", "web")
	} else {
		m.noDrift(edited)
	}
	m.quiet()
	m.tool.remove(m.world, edited)
	m.allIsGone()
	m.Logf("%s, injection %s: %d rollouts, %s in all", m.tool.name, injection, m.rollouts, time.Since(started).Round(time.Second))
}

// upgrade deploys a release, which is one rollout, and then again, which is none.
func (m *matrix) upgrade(r release) {
	m.Helper()
	m.tool.deploy(m.world, r)
	m.rolledOut(r)
	m.noDrift(r)
	m.again(r)
}

// again deploys what runs already, which changes nothing of the template. (The generation of a Deployment is no measure:
// it counts changes to its annotations too.)
func (m *matrix) again(r release) {
	m.Helper()
	before := m.Deployment("web")
	m.tool.deploy(m.world, r)
	m.Barrier()
	after := m.Deployment("web")
	if diff := cmp.Diff(before.Spec.Template, after.Spec.Template); diff != "" {
		m.Errorf("deploying %s again changed the template (-before +after):\n%s", r, diff)
	}
	m.rolledOutTimes(m.rollouts)
	m.noDrift(r)
}

// rolledOut waits until pods have a release, and fails unless it took one rollout more. One too many that comes late shows
// at the next barrier.
func (m *matrix) rolledOut(r release) {
	m.Helper()
	read := m.waitReleased(r)
	m.rollouts++
	m.rolledOutTimes(m.rollouts)
	d := m.Deployment("web")
	if got := d.Spec.Template.Spec.Containers[0].Image; got != r.image {
		m.Errorf("the image is %s, want %s", got, r.image)
	}
	named := d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name
	if want := map[optin.Injection]string{optin.Admission: "web", optin.Template: read}[r.injection]; named != want && !m.tool.attach {
		m.Errorf("the template names %s, want %s", named, want)
	}
	m.podsRead(read)
	m.ownsNothingElse("web")
}

// waitReleased waits until the template has a release's configuration and its pods are there, and returns the name of the
// ConfigMap that they are to read.
func (m *matrix) waitReleased(r release) string {
	m.Helper()
	if !m.tool.attach {
		return m.WaitPinned("web", "web", "color", r.color).Revision
	}
	var named string
	m.Eventually(fmt.Sprintf("%s is rolled out", r), func() string {
		d := m.Deployment("web")
		named = d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name
		cm := &corev1.ConfigMap{}
		if err := m.Get(named, cm); err != nil {
			return err.Error()
		}
		if cm.Data["color"] != r.color || d.Spec.Template.Annotations[keys.Pins] != "" {
			return fmt.Sprintf("it names %s with %q, pins %q", named, cm.Data["color"], d.Spec.Template.Annotations[keys.Pins])
		}
		return m.NotRolledOut("web")
	})
	return named
}

// ownsNothingElse fails if confrev is the field manager of anything of a Deployment but its own annotations: anyone who applies
// the rest server-side would meet a conflict.
func (w *world) ownsNothingElse(deployment string) {
	w.Helper()
	for _, entry := range w.Deployment(deployment).ManagedFields {
		if entry.Manager != keys.FieldManager {
			continue
		}
		fields := &fieldpath.Set{}
		w.Must(fields.FromJSON(entry.FieldsV1.GetRawReader()))
		fields.Leaves().Iterate(func(path fieldpath.Path) {
			if text := path.String(); !strings.HasSuffix(text, ".annotations") && !strings.Contains(text, ".annotations."+keys.Prefix) {
				w.Errorf("confrev owns %s of %s", text, deployment)
			}
		})
	}
}

func (m *matrix) noDrift(r release) {
	m.Helper()
	if m.tool.drift == nil {
		return
	}
	drift := m.whileUnwritten(func() string { return m.tool.drift(m.world, r) })
	if r.injection == optin.Template && m.tool.driftOfTemplate {
		if drift == "" {
			m.Error("the tool reports no drift of the template: say so in docs/guide, and expect none here")
		}
		return
	}
	if drift != "" {
		m.Errorf("%s reports drift of %s:\n%s", m.tool.name, r, drift)
	}
}

// whileUnwritten returns what a comparison of a release with the cluster finds while no one writes: a tool reads the objects one after the other, and
// an owner that confrev adds meanwhile, or a status, is a difference to it.
func (w *world) whileUnwritten(compare func() string) (found string) {
	w.Helper()
	versions := func() (all []string) {
		for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &appsv1.DeploymentList{}} {
			w.List(list)
			w.Must(meta.EachListItem(list, func(item runtime.Object) error {
				obj := item.(client.Object)
				all = append(all, obj.GetName()+" "+obj.GetResourceVersion())
				return nil
			}))
		}
		return all
	}
	w.Eventually("no one writes while the tool compares", func() string {
		before := versions()
		found = compare()
		return cmp.Diff(before, versions())
	})
	return found
}

// quiet fails if confrev met a conflict, or took the tool for one that reverts its work.
func (w *world) quiet() {
	w.Helper()
	if lines := errorsLogged(w.T, w.NS); len(lines) > 0 {
		w.Errorf("confrev logged: %s", lines[0])
	}
	if notes := w.Events("Reverted", "web"); len(notes) > 0 {
		w.Errorf("confrev reported: %s", notes[0])
	}
}

// allIsGone waits until nothing is left of an uninstalled release: no source, no revision. The namespace keeps its anchor, which is of no release
// (rule 14).
func (w *world) allIsGone() {
	w.Helper()
	w.Eventually("all is gone", func() string {
		left := &corev1.ConfigMapList{}
		w.Must(cluster.Client.List(w.Ctx, left, client.InNamespace(w.NS)))
		names := ""
		for _, cm := range left.Items {
			if cm.Name != "kube-root-ca.crt" && cm.Name != revision.AnchorName && cm.Annotations[keys.SourceName] != "barrier" && cm.Name != "barrier" {
				names += cm.Name + " "
			}
		}
		return names
	})
}
