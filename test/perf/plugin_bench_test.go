//go:build perf

package perf

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"confrev.io/confrev/test/env"
)

const (
	// pluginWorkloads is how many workloads a namespace has in which the plugin is asked.
	pluginWorkloads = 1000
	// pluginPods is how many of them have a pod: the nodes have room for 330.
	pluginPods = 300
	// pluginRuns is how often it is asked.
	pluginRuns = 5
)

// BenchmarkPlugin measures what verbs that look take in a namespace of many Deployments, and what they ask of the API
// server. The floor is kubectl getting the same Deployments.
func BenchmarkPlugin(b *testing.B) {
	w := newWorld(b)
	names := w.tracked("web", pluginWorkloads)
	confrev := w.start("--settle", "0s")
	confrev.idle()
	plugin, err := cluster.Build(w.Ctx, "kubectl-confrev", false)
	w.Must(err)
	kubectl, err := cluster.Tool(w.Ctx, "kubectl")
	w.Must(err)
	w.many(pluginPods, creating, func(i int) error { return w.patch(names[i], `{"spec":{"replicas":1}}`) })
	w.timed(plugin, "status", "--wait", "--timeout", patience.String(), "--namespace", w.NS)
	t := newTable(b, fmt.Sprintf("%d Deployments, %d pods", pluginWorkloads, pluginPods), "median", "max", "requests", "LISTs")
	for b.Loop() {
		for _, command := range [][]string{
			{kubectl, "get", "deployments"}, {plugin, "status"}, {plugin, "history", "configmap/" + names[0]}, {plugin, "uses", "configmap/" + names[0]},
			{plugin, "doctor"},
		} {
			var taken []time.Duration
			mark := w.mark()
			for range pluginRuns {
				taken = append(taken, w.timed(append(command, "--namespace", w.NS)...))
			}
			lists, all := w.askedBy(command[0], mark)
			verb := filepath.Base(command[0]) + " " + command[1]
			if s := measured(b, pluginWorkloads); command[0] == kubectl {
				s.least(verb, taken)
			} else {
				s.took(verb, taken)
			}
			t.row(verb, middle(taken), quantile(taken, 1),
				float64(all)/pluginRuns, float64(lists)/pluginRuns)
		}
	}
	t.print()
}

// timed runs a command and says how long it took. Its exit status may say that something is not as it should be.
func (w *world) timed(command ...string) time.Duration {
	w.Helper()
	cmd := exec.CommandContext(w.Ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cluster.Kubeconfig)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	started := time.Now()
	err := cmd.Run()
	taken := time.Since(started)
	if err != nil && stdout.Len() == 0 {
		w.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, stderr.String())
	}
	return taken
}

// askedBy counts the LISTs, and all requests, of a program since a mark.
func (w *world) askedBy(program string, since env.AuditMark) (lists, all int) {
	w.Helper()
	requests, err := cluster.Requests(since, func(r env.Request) bool {
		return strings.HasPrefix(r.UserAgent, filepath.Base(program)+"/")
	})
	w.Must(err)
	for _, r := range requests {
		if r.Verb == "list" {
			lists++
		}
	}
	return lists, len(requests)
}
