//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"confrev.io/confrev/internal/keys"
)

func TestMatrixKustomize(t *testing.T) {
	t.Parallel()
	for _, tool := range []tool{
		kustomized("plain names", plainNames),
		kustomized("plain names, server-side", plainNames, "--server-side", "--field-manager=user"),
		kustomized("hashed names", hashedNames),
		undone(kustomized("hashed names, server-side, undo", hashedNames, "--server-side", "--field-manager=user")),
	} {
		runMatrix(t, tool)
	}
}

// naming is how a kustomization names the ConfigMaps that it generates, and what confrev does for them.
type naming struct {
	// options are the generator's.
	options string
	// annotation is one that the Deployment has in addition to its own.
	annotation []string
	// more is what else the kustomization has.
	more string
}

var (
	plainNames  = naming{options: "{disableNameSuffixHash: true}"}
	hashedNames = naming{options: fmt.Sprintf(`{annotations: {%s: "true"}}`, keys.Attach), annotation: []string{keys.Mode + ": attach"}}
)

// protected makes sources outlive their deletion as long as some ReplicaSet needs them.
func (n naming) protected() naming {
	n.options = strings.Replace(n.options, "}}", fmt.Sprintf(`, %s: "true"}}`, keys.Protect), 1)
	return n
}

// kustomization writes a release as a folder for kustomize, and returns its path.
func (w *world) kustomization(r release, n naming) string {
	w.Helper()
	dir := w.TempDir()
	name, tag, _ := strings.Cut(r.image, ":")
	base := r
	base.image = name
	w.writeFile(dir, "deployment.yaml", base.deployment("web", n.annotation...))
	w.writeFile(dir, "kustomization.yaml", `
resources: [deployment.yaml]
images: [{name: `+name+`, newTag: "`+tag+`"}]
labels: [{pairs: {app: web}}]
configMapGenerator:
- name: web
  literals: [color=`+r.color+`]
generatorOptions: `+n.options+`
`+n.more)
	return filepath.Clean(dir)
}

// kustomized returns kubectl apply -k, with ConfigMaps that kustomize generates.
func kustomized(name string, n naming, flags ...string) tool {
	run := func(w *world, r release, args ...string) { w.Kubectl(append(args, "-k", w.kustomization(r, n))...) }
	return redeployed(tool{
		name:   name,
		attach: len(n.annotation) > 0,
		deploy: func(w *world, r release) { run(w, r, append([]string{"apply"}, flags...)...) },
		remove: func(w *world, r release) { run(w, r, "delete") },
		drift: func(w *world, r release) string {
			return w.diff("", append([]string{"-k", w.kustomization(r, n)}, flags...)...)
		},
	})
}
