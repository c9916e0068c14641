//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// release is what a user deploys: an image of the Deployment web and a value of the ConfigMap web.
type release struct {
	image, color string
	injection    optin.Injection
}

func (r release) String() string { return r.image + " with " + r.color }

// manifest is the release as a user writes it: no trace of confrev but its annotations.
func (r release) manifest() string {
	text := strings.ReplaceAll(strings.ReplaceAll(manifest, "color: A", "color: "+r.color), "app:1", r.image)
	return strings.ReplaceAll(text, "{confrev.io/track: all}", fmt.Sprintf("{confrev.io/track: all, confrev.io/injection: %s}", r.injection))
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
	// drift gives the differences that the tool reports between a release and the cluster; empty when there are none. Nil
	// where the tool looks for none.
	drift func(w *world, r release) string
	// driftOfTemplate is true when the tool cannot but report the names that injection template writes. docs/guide says
	// which setting helps.
	driftOfTemplate bool
}

// runMatrix takes a tool through the life of a release, for both injections: install, edit the configuration, upgrade code
// and configuration in one deploy, roll back, uninstall. No drift, no conflicts, and just one rollout for each.
func runMatrix(t *testing.T, tool tool) {
	t.Run(tool.name, func(t *testing.T) {
		t.Parallel()
		for _, injection := range []optin.Injection{optin.Admission, optin.Template} {
			t.Run(string(injection), func(t *testing.T) {
				t.Parallel()
				m := &matrix{world: newWorld(t), tool: tool}
				m.run(injection)
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
	first := release{"app:1", "A", injection}
	edited := release{"app:1", "B", injection}
	upgraded := release{"app:2", "C", injection}
	for _, r := range []release{first, edited, upgraded} {
		m.tool.deploy(m.world, r)
		m.rolledOut(r)
		m.again(r)
	}
	m.tool.rollBack(m.world, upgraded, edited)
	m.rolledOut(edited)
	if m.tool.held {
		m.waitHeld("web", "web")
	}
	m.tool.remove(m.world, edited)
	m.eventually("all is gone", func() string {
		left := &corev1.ConfigMapList{}
		m.must(cluster.Client.List(m.ctx, left, client.InNamespace(m.ns)))
		names := ""
		for _, cm := range left.Items {
			if cm.Name != "kube-root-ca.crt" && cm.Annotations[keys.SourceName] != "barrier" && cm.Name != "barrier" {
				names += cm.Name + " "
			}
		}
		return names
	})
}

// again deploys the same once more, which changes nothing.
func (m *matrix) again(r release) {
	m.Helper()
	generation := m.deployment("web").Generation
	m.noDrift(r)
	m.tool.deploy(m.world, r)
	m.barrier()
	if now := m.deployment("web").Generation; now != generation {
		m.Errorf("deploying %s again moved generation %d to %d", r, generation, now)
	}
}

// rolledOut waits until pods have a release, and fails unless it took one rollout more.
func (m *matrix) rolledOut(r release) {
	m.Helper()
	m.waitPinned("web", "web", "color", r.color)
	m.barrier()
	m.rollouts++
	d := m.deployment("web")
	if got := d.Annotations["deployment.kubernetes.io/revision"]; got != fmt.Sprint(m.rollouts) {
		m.Errorf("%s was rollout %s, want %d\n%s", r, got, m.rollouts, m.describe())
	}
	if got := d.Spec.Template.Spec.Containers[0].Image; got != r.image {
		m.Errorf("the image is %s, want %s", got, r.image)
	}
	revision := m.pins("web")[pin.Source{Kind: pin.ConfigMap, Name: "web"}].Revision
	named := d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name
	if want := map[optin.Injection]string{optin.Admission: "web", optin.Template: revision}[r.injection]; named != want {
		m.Errorf("the template names %s, want %s", named, want)
	}
	m.podsRead(revision)
	m.noDrift(r)
}

func (m *matrix) noDrift(r release) {
	m.Helper()
	if m.tool.drift == nil {
		return
	}
	drift := m.tool.drift(m.world, r)
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
