//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
)

// The engines of Flux and Argo CD, in every mode in which they compare and apply.
func TestMatrixGitOps(t *testing.T) {
	t.Parallel()
	for _, tool := range []tool{
		flux(),
		argoCD("argo cd"),
		argoCD("argo cd, server-side apply, tracking by label", "--server-side", "--tracking=label"),
		argoCD("argo cd, server-side diff", serverSideDiff),
		argoCD("argo cd, server-side apply and diff", "--server-side", serverSideDiff),
		argoCD("argo cd, server-side apply and diff with webhooks", "--server-side", serverSideDiff, "--include-mutation-webhook"),
		argoCD("argo cd, ignoreDifferences", ignoredNames),
	} {
		runMatrix(t, tool)
	}
}

const (
	serverSideDiff = "--server-side-diff"
	// ignoredNames are the ignoreDifferences of docs/guide/argocd.md.
	ignoredNames = `--ignore-differences=[{"group": "apps", "kind": "Deployment", "jqPathExpressions": [` +
		`".spec.template.spec.volumes[]?.configMap.name",` +
		`".spec.template.spec.volumes[]?.projected.sources[]?.configMap.name",` +
		`".spec.template.spec.containers[].envFrom[]?.configMapRef.name",` +
		`".spec.template.spec.containers[].env[]?.valueFrom.configMapKeyRef.name"]}]`
)

// flux returns a Kustomization of Flux's.
func flux() tool {
	apply := func(w *world, manifests string) {
		w.Helper()
		w.engine(manifests, "flux-ssa", "apply", "--inventory", filepath.Join(cluster.Dir, w.NS))
	}
	return tool{
		name:     "flux",
		deploy:   func(w *world, r release) { apply(w, r.manifest()) },
		rollBack: func(w *world, _, to release) { apply(w, to.manifest()) },
		remove:   func(w *world, _ release) { apply(w, "") },
		drift:    func(w *world, r release) string { return w.drift(r.manifest(), "flux-ssa", "diff") },
	}
}

// argoCD returns an Application of Argo CD's.
func argoCD(name string, flags ...string) tool {
	sync := func(w *world, manifests string) {
		w.Helper()
		w.engine(manifests, "gitops-engine", "sync", append([]string{"--prune"}, flags...)...)
	}
	return tool{
		name:            name,
		deploy:          func(w *world, r release) { sync(w, r.manifest()) },
		rollBack:        func(w *world, _, to release) { sync(w, to.manifest()) },
		remove:          func(w *world, _ release) { sync(w, "") },
		drift:           func(w *world, r release) string { return w.drift(r.manifest(), "gitops-engine", "diff", flags...) },
		driftOfTemplate: !slices.Contains(flags, serverSideDiff) && !slices.Contains(flags, ignoredNames),
	}
}

// Self-heal: the engine syncs again and again, in every moment of an advance and while the workload is held. Each template
// that the Deployment has had is to be one that it should have had, just once.
func TestMatrixSelfHeal(t *testing.T) {
	t.Parallel()
	// With one process for several syncs, Argo CD's engine goes by a cache, as it does in Argo CD.
	const several = "--times=4"
	for _, tool := range []tool{
		fourTimes(flux()), argoCD("argo cd", several), argoCD("argo cd, server-side apply and diff", "--server-side", serverSideDiff, several),
	} {
		runBoth(t, tool, func(m *matrix, injection optin.Injection) {
			first := release{image: "app:1", color: "A", injection: injection}
			m.tool.deploy(m.world, first)
			m.rolledOut(first)

			templates := m.record("web")
			edited := release{image: "app:1", color: "B", injection: injection}
			m.heal(edited, func() string {
				if m.PinOf("web", "web").Number != 2 {
					return "not advanced"
				}
				return m.NotRolledOut("web")
			})
			m.rolledOut(edited)
			m.noDrift(edited)
			m.hadTemplates(templates, 2)

			templates = m.record("web")
			m.Undo("web")
			m.heal(edited, func() string {
				if m.Deployment("web").Annotations[keys.Held] == "" {
					return "not held"
				}
				return m.NotRolledOut("web")
			})
			m.rolledOut(first)
			m.noDrift(edited)
			m.hadTemplates(templates, 2)

			fixed := release{image: "app:1", color: "fixed", injection: injection}
			m.tool.deploy(m.world, fixed)
			m.rolledOut(fixed)
			m.quiet()
		})
	}
}

