//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// rowOf returns the fields of the line of a table that begins with these fields.
func (o outcome) rowOf(begin ...string) []string {
	for line := range strings.Lines(o.stdout) {
		if fields := strings.Fields(line); len(fields) >= len(begin) && slices.Equal(fields[:len(begin)], begin) {
			return fields[len(begin):]
		}
	}
	return nil
}

// shows checks a line of a table.
func (w *world) shows(got outcome, status int, begin []string, rest ...string) {
	w.Helper()
	if fields := got.rowOf(begin...); got.status != status || !slices.Equal(fields, rest) {
		w.Errorf("status %d, want %d; line of %q is %q, want %q\n%s%s", got.status, status, begin, fields, rest, got.stdout, got.stderr)
	}
}

func TestPluginStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if got := w.plugin("status"); got.status != 0 || got.stdout != "" || !strings.Contains(got.stderr, "No workloads") {
		t.Errorf("of nothing: %+v", got)
	}
	// A pipeline must not pass because of a misspelled selector.
	w.pluginFails(1, "nothing to wait for", "status", "--wait")
	w.Create(configMap("app", "color", "A"), deployment("web", envFrom("app")), deployment("other", gen.Untracked))
	w.pluginFails(1, `nothing to wait for: no workload with the labels "app=tpyo"`, "status", "-l", "app=tpyo", "--wait")
	first := w.WaitPinned("web", "app", "color", "A")
	web := []string{"deployment/web", "configmap/app"}
	w.shows(w.plugin("status", "--wait"), 0, web, "1", "1", "RolledOut", "1@1")
	w.shows(w.plugin("status", "deploy", "other"), 0, []string{"deployment/other", "<none>"}, "-", "-", "Untracked", "-")
	if got := w.plugin("status", "-A", "--no-headers", "-l", "no=such"); got.stdout != "" || got.status != 0 {
		t.Errorf("of a label that nothing has: %+v", got)
	}

	// No settle time is waited for: the plan looks at the source itself.
	w.Edit("app", "color", "B")
	if got := w.plugin("status", "deploy/web", "--wait", "--timeout=5m"); got.status != 0 {
		t.Errorf("%+v", got)
	}
	// Looked at again, since the event of the old pod's end may come after that of the rollout's.
	w.shows(w.plugin("status", "deploy/web"), 0, web, "2", "2", "RolledOut", "1@2")
	w.Undo("web")
	w.WaitHeld("web", "app")
	w.WaitPinned("web", "app", "color", "A")
	w.shows(w.plugin("status", "--wait"), 3, web, "1", "2", "Held", "1@1")

	var list view.StatusList
	if status := w.pluginJSON(&list, "status", "deployment/web"); status != 3 || len(list.Items) != 1 || len(list.Items[0].Sources) != 1 {
		t.Fatalf("status %d: %+v", status, list)
	}
	item := list.Items[0]
	source := item.Sources[0]
	if list.Kind != "StatusList" || item.Workload != "deployment/web" || item.Namespace != w.NS || item.State != "Held" || source.Source != "configmap/app" ||
		source.Pinned.Name != first.Revision || source.Current.Number != 2 || source.Pods[0].Count != 1 {
		t.Errorf("as JSON: %+v", item)
	}
	if got := w.plugin("status", "-o", "name"); got.stdout != "deployment.apps/web\n" {
		t.Errorf("-o name: %+v", got)
	}
	w.completes([]string{"deployment/web\n"}, "status", "deployment/w")
}

