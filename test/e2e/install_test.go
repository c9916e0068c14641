//go:build e2e

package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"confrev.io/confrev/internal/view"
)

// A second release next to the first, or one whose names are taken by another's objects, is refused before anything is created.
func TestSecondReleaseIsRefused(t *testing.T) {
	t.Parallel()
	for _, helm := range []string{"helm3", "helm"} {
		for release, want := range map[string]string{
			"second": "confrev is installed in this cluster already (release confrev in namespace confrev-system",
			// Helm itself finds that. With the names of the first release's objects, there is nothing for the chart to find.
			"confrev": "exists and cannot be imported into the current release",
		} {
			t.Run(helm+" "+release, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				before := w.ofAnyRelease()
				_, err := cluster.Run(w.Ctx, "", helm, "install", release, "charts/confrev", "--namespace", w.NS)
				w.refused(err, want, "installing release", release)
				left := w.Kubectl("get", "deployments,services,secrets,serviceaccounts,roles,rolebindings,jobs", "--output=name")
				// The controller manager makes this one, sooner or later.
				if left = strings.TrimSpace(left); left != "" && left != "serviceaccount/default" {
					t.Errorf("these were created:\n%s", left)
				}
				if diff := cmp.Diff(before, w.ofAnyRelease()); diff != "" {
					t.Errorf("the whole cluster's objects changed (-before +after):\n%s", diff)
				}
			})
		}
	}
}

// ofAnyRelease lists the whole cluster's objects that belong to any release of confrev, with what Helm notes of the release.
func (w *world) ofAnyRelease() []string {
	w.Helper()
	out, err := cluster.Kubectl(w.Ctx, "get", "clusterroles,clusterrolebindings,validatingadmissionpolicies,mutatingwebhookconfigurations", "--output",
		`jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.uid} {.metadata.annotations.meta\.helm\.sh/release-namespace}{"\n"}{end}`)
	w.Must(err)
	all := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return !strings.Contains(line, "confrev") })
	if len(all) == 0 {
		w.Fatalf("confrev is not installed:\n%s", out)
	}
	return all
}

// Helm, confrev itself and doctor say that a cluster is too old, with the version that it would need. Nothing is created.
func TestOldKubernetesIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kubeconfig := w.olderServer("v1.29.14")
	for _, helm := range []string{"helm3", "helm"} {
		_, err := cluster.RunEnv(w.Ctx, []string{"KUBECONFIG=" + kubeconfig}, "", helm, "install", "old", "charts/confrev", "--namespace", w.NS)
		w.refused(err, "chart requires kubeVersion: >=1.30.0-0 which is incompatible with Kubernetes v1.29.14", helm)
	}
	if left := w.Kubectl("get", "deployments,secrets", "--output=name"); left != "" {
		t.Errorf("these were created:\n%s", left)
	}
	out, err := exec.CommandContext(w.Ctx, binary, "--kubeconfig", kubeconfig, "--health-probe-bind-address=0", "--metrics-bind-address=0").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the API server is Kubernetes v1.29.14, which is too old: confrev needs 1.30 or later") {
		t.Errorf("confrev: %v\n%s", err, out)
	}
	got := w.runIn("", "", "kubectl", "confrev", "doctor", "-o", "json", "--kubeconfig", kubeconfig)
	var d view.Diagnosis
	w.Must(json.Unmarshal([]byte(got.stdout), &d))
	for _, f := range d.Findings {
		if f.Reason == "KubernetesTooOld" && f.Severity == view.SeverityError {
			return
		}
	}
	t.Errorf("doctor, status %d: %+v", got.status, d.Findings)
}

// olderServer returns a kubeconfig for the cluster, as one that claims to be of an older version.
func (w *world) olderServer(version string) (kubeconfig string) {
	w.Helper()
	target, err := url.Parse(cluster.Config.Host)
	w.Must(err)
	transport, err := rest.TransportFor(cluster.Config)
	w.Must(err)
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.URL.Path != "/version" {
			proxy.ServeHTTP(out, in)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(out).Encode(map[string]string{"major": "1", "minor": "29", "gitVersion": version})
	}))
	w.Cleanup(server.Close)
	kubeconfig = filepath.Join(w.TempDir(), "kubeconfig")
	w.Must(cluster.WriteKubeconfig(kubeconfig, func(config *clientcmdapi.Config, current *clientcmdapi.Context) {
		config.Clusters = map[string]*clientcmdapi.Cluster{current.Cluster: {Server: server.URL}}
		config.AuthInfos = map[string]*clientcmdapi.AuthInfo{current.AuthInfo: {}}
	}))
	return kubeconfig
}
