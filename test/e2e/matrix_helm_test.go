//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
)

// helm is a version of Helm, and how it is used.
type helm struct {
	// name tells it from the others, binary is a component of hack/cluster.
	name, binary string
	// flags are those of upgrade and of rollback.
	flags []string
	// atomic is the flag of upgrade with which Helm takes a failing upgrade back by itself.
	atomic string
	// checksum is true when the chart makes pods roll by itself, as Helm's own documentation advises.
	checksum bool
	replaces bool
}

var (
	helm3 = helm{name: "helm 3", binary: "helm3", atomic: "--atomic"}
	helm4 = helm{name: "helm 4", binary: "helm", atomic: "--rollback-on-failure"}
	// helm4ClientSide is Helm 4 with releases that Helm 3 installed: it applies as they were made.
	helm4ClientSide = helm{name: "helm 4 client-side", binary: "helm", atomic: "--rollback-on-failure", flags: []string{"--server-side=false"}}
)

func (h helm) replacing(force string) helm {
	h.name += " " + force
	h.flags, h.replaces = append(slices.Clone(h.flags), force), true
	return h
}

func (h helm) withChecksum() helm {
	h.name += " with a checksum annotation"
	h.checksum = true
	return h
}

// Helm as people use it: a chart of a ConfigMap and a Deployment.
func TestMatrixHelm(t *testing.T) {
	t.Parallel()
	for _, h := range []helm{
		helm3, helm3.withChecksum(), helm3.replacing("--force"),
		helm4, helm4.withChecksum(), helm4ClientSide, helm4ClientSide.replacing("--force-replace"),
	} {
		runMatrix(t, h.tool())
	}
}

func (h helm) tool() tool {
	return tool{
		name:     h.name,
		deploy:   func(w *world, r release) { w.run(h.binary, h.upgrade(w, r)...) },
		rollBack: h.rollBack,
		remove:   func(w *world, _ release) { w.run(h.binary, "uninstall", "web", "--wait") },
		drift:    h.drift,
		withCode: h.checksum,
		replaces: h.replaces,
	}
}

// upgrade returns the arguments of helm upgrade to a release.
func (h helm) upgrade(w *world, r release, flags ...string) []string {
	w.Helper()
	values := fmt.Sprintf("image=%s,color=%s,injection=%s,settle=%s", r.image, r.color, r.injection, cmp.Or(r.settle, settle.String()))
	args := []string{"upgrade", "--install", "web", h.chart(w), "--set", values, "--description", r.String(), "--wait"}
	return slices.Concat(args, h.flags, flags)
}

// chart writes a chart whose values make a release.
func (h helm) chart(w *world) (dir string) {
	w.Helper()
	r := release{
		image: "{{ .Values.image }}", color: "{{ .Values.color }}", injection: "{{ .Values.injection }}", settle: "{{ .Values.settle }}",
	}
	deployment := r.deployment("web")
	if h.checksum {
		const sum = `{{ include (print $.Template.BasePath "/configmap.yaml") . | sha256sum }}`
		deployment = strings.Replace(deployment, "metadata: {labels: {app: web}}",
			"metadata: {labels: {app: web}, annotations: {checksum/config: "+sum+"}}", 1)
	}
	dir = w.chart(deployment)
	w.writeFile(filepath.Join(dir, "templates"), "configmap.yaml", r.configMap())
	return dir
}

func (h helm) rollBack(w *world, _, to release) {
	w.Helper()
	w.run(h.binary, slices.Concat([]string{"rollback", "web", h.revision(w, to), "--wait"}, h.flags)...)
}

// revision returns Helm's own number of what it deployed last of a release.
func (h helm) revision(w *world, r release) string {
	w.Helper()
	var history []struct {
		Revision    int    `json:"revision"`
		Description string `json:"description"`
	}
	w.Must(json.Unmarshal([]byte(w.run(h.binary, "history", "web", "--output", "json")), &history))
	for _, entry := range slices.Backward(history) {
		if entry.Description == r.String() {
			return fmt.Sprint(entry.Revision)
		}
	}
	w.Fatalf("Helm does not know %s: %v", r, history)
	return ""
}

// drift compares what Helm deployed with what is there. Helm itself compares nothing; kubectl does, and Flux's
// helm-controller.
func (h helm) drift(w *world, r release) string {
	w.Helper()
	w.run(h.binary, append(h.upgrade(w, r), "--dry-run=server")...)
	deployed := w.run(h.binary, "get", "manifest", "web")
	return w.diff(deployed, "-f", "-") + w.drift(deployed, "flux-ssa", "helm-diff", "--name", "web")
}

// run runs a tool in the namespace and returns what it printed.
func (w *world) run(tool string, args ...string) string {
	w.Helper()
	out, err := cluster.Run(w.Ctx, "", tool, append([]string{"--namespace", w.NS}, args...)...)
	w.Must(err)
	return out
}

