//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
)

// forEachInjection runs a test for both injections, where app:1 with A is rolled out already by kubectl apply.
func forEachInjection(t *testing.T, settle string, test func(w *world, first release)) {
	t.Parallel()
	for _, injection := range []optin.Injection{optin.Admission, optin.Template} {
		t.Run(string(injection), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first := release{image: "app:1", color: "A", injection: injection, settle: settle}
			w.apply(first)
			w.runs(first, 1)
			test(w, first)
			w.quiet()
			w.ownsNothingElse("web")
		})
	}
}

func (w *world) apply(r release) {
	w.Helper()
	w.KubectlIn(r.manifest(), "apply", "-f", "-")
}

// patchConfig changes the ConfigMap alone.
func (w *world) patchConfig(color string) {
	w.Helper()
	w.Kubectl("patch", "configmap/web", "-p", fmt.Sprintf(`{"data":{"color":%q}}`, color))
}

// runs waits until pods have a release, and fails unless it was so many rollouts in all.
func (w *world) runs(r release, rollouts int) {
	w.Helper()
	pinned := w.WaitPinned("web", "web", "color", r.color)
	w.Barrier()
	w.rolledOutTimes(rollouts)
	if got := w.Deployment("web").Spec.Template.Spec.Containers[0].Image; got != r.image {
		w.Errorf("the image is %s, want %s", got, r.image)
	}
	w.podsRead(pinned.Revision)
}

// rolledOutTimes fails unless Deployment web was rolled out so often.
func (w *world) rolledOutTimes(want int) {
	w.Helper()
	got := ""
	w.Eventually("web has the number of its rollout", func() string {
		if got = w.Deployment("web").Annotations[revisionAnnotation]; got == "" {
			return "kubectl replace took it away"
		}
		return ""
	})
	if got != fmt.Sprint(want) {
		w.Errorf("web was rolled out %s times, want %d\n%s", got, want, w.Describe())
	}
}

// Rule 4: an undo brings back image and configuration together, and holds, also through deploys, until the configuration
// changes.
func TestUndoHoldsThroughDeploysUntilAnEdit(t *testing.T) {
	forEachInjection(t, "", func(w *world, r release) {
		r.color = "B"
		w.apply(r)
		w.runs(r, 2)
		r.image = "app:2"
		w.apply(r)
		w.runs(r, 3)
		r.color = "C"
		w.apply(r)
		w.runs(r, 4)

		back := r
		back.color = "B"
		w.Undo("web")
		w.WaitHeld("web", "web")
		w.runs(back, 5)
		// The next deploy still has C, in addition to a new image.
		r.image, back.image = "app:3", "app:3"
		w.apply(r)
		w.runs(back, 6)
		if diff := w.whileUnwritten(func() string { return w.diff(r.manifest(), "-f", "-") }); diff != "" {
			w.Errorf("drift while held:\n%s", diff)
		}

		w.Undo("web", "--to-revision=1")
		w.WaitHeld("web", "web")
		w.runs(release{image: "app:1", color: "A"}, 7)
		// That was about the image too: a new one ends the hold (rule 21).
		w.apply(r)
		w.runs(r, 8)
		r.color = "D"
		w.apply(r)
		w.runs(r, 9)
		if note := w.Deployment("web").Annotations[keys.Held]; note != "" {
			w.Errorf("still held: %s", note)
		}
	})
}

// Rule 2: an edit of the Deployment includes what settles, if it deploys. If it does not, nothing moves.
func TestEditingTheDeploymentWhileAChangeSettles(t *testing.T) {
	forEachInjection(t, never, func(w *world, r release) {
		w.patchConfig("B")
		w.Must(w.kubectlEdit(editor("s/^  replicas: .*/  replicas: 2/"), "deployment/web"))
		w.Kubectl("scale", "deployment/web", "--replicas=3")
		w.Kubectl("label", "deployment/web", "tier=front")
		w.runs(r, 1)
		w.Must(w.kubectlEdit(editor("s/image: app:.*/image: app:2/"), "deployment/web"))
		w.runs(release{image: "app:2", color: "B"}, 2)
	})
}

// An editor that is open while confrev advances takes nothing back: kubectl edit sends what was edited only.
func TestAnEditorOpenDuringAnAdvance(t *testing.T) {
	forEachInjection(t, "", func(w *world, r release) {
		dir := w.TempDir()
		open, save := filepath.Join(dir, "open"), filepath.Join(dir, "save")
		script := w.writeFile(dir, "editor", fmt.Sprintf("touch %[1]s\nuntil test -e %[2]s || ! test -e %[1]s; do sleep 0.1; done\n%[3]s \"$1\"\n",
			open, save, editor("s/image: app:.*/image: app:2/")))
		edited := make(chan error, 1)
		go func() { edited <- w.kubectlEdit("sh "+script, "deployment/web") }()
		w.Eventually("the editor is open", func() string {
			if _, err := os.Stat(open); err != nil {
				return err.Error()
			}
			return ""
		})
		w.patchConfig("B")
		r.color = "B"
		w.runs(r, 2)
		w.writeFile(dir, "save", "")
		w.Must(<-edited)
		r.image = "app:2"
		w.runs(r, 3)
	})
}

