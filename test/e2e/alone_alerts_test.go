//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// In the real Prometheus, which scrapes confrev, each alert of the chart fires for what it is about and not before, and each query of the
// dashboard has a result. Not parallel: confrev and the chart's parts go away for some of it.
func TestEveryAlertFires(t *testing.T) {
	w := newWorld(t)
	reinstallAfter(t)
	failed := func() float64 { return w.metrics().Sum("controller_runtime_reconcile_errors_total") }
	before := failed()
	p, began := w.startPrometheus(), time.Now()
	w.Eventually("Prometheus scrapes confrev, and no alert fires", func() string {
		up, err := p.query(`up == 1`)
		w.Must(err)
		if firing := p.firing(); len(up) != 1 || len(firing) > 0 {
			return fmt.Sprintf("%d are up, firing: %v", len(up), firing)
		}
		return ""
	})
	for _, step := range []struct {
		alert string
		cause func()
	}{
		{"ConfrevSourceMissing", func() { w.Create(deployment("lost", envFrom("absent"))) }},
		{"ConfrevRollbackHeld", w.editAndUndo},
		{"ConfrevRevisionMissing", func() { w.unguarded("delete", "configmap", w.PinOf("web", "web").Revision) }},
		{"ConfrevChangesWait", w.changeThatSettles},
		{"ConfrevChangeFailed", w.changeThatFails},
		{"ConfrevChangeStopped", w.changeThatIsStopped},
		{"ConfrevWebhookErrors", w.failWithinARequest},
		{"ConfrevErrors", w.failRepeatedly},
		{"ConfrevReverted", w.revertRepeatedly},
	} {
		// The causes of the others make confrev try again and again too, on a busy machine more often.
		enough := step.alert == "ConfrevErrors" && failed()-before >= 10
		if slices.Contains(p.firing(), step.alert) && !enough {
			t.Errorf("%s fires before its cause", step.alert)
		}
		step.cause()
		p.waitFiring(step.alert)
	}
	p.runDashboard(began)
	kind := map[bool]string{true: "mutatingadmissionpolicybinding", false: "mutatingwebhookconfiguration"}[servesPolicies(t)]
	w.Kubectl("delete", kind, "confrev-resolve-pins")
	p.waitFiring("ConfrevPinsNotResolved")
	// confrev does not become ready again without it.
	w.Must(reinstall(t))
	withoutTheChart(t)
	p.waitFiring("ConfrevDown")
	p.loseANamespace()
	p.waitFiring("ConfrevNamespacesUnreadable")
	for _, alert := range p.alerts {
		if !p.fired[alert] {
			t.Errorf("%s has not fired", alert)
		}
	}
	t.Logf("%d of %d alerts fired", len(p.fired), len(p.alerts))
}

func (w *world) editAndUndo() {
	w.Create(configMap("web", "color", "A"), deployment("web", envFrom("web")))
	w.WaitPinned("web", "web", "color", "A")
	w.editTo("B")
	w.Undo("web")
	w.WaitHeld("web", "web")
}

func (w *world) changeThatSettles() {
	w.Create(configMap("slow", "k", "1"), deployment("slow", envFrom("slow"), gen.Annotated(keys.Settle, "10m")))
	w.WaitPinned("slow", "slow", "k", "1")
	w.Edit("slow", "k", "2")
}

// changeThatFails lets the only Deployment that uses a source fail with a change to it.
func (w *world) changeThatFails() {
	w.fleet(map[string]string{keys.OnFailure: "undo"}, "failing")
	end := w.noProgress("failing")
	w.Edit("shared", "color", "B")
	w.WaitEvent("ChangeFailed", "failing", "revision 2 of configmap/shared failed")
	end()
}

// changeThatIsStopped stops a change before any workload has it.
func (w *world) changeThatIsStopped() {
	w.Create(configMap("halted", "k", "1"), deployment("halted", envFrom("halted"), gen.Annotated(keys.Advance, "manual")))
	// The stop counts before what else the Deployment waits for.
	w.WaitPinned("halted", "halted", "k", "1")
	w.Edit("halted", "k", "2")
	w.WaitEvent("WaitingToAdvance", "halted", "configmap/halted")
	w.confrev("stop", "configmap/halted").ends(0)
}