// fourTimes makes a tool deploy everything four times in a row.
func fourTimes(t tool) tool {
	once := t.deploy
	t.deploy = func(w *world, r release) {
		for range 4 {
			once(w, r)
		}
	}
	return t
}

// heal syncs a release all the time until something has come about, and then again. (What the engine compares in the
// meantime is no measure: what the Deployment's controller writes just then is a difference to it.)
func (m *matrix) heal(r release, missing func() string) {
	m.Helper()
	m.Eventually("it comes about in addition to self-heal", func() string {
		m.tool.deploy(m.world, r)
		return missing()
	})
	m.tool.deploy(m.world, r)
}

// record notes each template that a Deployment has from now on: its image, what it names, and its pins. The function that it
// gives waits until nothing more is to come, and returns them.
func (w *world) record(name string) (templates func() []string) {
	w.Helper()
	watcher, err := client.NewWithWatch(cluster.Config, client.Options{Scheme: cluster.Client.Scheme()})
	w.Must(err)
	// From no resourceVersion: the first event is the Deployment as it is.
	watching, err := watcher.Watch(w.Ctx, &appsv1.DeploymentList{}, client.InNamespace(w.NS), client.MatchingFields{"metadata.name": name})
	w.Must(err)
	return func() (had []string) {
		defer watching.Stop()
		last := w.Deployment(name).ResourceVersion
		for event := range watching.ResultChan() {
			d, ok := event.Object.(*appsv1.Deployment)
			if !ok {
				w.Fatalf("watching Deployment %s: %v", name, event.Object)
			}
			template := d.Spec.Template
			container := template.Spec.Containers[0]
			now := fmt.Sprintf("%s, %s, %s", container.Image, container.EnvFrom[0].ConfigMapRef.Name, template.Annotations[keys.Pins])
			if len(had) == 0 || had[len(had)-1] != now {
				had = append(had, now)
			}
			if d.ResourceVersion == last {
				break
			}
		}
		return had
	}
}

func (m *matrix) hadTemplates(templates func() []string, want int) {
	m.Helper()
	m.Barrier()
	if had := templates(); len(had) != want {
		m.Errorf("the Deployment had %d templates, want %d:\n%s", len(had), want, strings.Join(had, "\n"))
	}
}

// What a person sets with kubectl stays, but Flux takes it for its own and away.
func TestMatrixAnnotationsByHand(t *testing.T) {
	t.Parallel()
	for _, tool := range []tool{flux(), argoCD("argo cd"), argoCD("argo cd, server-side apply", "--server-side"), helm3.tool(), helm4.tool()} {
		t.Run(tool.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := release{image: "app:1", color: "A", injection: optin.Admission}
			tool.deploy(w, r)
			w.Kubectl("annotate", "deployment/web", keys.Advance+"=manual")
			tool.deploy(w, r)
			want := "manual"
			if tool.name == "flux" {
				want = ""
			}
			if got := w.Deployment("web").Annotations[keys.Advance]; got != want {
				t.Errorf("%s is %q after the next deploy, want %q", keys.Advance, got, want)
			}
		})
	}
}

// Flux removes what kubectl wrote, and everything whose manager's name begins like that. What the plugin wrote stays.
func TestFluxAndStops(t *testing.T) {
	t.Parallel()
	for manager, stays := range map[string]bool{"": true, "kubectl-oncall": false} {
		t.Run("manager "+manager, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := release{image: "app:1", color: "A", injection: optin.Admission}
			flux().deploy(w, r)
			w.WaitPinned("web", "web", "color", "A")
			args := []string{"stop", "configmap/web"}
			if manager != "" {
				args = append(args, "--field-manager="+manager)
			}
			w.confrev(args...).ends(0)
			stop := func() string {
				return w.Kubectl("get", "configmap/web", "-o", `jsonpath={.metadata.annotations.confrev\.io/stop}`)
			}
			if stop() == "" {
				t.Fatal("the change is not stopped")
			}
			flux().deploy(w, r)
			if got := stop(); (got != "") != stays {
				t.Errorf("after the next deploy, %s is %q", keys.Stop, got)
			}
		})
	}
}

// An edit by hand rolls out, and the next sync puts the source back: that is a change like others (rule 5).
func TestMatrixEditsByHand(t *testing.T) {
	t.Parallel()
	for _, tool := range []tool{flux(), argoCD("argo cd"), argoCD("argo cd, server-side apply", "--server-side"), helm3.tool()} {
		runBoth(t, tool, func(m *matrix, injection optin.Injection) {
			r := release{image: "app:1", color: "A", injection: injection}
			m.tool.deploy(m.world, r)
			m.rolledOut(r)
			m.Edit("web", "color", "B")
			m.rolledOut(release{image: "app:1", color: "B", injection: injection})
			m.tool.deploy(m.world, r)
			m.rolledOut(r)
			m.noDrift(r)
		})
	}
}