// kubectl rollout restart is a deploy like others.
func TestRestartTakesAlongWhatSettles(t *testing.T) {
	forEachInjection(t, never, func(w *world, r release) {
		w.patchConfig("B")
		w.Kubectl("rollout", "restart", "deployment/web")
		w.runs(release{image: "app:1", color: "B"}, 2)
		w.Kubectl("rollout", "restart", "deployment/web")
		w.runs(release{image: "app:1", color: "B"}, 3)
		// With a settle time that no test waits for, a hold that ends would not show. An undo keeps settings (rule 21.5).
		w.Kubectl("annotate", "deployment/web", keys.Settle+"-")
		w.Undo("web", "--to-revision=1")
		w.WaitHeld("web", "web")
		w.runs(r, 4)
		w.Kubectl("rollout", "restart", "deployment/web")
		w.runs(r, 5)
	})
}

// What changes while a Deployment is paused by its user is one rollout when it is resumed, and not before.
func TestChangesWhilePausedAreOneRollout(t *testing.T) {
	forEachInjection(t, "", func(w *world, r release) {
		w.Kubectl("rollout", "pause", "deployment/web")
		r.color = "B"
		w.apply(r)
		w.Eventually("the pin moves", func() string {
			cm := &corev1.ConfigMap{}
			w.Must(w.Get(w.PinOf("web", "web").Revision, cm))
			if cm.Data["color"] != "B" {
				return "pinned to " + cm.Data["color"]
			}
			return ""
		})
		r.image = "app:2"
		w.apply(r)
		w.Kubectl("set", "env", "deployment/web", "X=1")
		w.Barrier()
		w.rolledOutTimes(1)
		if !w.Deployment("web").Spec.Paused {
			w.Error("someone resumed it")
		}
		w.Kubectl("rollout", "resume", "deployment/web")
		w.runs(r, 2)
	})
}

// kubectl replace --force deletes and creates: a new Deployment without history, pinned from its start.
func TestReplaceByForce(t *testing.T) {
	forEachInjection(t, "", func(w *world, r release) {
		before := w.Deployment("web").UID
		r.image, r.color = "app:2", "B"
		w.KubectlIn(r.manifest(), "replace", "--force", "-f", "-")
		w.runs(r, 1)
		if w.Deployment("web").UID == before {
			w.Error("it is the Deployment of before")
		}
		w.onlyReplicaSets("web", 1)
		// The same again: its revision loses all of its owners, and gets new ones.
		w.KubectlIn(r.manifest(), "replace", "--force", "-f", "-")
		w.runs(r, 1)
		w.onlyReplicaSets("web", 1)
		w.WaitOwned(w.PinOf("web", "web").Revision, "web")
	})
}

// Anyone who goes from client-side to server-side apply takes over fields whose owner was kubectl's client-side apply. With
// injection template one of them has another value than the manifest, which is a conflict, once.
func TestSwitchingToServerSideApply(t *testing.T) {
	forEachInjection(t, "", func(w *world, r release) {
		apply := []string{"apply", "--server-side", "-f", "-"}
		if r.injection == optin.Template {
			_, err := cluster.Run(w.Ctx, r.manifest(), "kubectl", append([]string{"--namespace", w.NS}, apply...)...)
			if err == nil || !strings.Contains(err.Error(), `conflict with "kubectl-client-side-apply"`) {
				w.Errorf("no conflict: say so in docs/guide, and expect none here. %v", err)
			}
			w.KubectlIn(r.manifest(), append(apply, "--force-conflicts")...)
		}
		w.KubectlIn(r.manifest(), apply...)
		w.runs(r, 1)
		r.image, r.color = "app:2", "B"
		w.KubectlIn(r.manifest(), apply...)
		w.WaitPinned("web", "web", "color", "B")
		if diff := w.whileUnwritten(func() string { return w.diff(r.manifest(), "--server-side", "-f", "-") }); diff != "" {
			w.Errorf("drift:\n%s", diff)
		}
	})
}