// New code that comes with a faulty configuration never becomes ready, and Helm takes the upgrade back by itself: old code
// with its old configuration is back, in one rollout.
func TestMatrixHelmTakesAFailingUpgradeBack(t *testing.T) {
	t.Parallel()
	for _, h := range []helm{helm3, helm3.withChecksum(), helm4, helm4ClientSide} {
		runBoth(t, h.tool(), func(m *matrix, injection optin.Injection) {
			// Helm itself may take longer than a settle time from the ConfigMap to the Deployment.
			first := release{image: "app:1", color: "A", injection: injection, settle: never}
			m.tool.deploy(m.world, first)
			m.rolledOut(first)
			m.Must(h.failing(m, release{image: "app:2", injection: injection, settle: never}))
			m.rollouts++
			m.rolledOut(first)
			m.noDrift(first)
			m.again(first)
			fixed := release{image: "app:2", color: "fixed", injection: injection, settle: never}
			m.tool.deploy(m.world, fixed)
			m.rolledOut(fixed)
			m.quiet()
		})
	}
}

// Helm waits for what its own request rolls out. So it sees that a configuration is faulty, and takes it back, if the
// configuration comes with something else in the template: new code, or its checksum. Otherwise the rollout begins when Helm is
// done.
func TestHelmWaitSeesFaultyConfiguration(t *testing.T) {
	t.Parallel()
	for _, h := range []helm{helm3, helm3.withChecksum(), helm4, helm4.withChecksum()} {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			m := &matrix{world: newWorld(t), tool: h.tool()}
			// By itself it would advance in an hour only: then what Helm says is no matter of speed.
			first := release{image: "app:1", color: "A", injection: optin.Admission, settle: never}
			m.tool.deploy(m.world, first)
			m.rolledOut(first)
			a := m.PinOf("web", "web")
			err := h.failing(m, release{image: "app:1", injection: optin.Admission, settle: never})
			if h.checksum {
				m.Must(err)
				m.rollouts++
				m.rolledOut(first)
				return
			}
			if err == nil {
				m.Error("without a checksum, Helm should be done before the rollout begins")
			}
			m.Barrier()
			if got := m.PinOf("web", "web"); got != a {
				m.Errorf("the pin moved to %s", got)
			}
		})
	}
}

// failing upgrades to a release with a faulty configuration, which Helm should revert. It gives an error if Helm does not.
func (h helm) failing(m *matrix, r release) error {
	m.Helper()
	r.color = "faulty in " + m.NS
	m.keepUnready(revisionOf(configMap("web", "color", r.color)))
	// Long enough for Helm to come back from it as well, on a busy machine.
	args := append([]string{"--namespace", m.NS}, h.upgrade(m.world, r, h.atomic, "--timeout=1m")...)
	_, err := cluster.Run(m.Ctx, "", h.binary, args...)
	if err == nil || !strings.Contains(err.Error(), "rolled back") {
		return fmt.Errorf("the upgrade should fail, and be rolled back: %w", cmp.Or(err, errors.New("it went well")))
	}
	return nil
}

// What kubectl rollout undo writes is kubectl's afterwards: the image, if that changed, and with injection template the
// references as well. Helm 4 calls it a conflict until it is forced once.
func TestHelm4AfterAnUndo(t *testing.T) {
	t.Parallel()
	for image, changes := range map[string]string{"app:1": "configuration", "app:2": "code and configuration"} {
		tool := helm4.tool()
		tool.name = changes
		runBoth(t, tool, func(m *matrix, injection optin.Injection) {
			first, second := release{image: "app:1", color: "A", injection: injection}, release{image: image, color: "B", injection: injection}
			if image != first.image {
				// On a busy machine, Helm takes longer than a settle time from the ConfigMap to the Deployment.
				first.settle, second.settle = never, never
			}
			m.undone(first, second)
			// Helm writes the ConfigMap before it meets the conflict: its change is not to roll out by itself.
			m.Kubectl("annotate", "deployment/web", keys.Settle+"="+never, "--overwrite")
			next := release{image: "app:3", color: "C", injection: injection, settle: never}
			args := append([]string{"--namespace", m.NS}, helm4.upgrade(m.world, next)...)
			_, err := cluster.Run(m.Ctx, "", helm4.binary, args...)
			for field, want := range map[string]bool{".image": image == "app:2", ".envFrom": injection == optin.Template} {
				if got := err != nil && strings.Contains(err.Error(), "conflict") && strings.Contains(err.Error(), field); got != want {
					m.Errorf("conflict over %s: %t, want %t: %v", field, got, want, err)
				}
			}
			if got := m.Kubectl("get", "configmap/web", "-o", "jsonpath={.data.color}"); got != next.color {
				m.Errorf("the ConfigMap has %s", got)
			}
			m.world.run(helm4.binary, helm4.upgrade(m.world, next, "--force-conflicts")...)
			m.rolledOut(next)
			m.tool.deploy(m.world, next)
		})
	}
}