// failRepeatedly lets the API server fail what confrev creates, until confrev has tried more often than an alert allows.
func (w *world) failRepeatedly() {
	before := w.metrics().Sum("controller_runtime_reconcile_errors_total")
	defer w.failCreations()()
	w.Create(configMap("refused", "k", "v"), deployment("refused", envFrom("refused")))
	w.Eventually("confrev has failed eleven times", func() string {
		if failed := w.metrics().Sum("controller_runtime_reconcile_errors_total") - before; failed < 11 {
			return fmt.Sprintf("%v times", failed)
		}
		return ""
	})
}

// revertRepeatedly undoes confrev's pin until that is reported, where the webhook does not put it back within the request.
func (w *world) revertRepeatedly() {
	w.Create(configMap("fought", "k", "v"), deployment("fought", envFrom("fought"), gen.Annotated(keys.Settle, "0s")))
	w.WaitPinned("fought", "fought", "k", "v")
	w.Kubectl("delete", "mutatingwebhookconfiguration", "confrev-pin-workloads")
	w.Eventually("it is reported", func() string {
		if len(w.Events("Reverted", "fought")) > 0 {
			return ""
		}
		if w.PinsText("fought") != "" {
			w.Kubectl("patch", "deployment", "fought", "--field-manager=operator", "--type=merge", "-p",
				`{"spec":{"template":{"metadata":{"annotations":{"confrev.io/pins":null,"operator":"wants this"}}}}}`)
		}
		return "not yet"
	})
}

// loseANamespace runs a confrev that is limited to two namespaces, and deletes one of them.
func (p *prometheusServer) loseANamespace() {
	l := newLimited(p.T, 2)
	l.Must(l.helm("helm", "install", "--wait"))
	l.run("limited")
	l.waitHandled(2, 0)
	scraped, err := url.Parse(l.confrev.Metrics)
	l.Must(err)
	p.writeFile(p.dir, "more.json", fmt.Sprintf(`[{"targets": [%q]}]`, scraped.Host))
	l.Kubectl("delete", "namespace", l.watched[1].NS, "--timeout="+patience.String())
	l.waitHandled(1, 1)
}

// prometheusServer is a Prometheus that scrapes confrev and has the chart's alerts, which fire at once.
type prometheusServer struct {
	*world
	url    string
	dir    string
	alerts []string
	fired  map[string]bool
}

func (w *world) startPrometheus() *prometheusServer {
	w.Helper()
	p := &prometheusServer{world: w, fired: map[string]bool{}}
	dir := w.TempDir()
	p.dir = dir
	p.writeRules(filepath.Join(dir, "rules.yaml"))
	scraped, err := url.Parse(confrev.Metrics)
	w.Must(err)
	config := fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [rules.yaml]
scrape_configs:
- {job_name: confrev-metrics, honor_labels: true, static_configs: [{targets: [%q]}], file_sd_configs: [{files: [more.json]}]}
`, scraped.Host)
	w.writeFile(dir, "prometheus.yml", config)
	_, err = cluster.Run(w.Ctx, "", "promtool", "check", "config", filepath.Join(dir, "prometheus.yml"))
	w.Must(err)
	address, err := env.FreeAddress()
	w.Must(err)
	p.url = "http://" + address
	program, err := cluster.Tool(w.Ctx, "prometheus")
	w.Must(err)
	log, err := os.Create(filepath.Join(dir, "log"))
	w.Must(err)
	server := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address)
	server.Stdout, server.Stderr = log, log
	w.Must(env.Start(server))
	w.Cleanup(func() {
		if err := server.Process.Kill(); err != nil {
			w.Error(err)
		}
		_ = server.Wait() // It was killed.
		w.Must(log.Close())
	})
	w.Eventually("Prometheus is ready", func() string {
		_, err := p.query("1")
		return errorText(err)
	})
	return p
}

// writeRules writes the chart's alerts without the time for which they must be true.
func (p *prometheusServer) writeRules(file string) {
	p.Helper()
	rendered, err := cluster.Run(p.Ctx, "", "helm", "template", "confrev", filepath.Join(env.Root(), "charts", "confrev"),
		"--show-only", "templates/monitoring.yaml", "--set", "metrics.prometheusRule.enabled=true")
	p.Must(err)
	var rule struct {
		Spec struct {
			Groups []struct {
				Name  string           `json:"name"`
				Rules []map[string]any `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	p.Must(yaml.Unmarshal([]byte(rendered), &rule))
	for _, group := range rule.Spec.Groups {
		for _, alert := range group.Rules {
			delete(alert, "for")
			p.alerts = append(p.alerts, alert["alert"].(string))
		}
	}
	if len(p.alerts) == 0 {
		p.Fatalf("the chart has no alerts:\n%s", rendered)
	}
	text, err := yaml.Marshal(map[string]any{"groups": rule.Spec.Groups})
	p.Must(err)
	p.Must(os.WriteFile(file, text, 0o600))
}

