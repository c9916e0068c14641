package charts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"confrev.io/confrev/internal/version"
)

// What catalogs show of the chart is there: its icon and the pages that it links to. The oldest Kubernetes is the one that confrev itself
// asks for.
func TestMetadataOfTheChart(t *testing.T) {
	t.Parallel()
	var chart struct {
		Version, AppVersion, KubeVersion, Icon string
		Annotations                            map[string]string
	}
	text, err := os.ReadFile(filepath.Join("confrev", "Chart.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &chart)
	}
	if err != nil {
		t.Fatal(err)
	}
	if chart.AppVersion != "v"+chart.Version {
		t.Errorf("version %s of the chart is for %s", chart.Version, chart.AppVersion)
	}
	if want := ">=" + version.OldestKubernetes + ".0-0"; chart.KubeVersion != want || supported[0] != version.OldestKubernetes {
		t.Errorf("the chart is for %s, confrev for %s; the schemas begin with %s", chart.KubeVersion, want, supported[0])
	}
	inTree(t, chart.Icon, "https://raw.githubusercontent.com/confrev/confrev/main/")
	var links []struct{ Name, URL string }
	if err := yaml.UnmarshalStrict([]byte(chart.Annotations["artifacthub.io/links"]), &links); err != nil || len(links) == 0 {
		t.Fatalf("links: %v, %v", links, err)
	}
	for _, link := range links {
		inTree(t, link.URL, "https://github.com/confrev/confrev/blob/main/")
	}
}

// inTree checks that a URL is that of a file of the tree.
func inTree(t *testing.T, url, base string) {
	t.Helper()
	file, ok := strings.CutPrefix(url, base)
	if _, err := os.Stat(filepath.Join("..", file)); !ok || err != nil {
		t.Errorf("%s: %v", url, err)
	}
}