// kubectl diff asks the API server about each object by itself: before the first deploy there is no ConfigMap yet, so the
// answer is that of rule 7. Before others, it shows what the user changed and nothing else.
func TestKubectlDiffBeforeADeploy(t *testing.T) {
	forEachInjection(t, "", func(w *world, r release) {
		r.image, r.color = "app:2", "B"
		for _, flags := range [][]string{nil, {"--server-side", "--force-conflicts"}} {
			var changed []string
			for line := range strings.Lines(w.diff(r.manifest(), append([]string{"-f", "-"}, flags...)...)) {
				if strings.HasPrefix(line, "+ ") && !strings.Contains(line, "generation:") && !strings.Contains(line, `{"apiVersion"`) {
					changed = append(changed, strings.TrimSpace(line[1:]))
				}
			}
			if want := []string{"image: app:2", "color: B"}; !slices.Equal(changed, want) {
				w.Errorf("kubectl diff %v shows %q, want %q", flags, changed, want)
			}
		}
		w.KubectlIn(r.manifest(), "delete", "-f", "-")
		if diff := w.diff(r.manifest(), "-f", "-"); !strings.Contains(diff, "paused: true") {
			w.Errorf("the diff of a first deploy shows no pause: say so in docs/guide. It shows\n%s", diff)
		}
		w.apply(r)
		w.runs(r, 1)
	})
}

// Rule 2: who applies a workload before its configuration gets a rollout for each.
func TestWorkloadAppliedBeforeItsConfiguration(t *testing.T) {
	forEachInjection(t, "", func(w *world, r release) {
		r.image = "app:2"
		w.KubectlIn(r.deployment("web"), "apply", "-f", "-")
		w.runs(r, 2)
		r.color = "B"
		w.KubectlIn(r.configMap(), "apply", "-f", "-")
		w.runs(r, 3)
	})
}

// While the webhook does not answer, confrev writes the names into the template itself, and owns those fields then. Where
// there are none to write, there is no conflict.
func serverSideApplyAfterAnAdvance(m *member, injection optin.Injection) {
	onlyWithPolicies(m.T)
	w := newWorld(m.T)
	r := release{image: "app:1", color: "A", injection: injection}
	apply := []string{"apply", "--server-side", "--field-manager=user", "-f", "-"}
	w.KubectlIn(r.manifest(), apply...)
	w.runs(r, 1)
	m.next()
	w.patchConfig("B")
	w.WaitPinned("web", "web", "color", "B")
	m.next()
	r.color = "B"
	_, err := cluster.Run(w.Ctx, r.deployment("web"), "kubectl", append([]string{"--namespace", w.NS}, apply...)...)
	if conflict := err != nil && strings.Contains(err.Error(), `conflict with "confrev"`); conflict != (injection == optin.Template) {
		m.Errorf("a conflict: %v. docs/guide says otherwise. %v", conflict, err)
	}
	w.KubectlIn(r.deployment("web"), append(apply, "--force-conflicts")...)
	w.runs(r, 2)
	w.ownsNothingElse("web")
	r.image = "app:2"
	w.KubectlIn(r.deployment("web"), apply...)
	w.runs(r, 3)
}

// While the webhook does not answer, a deploy continues without it, and confrev repairs that with rollouts more.
func applyingWithoutTheWebhook(m *member, injection optin.Injection) {
	onlyWithPolicies(m.T)
	again := map[optin.Injection][]string{
		optin.Admission: {"1"},
		// The names go and come back. Kubernetes may miss that.
		optin.Template: {"1", "3"},
	}[injection]
	w := newWorld(m.T)
	r := release{image: "app:1", color: "A", injection: injection, settle: never}
	w.apply(r)
	w.runs(r, 1)
	read := w.readers()
	m.next()
	w.apply(r)
	w.Barrier()
	w.WaitPinned("web", "web", "color", "A")
	if got := w.Deployment("web").Annotations[revisionAnnotation]; !slices.Contains(again, got) {
		m.Errorf("after the same again it was rolled out %s times, want %q", got, again)
	}
	w.Eventually("pods read what they read before", func() string {
		if got := w.readers(); !maps.Equal(got, read) {
			return fmt.Sprintf("%v, want %v", got, read)
		}
		return ""
	})
	w.waitTemplateNames(map[optin.Injection]string{optin.Admission: "web", optin.Template: w.PinOf("web", "web").Revision}[injection])
	if injection == optin.Admission {
		w.deployedApart(release{image: "app:2", color: "B", injection: injection, settle: never}, w.apply)
	}
}

// deployedApart deploys to Deployment web, which runs its first release and whose changes never settle, in a way in which code and configuration are
// two rollouts. The second begins once the first is counted: on a busy machine, the settle time of other tests ends before that.
func (w *world) deployedApart(r release, deploy func(release)) {
	w.Helper()
	deploy(r)
	w.runs(release{image: r.image, color: "A"}, 2)
	w.Kubectl("annotate", "deployment/web", keys.Settle+"-")
	w.runs(r, 3)
}
