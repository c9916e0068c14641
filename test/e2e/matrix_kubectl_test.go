//go:build e2e

package e2e

import "testing"

func TestMatrixKubectl(t *testing.T) {
	t.Parallel()
	apply := func(flags ...string) tool {
		args := append([]string{"apply"}, flags...)
		return tool{
			deploy:   func(w *world, r release) { w.kubectlIn(r.manifest(), append(args, "-f", "-")...) },
			rollBack: func(w *world, _, to release) { w.kubectlIn(to.manifest(), append(args, "-f", "-")...) },
			remove:   func(w *world, r release) { w.kubectlIn(r.manifest(), "delete", "-f", "-") },
			drift: func(w *world, r release) string {
				out, err := cluster.Run(w.ctx, r.manifest(), "kubectl", append(append([]string{"--namespace", w.ns, "diff"}, flags...), "-f", "-")...)
				if err != nil && out == "" {
					w.Fatal(err)
				}
				return out
			},
		}
	}
	clientSide, serverSide := apply(), apply("--server-side", "--field-manager=user")
	clientSide.name, serverSide.name = "client-side", "server-side"
	undo := clientSide
	undo.name, undo.held = "undo", true
	undo.rollBack = func(w *world, _, _ release) { w.undo("web") }
	// What is applied is the newest release then, and the template is an older one.
	undo.drift = nil
	for _, tool := range []tool{clientSide, serverSide, undo} {
		runMatrix(t, tool)
	}
}