// What is not there, or waits, or is paused, is said; a script hears of it.
func TestPluginStatusOfWhatIsNotRolledOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A"), deployment("lost", envFrom("nothing")),
		deployment("careful", envFrom("app"), gen.Annotated("confrev.io/advance", "manual")))
	w.WaitPinned("careful", "app", "color", "A")
	w.Edit("app", "color", "B")
	got := w.plugin("status")
	w.shows(got, 3, []string{"deployment/lost", "configmap/nothing"}, "-", "-", "Missing", "-")
	w.shows(got, 3, []string{"deployment/careful", "configmap/app"}, "1", "2", "Waiting", "1@1")
	w.Kubectl("rollout", "pause", "deployment/careful")
	w.Kubectl("annotate", "deployment/careful", "confrev.io/advance=auto", "--overwrite")
	// A pause stops the rollout, and not the pin.
	w.Eventually("the pin moves", func() string {
		if got := w.PinOf("careful", "app"); got.Number != 2 {
			return "pinned to " + got.String()
		}
		return ""
	})
	w.shows(w.plugin("status", "deployment/careful"), 3, []string{"deployment/careful", "configmap/app"}, "2", "2", "Paused", "1@1")
	w.ends(3, "deployment/lost is Missing: configmap/nothing does not exist", "deployment/lost")
	w.ends(3, "deployment/careful is Paused: spec.paused is set", "deployment/careful")
	// Content that the workload uses no key of: its numbers differ, and nothing is wrong.
	w.Create(configMap("keys", "used", "1", "other", "1"), deployment("web", envKey("keys", "used", false)))
	w.WaitPinned("web", "keys", "used", "1")
	w.Edit("keys", "other", "2")
	w.Barrier()
	got = w.plugin("status", "deployment/web")
	w.shows(got, 0, []string{"deployment/web", "configmap/keys"}, "1", "2", "RolledOut", "1@1")
	if !strings.Contains(got.stderr, "deployment/web stays on revision 1 of configmap/keys: only keys that it does not use have changed since") {
		t.Errorf("it says %s", got.stderr)
	}
}

// ends checks that a wait ends by itself, with a status and an error that names the workload and why.
func (w *world) ends(status int, why, workload string) {
	w.Helper()
	got := w.plugin("status", workload, "--wait", "--timeout=5m")
	if got.status != status || !strings.Contains(got.stderr, "error: "+why) || strings.Contains(got.stderr, "timed out") || got.rowOf(workload) == nil {
		w.Errorf("status %d, want %d and %q:\n%s%s", got.status, status, why, got.stdout, got.stderr)
	}
}

// A rollout that failed ends a wait, as it ends that of kubectl rollout status. The next change begins another.
func TestPluginStatusOfAFailedRollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stuck := deployment("web", envFrom("app"), func(d *appsv1.Deployment) {
		d.Spec.ProgressDeadlineSeconds = new(int32(5))
		d.Spec.Template.Spec.NodeSelector = map[string]string{"no": "such"}
	})
	w.Create(configMap("app", "color", "A"), stuck)
	w.ends(4, "deployment/web is Failed: it exceeded its progress deadline: 0 of 1 pods are ", "deployment/web")
	if got := w.plugin("status"); got.status != 4 {
		t.Errorf("without --wait the status is %d", got.status)
	}
	// On a busy machine, what goes well takes longer than what is to fail.
	w.Kubectl("patch", "deployment/web", "--type=json", "-p",
		`[{"op":"remove","path":"/spec/template/spec/nodeSelector"},{"op":"replace","path":"/spec/progressDeadlineSeconds","value":600}]`)
	if got := w.plugin("status", "deployment/web", "--wait", "--timeout=5m"); got.status != 0 {
		t.Errorf("%+v", got)
	}
	// Looked at again, since the event of the old pod's end may come after that of the rollout's.
	w.shows(w.plugin("status", "deployment/web"), 0, []string{"deployment/web", "configmap/app"}, "1", "1", "RolledOut", "1@1")
}

// Elsewhere than on a terminal, what changes is a line more.
func TestPluginStatusWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A"), deployment("web", envFrom("app")))
	w.WaitPinned("web", "app", "color", "A")
	awaited := []string{"deployment/web configmap/app 1 1 RolledOut 1@1", "deployment/web configmap/app 2 2 RolledOut 1@2"}
	w.watching(func(line string) bool {
		if strings.Join(strings.Fields(line), " ") != awaited[0] {
			return false
		}
		if awaited = awaited[1:]; len(awaited) > 0 {
			w.Edit("app", "color", "B")
		}
		return len(awaited) == 0
	}, "kubectl", "confrev", "status", "--watch")
}

func TestPluginStatusRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A"), deployment("web", envFrom("app")))
	w.WaitPinned("web", "app", "color", "A")
	w.pluginFails(1, `deployments.apps "stranger" not found`, "status", "deployment/stranger")
	w.pluginFails(1, `the server doesn't have a resource type "deploymint"`, "status", "deploymint/web")
	w.pluginFails(1, "services are not a kind of workload", "status", "service/app")
	w.pluginFails(1, `configmaps "none" not found`, "status", "configmap/none")
	w.pluginFails(1, "--selector", "status", "-l", "a in")
	w.pluginFails(1, "unable to match a printer", "status", "-o", "xml")
	w.pluginFails(1, "cannot reach the API server", "status", w.unreachable())
	w.pluginFails(1, "cannot list resource", "status", w.account("nothing"))

	some := w.account("some", rights("apps", []string{"deployments", "replicasets"}, "list"), rights("", []string{"configmaps", "pods"}, "list"))
	got := w.plugin("status", some)
	w.shows(got, 0, []string{"deployment/web", "configmap/app"}, "1", "1", "RolledOut", "1@1")
	for _, kind := range []string{"secrets", "statefulsets", "namespaces"} {
		if !strings.Contains(got.stderr, "note: you may not list "+kind) {
			t.Errorf("no note of %s: %s", kind, got.stderr)
		}
	}
}

// What a command asks of the API server does not grow with the workloads. See also test/perf.
func TestPluginRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Other tests run the plugin for all namespaces, which reads this one too. So it runs as someone of its own.
	user := "counted-" + w.NS
	asked := func(args ...string) map[string]int {
		mark := auditMark(t)
		w.pluginPrints(append(args, "--as="+user, "--as-group=system:masters")...)
		requests, err := cluster.Requests(mark, func(r env.Request) bool {
			return r.Object.Namespace == w.NS && r.Impersonated.Username == user
		})
		w.Must(err)
		t.Logf("%s: %v", strings.Join(args, " "), requests)
		counts := map[string]int{}
		for _, r := range requests {
			counts[r.Verb+" "+r.Object.Resource]++
		}
		return counts
	}
	add := func(from, to int) {
		for i := from; i < to; i++ {
			name := fmt.Sprintf("web-%d", i)
			w.Create(configMap(name, "k", "v"), deployment(name, envFrom(name), gen.Replicas(0)))
		}
		// Until a revision notes the version of its source, the plugin has to read the source.
		for i := from; i < to; i++ {
			name := fmt.Sprintf("web-%d", i)
			w.waitNoted(name, w.WaitPinned(name, name, "k", "v").Revision)
		}
		w.Barrier()
		w.waitNoted("barrier", w.PinOf("barrier", "barrier").Revision)
	}
	add(0, 2)
	commands := [][]string{{"status"}, {"history", "configmap/web-0"}, {"history", "configmap/web-0", "-o", "json"}}
	few := map[string]string{}
	for _, args := range commands {
		few[strings.Join(args, " ")] = fmt.Sprint(asked(args...))
	}
	add(2, 12)
	for _, args := range commands {
		command, many := strings.Join(args, " "), asked(args...)
		if few[command] != fmt.Sprint(many) || many["list pods"] != 1 || many["list deployments"] != 1 {
			t.Errorf("%s: %v for 2 workloads, %v for 12", command, few[command], many)
		}
	}
}

func TestPluginStatusExamples(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("app", "color", "A"), deployment("web", envFrom("app")))
	w.WaitPinned("web", "app", "color", "A")
	for _, line := range examplesOf(t, "status") {
		if strings.Contains(line, " -A") {
			// Other tests' workloads may be waiting, or have failed.
			w.runExample(t.TempDir(), line, 3, 4)
			continue
		}
		w.runExample(t.TempDir(), line)
	}
}
