//go:build e2e

package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"confrev.io/confrev/internal/keys"
)

// A pod without credentials that reaches every port of confrev reads and changes nothing: not by a forged review, nor by any other
// request.
func TestWithoutCredentialsNoPortSaysAnything(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := configMap("plain", "key", "canary-of-a-stranger")
	bystander := deployment("bystander", envFrom("plain"))
	bystander.Annotations = nil
	w.Create(plain, bystander)
	bystander = w.Deployment("bystander")
	// What is tracked is counted by the metrics, without its namespace.
	tracked, _ := deployed(t)
	ports := listening(t, confrev.PID())
	if len(ports) != 3 {
		t.Errorf("confrev listens on %v: want the ports of health, metrics and webhooks, and no other", ports)
	}
	mark := auditMark(t)
	s := &stranger{world: w, names: []string{w.NS, tracked.NS, "bystander"}, client: &http.Client{Timeout: patience, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // An attacker does not ask who answers.
	}}}
	for _, port := range ports {
		s.knock(port, bystander)
	}
	for _, review := range s.forgedReviews(bystander) {
		for _, path := range []string{"/pin-workloads", "/pin-workloads/", "/resolve-pins", "/"} {
			s.send(http.MethodPost, cluster.WebhookURL+path, review)
		}
	}
	s.bloat()
	requests, err := cluster.ConfrevRequests(mark)
	w.Must(err)
	escalations := 0
	for _, r := range requests {
		if r.Object.Namespace == w.NS && r.Object.Resource != "events" {
			escalations++
			t.Errorf("confrev did %s for one without credentials", r)
		}
	}
	if s.answered["200"] == 0 || s.answered["404"] == 0 || s.answered["none"] == 0 {
		t.Errorf("answers are %v: this test does not reach what it should", s.answered)
	}
	fmt.Fprintf(os.Stderr, "e2e: adversary without credentials: %d ports, %d operations tried, answers %v, %d escalations\n", len(ports), s.tried, s.answered, escalations)
}

// stranger asks confrev without credentials.
type stranger struct {
	*world
	// names are those of what there is.
	names    []string
	client   *http.Client
	tried    int
	answered map[string]int
}

// send sends a request, and looks for content and for names in the answer.
func (s *stranger) send(method, url string, body []byte) {
	s.Helper()
	s.tried++
	if s.answered == nil {
		s.answered = map[string]int{}
	}
	request, err := http.NewRequestWithContext(s.Ctx, method, url, bytes.NewReader(body))
	s.Must(err)
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if s.failed(err) {
		s.answered["none"]++
		return
	}
	said, err := io.ReadAll(response.Body)
	s.Must(response.Body.Close())
	if s.failed(err) {
		s.answered["none"]++
		return
	}
	s.answered[strconv.Itoa(response.StatusCode)]++
	secrets := []string{"canary"}
	if len(body) == 0 {
		// A review is answered with what it has.
		secrets = append(secrets, s.names...)
	}
	for _, secret := range secrets {
		if bytes.Contains(said, []byte(secret)) {
			s.Errorf("%s %s %s is answered with %q: %.500s", method, url, body, secret, said)
		}
	}
}

// failed reports whether there is an error in place of an answer: TLS where there is none, or the reverse. An answer that only takes its time is
// something else, since no one has looked at it.
func (s *stranger) failed(err error) bool {
	s.Helper()
	if os.IsTimeout(err) {
		s.Error(err)
	}
	return err != nil
}

// knock tries a port with all methods and what servers of Go programs have, in the clear and by TLS.
func (s *stranger) knock(port int, of *appsv1.Deployment) {
	s.Helper()
	review := s.review(of, of)
	for _, scheme := range []string{"http", "https"} {
		at := fmt.Sprintf("%s://localhost:%d", scheme, port)
		for _, path := range []string{
			"/", "/healthz", "/readyz", "/livez", "/readyz/webhooks", "/healthz?verbose", "/readyz?verbose", "/metrics", "/metrics/cadvisor", "/debug/pprof/",
			"/debug/pprof/heap?debug=1", "/debug/pprof/cmdline", "/debug/vars", "/debug/flags/v", "/configz", "/pin-workloads", "/pin-workloads/",
			"/pin-workloads/..%2f..%2fmetrics", "/resolve-pins", "/api/v1/namespaces/" + s.NS + "/configmaps/plain", "/version",
		} {
			for method, body := range map[string][]byte{http.MethodGet: nil, http.MethodDelete: nil, http.MethodPost: review, http.MethodPut: review} {
				s.send(method, at+path, body)
			}
			if strings.Contains(path, "/debug/") || path == "/configz" {
				s.wantNotFound(at + path)
			}
		}
	}
}