// What helps where Argo CD reports the names that injection template writes, in every place of a reference, and what does not.
func TestArgoCDSettingsForInjectionTemplate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := release{image: "app:1", color: "A", injection: optin.Template}
	everyPlace := r.configMap() + "---" + r.deployment("web") + `
        env: [{name: COLOR, valueFrom: {configMapKeyRef: {name: web, key: color}}}]
        volumeMounts: [{name: one, mountPath: /one}, {name: all, mountPath: /all}]
      volumes:
      - {name: one, configMap: {name: web}}
      - {name: all, projected: {sources: [{configMap: {name: web}}]}}
`
	w.engine(everyPlace, "gitops-engine", "sync")
	w.waitTemplateNames(w.WaitPinned("web", "web", "color", "A").Revision)
	for flag, clean := range map[string]bool{
		"--server-side-diff=false": false,
		`--ignore-differences=[{"group": "apps", "kind": "Deployment", "managedFieldsManagers": ["confrev"]}]`: false,
		ignoredNames:   true,
		serverSideDiff: true,
	} {
		drift := w.drift(everyPlace, "gitops-engine", "diff", flag)
		if (drift == "") != clean {
			t.Errorf("%s: clean should be %t:\n%s", flag, clean, drift)
		}
	}
}

// While the webhook does not answer, each sync puts back the names that injection template needs, and confrev writes them
// again: a fight, which confrev gives up. Pods read what is pinned all the while. With injection admission there is nothing to
// put back.
func selfHeal(member *member, injection optin.Injection) {
	onlyWithPolicies(member.T)
	m := &matrix{world: newWorld(member.T), tool: flux()}
	first := release{image: "app:1", color: "A", injection: injection}
	m.tool.deploy(m.world, first)
	m.rolledOut(first)
	a := m.PinOf("web", "web")

	member.next()
	syncs := 0
	for m.heals(first) && syncs < 12 {
		syncs++
	}
	m.podsRead(a.Revision)
	if want := map[optin.Injection]int{optin.Admission: 0, optin.Template: 10}[injection]; syncs != want {
		m.Errorf("confrev rewrote the template %d times, want %d", syncs, want)
	}

	member.next()
	m.tool.deploy(m.world, release{image: "app:1", color: "B", injection: injection})
	b := m.WaitPinned("web", "web", "color", "B")
	m.waitTemplateNames(map[optin.Injection]string{optin.Admission: "web", optin.Template: b.Revision}[injection])
}

// heals syncs once, and reports whether that put back something that confrev then wrote again.
func (m *matrix) heals(r release) bool {
	m.Helper()
	before := m.Deployment("web").Generation
	m.tool.deploy(m.world, r)
	if m.Deployment("web").Generation == before {
		return false
	}
	again := false
	m.Eventually("confrev answers", func() string {
		again = m.templateNames() != "web"
		if !again && len(m.Events("Reverted", "web")) == 0 {
			return "not yet"
		}
		return ""
	})
	return again
}

// Flux takes what kubectl wrote for its own, also the pins that kubectl rollout undo brought back, and removes what its
// manifest does not have. The webhook puts them back within the request; while it does not answer, confrev pins again what was
// held, one rollout later.
func fluxAfterAnUndo(member *member) {
	onlyWithPolicies(member.T)
	m := &matrix{world: newWorld(member.T), tool: flux()}
	edited := release{image: "app:1", color: "B", injection: optin.Admission}
	for _, r := range []release{{image: "app:1", color: "A", injection: optin.Admission}, edited} {
		m.tool.deploy(m.world, r)
		m.rolledOut(r)
	}
	m.Undo("web")
	m.WaitHeld("web", "web")
	a := m.PinOf("web", "web")
	templates := m.record("web")
	member.next()
	m.tool.deploy(m.world, edited)
	m.WaitEvent("Unpinned", "web", "")
	m.WaitPinned("web", "web", "color", "A")
	if got := m.PinOf("web", "web"); got != a {
		m.Errorf("pinned to %s, want %s", got, a)
	}
	m.podsRead(a.Revision)
	m.hadTemplates(templates, 3)
}