// get asks Prometheus' API.
func (p *prometheusServer) get(path string, into any) error {
	response, err := http.Get(p.url + path)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	p.Must(response.Body.Close())
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (p *prometheusServer) query(expression string) ([]any, error) {
	var answer struct{ Data struct{ Result []any } }
	err := p.get("/api/v1/query?query="+url.QueryEscape(expression), &answer)
	return answer.Data.Result, err
}

// firing returns the alerts that fire.
func (p *prometheusServer) firing() []string {
	p.Helper()
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	p.Must(p.get("/api/v1/alerts", &answer))
	var firing []string
	for _, alert := range answer.Data.Alerts {
		if name := alert.Labels["alertname"]; alert.State == "firing" && !slices.Contains(firing, name) {
			firing = append(firing, name)
		}
	}
	return firing
}

func (p *prometheusServer) waitFiring(alert string) {
	p.Helper()
	p.Eventually(alert+" fires", func() string {
		firing := p.firing()
		if !slices.Contains(firing, alert) {
			return fmt.Sprintf("only %v", firing)
		}
		p.fired[alert] = true
		return ""
	})
}

// dashboardPanel is a panel of the dashboard, with what its queries return.
type dashboardPanel struct {
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Targets     []dashboardQuery
}

type dashboardQuery struct {
	Expr, LegendFormat string
	// Result is that of a query of a range, in Prometheus' form.
	Result []any
}

// runDashboard runs each query of the dashboard. With CONFREV_DASHBOARD, it writes what they returned over the time of the test to that
// file, from which hack/dashboard draws a picture.
func (p *prometheusServer) runDashboard(since time.Time) {
	p.Helper()
	var dashboard struct{ Panels []dashboardPanel }
	p.Must(json.Unmarshal([]byte(readFile(p.T, filepath.Join(env.Root(), "charts", "confrev", "files", "dashboard.json"))), &dashboard))
	queries := 0
	for _, panel := range dashboard.Panels {
		for i, target := range panel.Targets {
			queries++
			query := func(interval string) string {
				return strings.NewReplacer("$namespace", ".*", "$__rate_interval", interval).Replace(target.Expr)
			}
			// A scrape that takes too long, on a busy machine, leaves nothing to show until the next one.
			p.Eventually(panel.Title+" has results", func() string {
				if result, err := p.query(query("5m")); err != nil || len(result) == 0 {
					return fmt.Sprintf("%s: %d, %v", query("5m"), len(result), err)
				}
				return ""
			})
			result, err := p.queryRange(query("15s"), since)
			p.Must(err)
			panel.Targets[i].Result = result
		}
	}
	p.Logf("%d queries of %d panels", queries, len(dashboard.Panels))
	if file := os.Getenv("CONFREV_DASHBOARD"); file != "" {
		text, err := json.MarshalIndent(dashboard.Panels, "", " ")
		p.Must(errors.Join(err, os.WriteFile(file, text, 0o644)))
	}
}

// queryRange returns what an expression was at each second since.
func (p *prometheusServer) queryRange(expression string, since time.Time) ([]any, error) {
	var answer struct{ Data struct{ Result []any } }
	values := url.Values{"query": {expression}, "step": {"1"}, "start": {fmt.Sprint(since.Unix())}, "end": {fmt.Sprint(time.Now().Unix())}}
	err := p.get("/api/v1/query_range?"+values.Encode(), &answer)
	return answer.Data.Result, err
}
