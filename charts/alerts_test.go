package charts_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Each alert has a section that says what to do, its runbook is that section, and it asks for metrics that exist.
func TestAlertsAreDocumented(t *testing.T) {
	t.Parallel()
	objects, err := render(t, "metrics: {prometheusRule: {enabled: true}}")
	if err != nil {
		t.Fatal(err)
	}
	groups, _, err := unstructured.NestedSlice(objects["PrometheusRule/confrev"].Object, "spec", "groups")
	if err != nil || len(groups) != 1 {
		t.Fatal(groups, err)
	}
	metrics := page(t, "metrics.md")
	var named []string
	for _, rule := range groups[0].(map[string]any)["rules"].([]any) {
		rule := rule.(map[string]any)
		name := rule["alert"].(string)
		named = append(named, name)
		if severity, _, _ := unstructured.NestedString(rule, "labels", "severity"); !slices.Contains([]string{"critical", "warning", "info"}, severity) {
			t.Errorf("%s has the severity %q", name, severity)
		}
		runbook, _, _ := unstructured.NestedString(rule, "annotations", "runbook_url")
		if summary, _, _ := unstructured.NestedString(rule, "annotations", "summary"); summary == "" || !strings.HasSuffix(runbook, "/docs/alerts.md#"+strings.ToLower(name)) {
			t.Errorf("%s: summary %q, runbook %q", name, summary, runbook)
		}
		for _, metric := range confrevs.FindAllString(rule["expr"].(string), -1) {
			if !strings.Contains(metrics, "`"+strings.TrimSuffix(metric, "_count")+"`") {
				t.Errorf("%s asks for %s, which docs/metrics.md does not have", name, metric)
			}
		}
	}
	var documented []string
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(page(t, "alerts.md"), -1) {
		documented = append(documented, heading[1])
	}
	if !slices.Equal(named, documented) {
		t.Errorf("the chart has the alerts\n%q, docs/alerts.md\n%q", named, documented)
	}
}

// The dashboard shows every metric of docs/metrics.md, and no other of confrev's.
func TestDashboardShowsEveryMetric(t *testing.T) {
	t.Parallel()
	objects, err := render(t, "metrics: {dashboard: {enabled: true}}")
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := unstructured.NestedString(objects["ConfigMap/confrev-dashboard"].Object, "data", "confrev.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title, Description string
			Targets            []struct{ Expr string }
		}
	}
	if err := yaml.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, panel := range dashboard.Panels {
		if panel.Title == "" || panel.Description == "" || len(panel.Targets) == 0 {
			t.Errorf("a panel lacks something: %+v", panel)
		}
		for _, target := range panel.Targets {
			for _, metric := range confrevs.FindAllString(target.Expr, -1) {
				shown[strings.TrimSuffix(metric, "_bucket")] = true
			}
		}
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(confrev_[a-z_]+)` \\|").FindAllStringSubmatch(page(t, "metrics.md"), -1) {
		documented[row[1]] = true
	}
	if len(documented) < 10 || !maps.Equal(shown, documented) {
		t.Errorf("the dashboard shows\n%q, docs/metrics.md has\n%q", slices.Sorted(maps.Keys(shown)), slices.Sorted(maps.Keys(documented)))
	}
}

var confrevs = regexp.MustCompile(`confrev_[a-z_]+`)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
