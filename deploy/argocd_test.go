package deploy_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write deploy/argocd/argocd-cm.yaml from the scripts next to it")

// customization is what Argo CD does with a kind of object, by scripts in deploy/argocd.
type customization struct {
	kind, health, discovery string
	actions                 [][2]string // name and script
}

// customizations returns those of argocd-cm.yaml.
func customizations() []customization {
	var all []customization
	for _, kind := range []string{"ConfigMap", "Secret"} {
		all = append(all, customization{kind, "source.health.lua", "source.actions.lua", [][2]string{{"stop", "source.stop.lua"}, {"resume", "source.resume.lua"}}})
	}
	for _, kind := range []string{"apps_Deployment", "apps_StatefulSet", "apps_DaemonSet", "argoproj.io_Rollout"} {
		health := ""
		if kind == "apps_Deployment" {
			health = "deployment.health.lua"
		}
		all = append(all, customization{kind, health, "workload.actions.lua", [][2]string{
			{"confrev-wait", "workload.wait.lua"}, {"confrev-advance", "workload.advance.lua"}, {"confrev-undo", "workload.undo.lua"},
		}})
	}
	return all
}

const head = `# A patch of Argo CD's own ConfigMap, made of the scripts in this folder: docs/guide/argocd.md explains it.
#   kubectl patch configmap argocd-cm -n argocd --patch-file argocd-cm.yaml
data:
`

// The patch has the scripts as they are. hack/modules/gitops-engine tests it with Argo CD's own engine. With -update, it is rewritten instead.
func TestThePatchOfArgoCDHasTheScripts(t *testing.T) {
	var patch strings.Builder
	patch.WriteString(head)
	indented := func(depth int, name string) string {
		text, err := os.ReadFile(filepath.Join("argocd", name))
		if err != nil {
			t.Fatal(err)
		}
		var lines strings.Builder
		for line := range strings.Lines(string(text)) {
			if strings.TrimSpace(line) != "" {
				lines.WriteString(strings.Repeat(" ", depth))
			}
			lines.WriteString(line)
		}
		return lines.String()
	}
	for _, c := range customizations() {
		if c.health != "" {
			fmt.Fprintf(&patch, "  resource.customizations.useOpenLibs.%s: \"true\"\n", c.kind)
			fmt.Fprintf(&patch, "  resource.customizations.health.%s: |\n%s", c.kind, indented(4, c.health))
		}
		fmt.Fprintf(&patch, "  resource.customizations.actions.%s: |\n    mergeBuiltinActions: true\n    discovery.lua: |\n%s    definitions:\n", c.kind, indented(6, c.discovery))
		for _, action := range c.actions {
			fmt.Fprintf(&patch, "    - name: %s\n      action.lua: |\n%s", action[0], indented(8, action[1]))
		}
	}
	path := filepath.Join("argocd", "argocd-cm.yaml")
	if *update {
		if err := os.WriteFile(path, []byte(patch.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != patch.String() {
		t.Errorf("argocd-cm.yaml is not what the scripts are now: go test ./deploy -run ArgoCD -update (%v)", err)
	}
}