// wantNotFound checks that nothing is served where servers show what they are doing.
func (s *stranger) wantNotFound(url string) {
	s.Helper()
	response, err := s.client.Get(url)
	if s.failed(err) {
		return
	}
	s.Must(response.Body.Close())
	if response.StatusCode < http.StatusBadRequest {
		s.Errorf("%s is answered: %s", url, response.Status)
	}
}

// forgedReviews returns reviews that are about a live workload, and claim for it each key with each claim.
func (s *stranger) forgedReviews(of *appsv1.Deployment) [][]byte {
	s.Helper()
	var all [][]byte
	for _, key := range declaredKeys(s.T) {
		for _, claim := range claims(string(of.UID), "plain") {
			forged := of.DeepCopy()
			forged.Annotations = map[string]string{keys.Track: "all", key: claim}
			forged.Spec.Template.Annotations = map[string]string{key: claim}
			all = append(all, s.review(forged, forged))
		}
	}
	return all
}

// review returns an AdmissionReview of the update of a Deployment.
func (s *stranger) review(object, old *appsv1.Deployment) []byte {
	s.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": map[string]any{
			"uid": "forged", "operation": "UPDATE", "namespace": s.NS, "name": "bystander", "object": object, "oldObject": old,
			"kind":     map[string]string{"group": "apps", "version": "v1", "kind": "Deployment"},
			"resource": map[string]string{"group": "apps", "version": "v1", "resource": "deployments"},
			"userInfo": map[string]string{"username": "system:masters"},
		},
	})
	s.Must(err)
	return text
}

// bloat sends a review whose containers, decoded, would take 5 GB while their list grows. Other tests make confrev allocate, too, so it counts when
// they let it allocate least.
func (s *stranger) bloat() {
	s.Helper()
	allocated := func() float64 {
		metrics, err := confrev.ReadMetrics(s.Ctx)
		s.Must(err)
		return metrics.Sum("go_memstats_alloc_bytes_total")
	}
	least := math.Inf(1)
	for range 3 {
		before := allocated()
		s.send(http.MethodPost, cluster.WebhookURL+"/resolve-pins", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"bloated",`+
			`"object":{"metadata":{"annotations":{"confrev.io/pins":"configmap/app=app-xxxxxxxxxx@1"}},"spec":{"containers":[`+strings.Repeat("{},", 2_300_000)+`{}]}}}}`))
		least = min(least, allocated()-before)
	}
	if least > 1<<30 {
		s.Errorf("one request made confrev allocate %.0f bytes", least)
	}
}

// listening returns the TCP ports on which a process listens, as the kernel has it.
func listening(t *testing.T, pid int) []int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("cannot see the files of process %d: %v", pid, err)
	}
	sockets := map[string]bool{}
	for _, file := range files {
		// A file may have been closed meanwhile.
		if target, err := os.Readlink(file); err == nil {
			if inode, found := strings.CutPrefix(target, "socket:["); found {
				sockets[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	var ports []int
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		// Number, local address and port, remote ones, state 0A (listening), …, inode.
		for _, row := range regexp.MustCompile(`(?m)^ *\d+: [0-9A-F]+:([0-9A-F]{4}) \S+ 0A \S+ \S+ \S+ +\d+ +\d+ (\d+)`).FindAllStringSubmatch(string(text), -1) {
			port, err := strconv.ParseInt(row[1], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			if sockets[row[2]] && !slices.Contains(ports, int(port)) {
				ports = append(ports, int(port))
			}
		}
	}
	return ports
}
