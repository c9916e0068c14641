//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

func TestMatrixKubectl(t *testing.T) {
	t.Parallel()
	clientSide := applied("client-side")
	undo := undone(clientSide)
	undo.name = "undo"
	prune := applied("prune by label", "--prune", "--selector=app=web")
	prune.drift = diffed("--selector=app=web", "--prune")
	pruneSet := applied("prune by ApplySet", "--prune", "--applyset=web")
	// kubectl diff knows no ApplySets, and would show its label.
	pruneSet.drift = nil
	for _, tool := range []tool{
		clientSide, applied("server-side", "--server-side", "--field-manager=user"), undo, prune, pruneSet,
		changed("replace", replaced), changed("edit", edited), changed("patch and set image", patched),
	} {
		runMatrix(t, tool)
	}
}

// redeployed makes the rollback of a tool that goes back by deploying the release before.
func redeployed(t tool) tool {
	t.rollBack = func(w *world, _, to release) { t.deploy(w, to) }
	return t
}

// undone makes a tool go back by kubectl rollout undo. Its user's configuration stays at its newest content then; but names
// that are unique per deploy leave nothing to hold.
func undone(t tool) tool {
	t.held = !t.attach
	t.rollBack = func(w *world, _, _ release) { w.Undo("web") }
	return t
}

func deleted(w *world, r release) { w.KubectlIn(r.manifest(), "delete", "-f", "-") }

// applied returns kubectl apply.
func applied(name string, flags ...string) tool {
	return redeployed(tool{
		name: name,
		deploy: func(w *world, r release) {
			w.KubectlIn(r.manifest(), append([]string{"apply", "-f", "-"}, flags...)...)
		},
		remove: deleted,
		drift:  diffed(flags...),
	})
}

func diffed(flags ...string) func(*world, release) string {
	return func(w *world, r release) string {
		return w.diff(r.manifest(), append([]string{"-f", "-"}, flags...)...)
	}
}

// diff returns what kubectl diff shows. It exits with an error when it finds a difference.
func (w *world) diff(manifest string, args ...string) string {
	w.Helper()
	out, err := cluster.Run(w.Ctx, manifest, "kubectl", append([]string{"--namespace", w.NS, "diff"}, args...)...)
	if err != nil && out == "" {
		w.Fatal(err)
	}
	return out
}

// changed returns a tool that changes what is there; kubectl create installs it.
func changed(name string, change func(w *world, r release)) tool {
	return redeployed(tool{
		name: name,
		deploy: func(w *world, r release) {
			err := w.Get("web", &appsv1.Deployment{})
			if err == nil {
				change(w, r)
				return
			}
			w.Must(client.IgnoreNotFound(err))
			w.KubectlIn(r.manifest(), "create", "-f", "-")
		},
		remove: deleted,
		drift:  diffed(),
	})
}

// replaced deploys with kubectl replace, which removes all that a manifest does not mention.
func replaced(w *world, r release) { w.replace(r.manifest()) }

// edited deploys with kubectl edit of both objects, with an editor that types by itself.
func edited(w *world, r release) {
	commands := fmt.Sprintf(`s/^( *)color: .*/\1color: %s/; s/image: app:.*/image: %s/; /%s/d`, r.color, r.image, slashes(keys.Settle))
	if r.settle != "" {
		commands += fmt.Sprintf(`; s/^( *)%s: .*/&\n\1%s: %s/`, slashes(keys.Track), slashes(keys.Settle), r.settle)
	}
	w.Must(w.kubectlEdit(editor(commands), "configmap/web", "deployment/web"))
}

func slashes(key string) string { return strings.ReplaceAll(key, "/", `\/`) }

// editor returns an editor that follows commands of sed.
func editor(commands string) string { return "sed -i -E '" + commands + "'" }

// patched deploys with kubectl patch for the configuration, then annotate and set image for the Deployment.
func patched(w *world, r release) {
	w.patchConfig(r.color)
	if r.settle != "" {
		w.Kubectl("annotate", "deployment/web", keys.Settle+"="+r.settle, "--overwrite")
	}
	w.Kubectl("set", "image", "deployment/web", "app="+r.image)
}
