//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// burst is how often the test scales during an advance, much more often than a HorizontalPodAutoscaler, which writes once in 15
// seconds. It has an end, since an advance waits for as long as someone writes the specification without a pause
// (docs/rules/writes.md), and on a slow machine this test would be such a someone.
const burst = 20

// Patch only your own keys: anyone who scales a Deployment in mid-advance loses nothing, and neither does confrev.
func TestScalingByEveryMeansDuringAdvances(t *testing.T) {
	forEachInjection(t, "", func(w *world, r release) {
		s := &scaler{world: w, replicas: 1}
		for i, color := range []string{"B", "C"} {
			rollouts := i + 2
			w.patchConfig(color)
			last := s.writes + burst
			w.Eventually("rolled out while it is scaled", func() string {
				if s.writes < last {
					if complaint := s.scale(1 + (s.replicas+1)%4); complaint != "" {
						return complaint
					}
				}
				if got := w.Deployment("web").Annotations[revisionAnnotation]; got != fmt.Sprint(rollouts) {
					return "rollout " + got
				}
				return ""
			})
			// A rollout may hang when its old ReplicaSet happens to have the new size already (kubernetes#138840). None has
			// this one.
			w.Eventually("scaled", func() string { return s.scale(5) })
			r.color = color
			w.runs(r, rollouts)
		}
		if got := *w.Deployment("web").Spec.Replicas; got != s.replicas {
			w.Errorf("%d replicas, want %d", got, s.replicas)
		}
		w.Logf("%d writes of replicas during 2 advances", s.writes)
	})
}

// scaler scales Deployment web as autoscalers do, by one means after the other.
type scaler struct {
	*world
	// replicas is what it wrote last.
	replicas int32
	writes   int
}

// scale sets the replicas. It complains when it must try again, as every client must that writes back what it read: the
// Deployment's controller writes all the time.
func (s *scaler) scale(n int32) (complaint string) {
	s.Helper()
	if got := *s.Deployment("web").Spec.Replicas; got != s.replicas {
		s.Fatalf("there are %d replicas after scaling to %d", got, s.replicas)
	}
	means := []func(*world, int32) error{scaleByPatch, scaleBySubresource, scaleByUpdate}
	err := means[s.writes%len(means)](s.world, n)
	if apierrors.IsConflict(err) {
		return err.Error()
	}
	s.Must(err)
	s.replicas = n
	s.writes++
	return ""
}

func scaleByPatch(w *world, n int32) error {
	return cluster.Client.Patch(w.Ctx, w.Deployment("web"), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)))
}

func scaleBySubresource(w *world, n int32) error {
	d, scale := w.Deployment("web"), &autoscalingv1.Scale{}
	if err := cluster.Client.SubResource("scale").Get(w.Ctx, d, scale); err != nil {
		return err
	}
	scale.Spec.Replicas = n
	return cluster.Client.SubResource("scale").Update(w.Ctx, d, client.WithSubResourceBody(scale))
}

// scaleByUpdate writes back all that it read.
func scaleByUpdate(w *world, n int32) error {
	d := w.Deployment("web")
	d.Spec.Replicas = &n
	return cluster.Client.Update(w.Ctx, d)
}

// The real HorizontalPodAutoscaler, which follows a metric that the test sets.
func TestHorizontalPodAutoscalerDuringAdvances(t *testing.T) {
	loads := serveLoads(t)
	forEachInjection(t, "", func(w *world, r release) {
		loads.set(w.NS, 1)
		w.KubectlIn(autoscaler, "apply", "-f", "-")
		rollouts := 1
		for _, n := range []int32{3, 2} {
			loads.set(w.NS, n)
			w.Eventually("scaled", func() string {
				rollouts++
				r.color = fmt.Sprint("v", rollouts)
				w.apply(r)
				w.WaitPinned("web", "web", "color", r.color)
				if got := *w.Deployment("web").Spec.Replicas; got != n {
					return fmt.Sprintf("%d replicas, want %d", got, n)
				}
				return ""
			})
		}
		w.runs(r, rollouts)
		if got := *w.Deployment("web").Spec.Replicas; got != 2 {
			w.Errorf("%d replicas, want 2", got)
		}
	})
}

const autoscaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 1
  maxReplicas: 5
  metrics:
  - type: External
    external:
      metric: {name: load}
      target: {type: AverageValue, averageValue: 1}
  behavior:
    scaleDown: {stabilizationWindowSeconds: 0}
`

// loads is an external metrics API with one metric: the load of each namespace.
type loads struct {
	mu sync.Mutex
	of map[string]int32
}

const metricsAPI = "/apis/external.metrics.k8s.io/v1beta1"

// serveLoads makes the API server serve the metric, for as long as the test runs.
func serveLoads(t *testing.T) *loads {
	t.Helper()
	l := &loads{of: map[string]int32{}}
	server := httptest.NewTLSServer(l)
	w := worldIn(t, "default")
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	w.Must(err)
	// The server ends last: while the service is there and no one answers, no namespace can be deleted.
	t.Cleanup(server.Close)
	w.applyForTest(strings.ReplaceAll(metricsService, "PORT", port))
	w.Kubectl("wait", "--for=condition=Available", "apiservice/v1beta1.external.metrics.k8s.io", "--timeout="+patience.String())
	return l
}

const metricsService = `
apiVersion: v1
kind: Service
metadata: {name: e2e-metrics}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec:
  group: external.metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {namespace: default, name: e2e-metrics, port: PORT}
`

func (l *loads) set(namespace string, n int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[namespace] = n
}

func (l *loads) get(namespace string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strconv.Itoa(int(l.of[namespace]))
}

// ServeHTTP answers discovery, and questions for the metric.
func (l *loads) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	var answer map[string]any
	path, found := strings.CutPrefix(request.URL.Path, metricsAPI)
	switch parts := strings.Split(path, "/"); {
	case found && path == "":
		answer = map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "external.metrics.k8s.io/v1beta1", "resources": []any{
			map[string]any{"name": "load", "namespaced": true, "kind": "ExternalMetricValueList", "verbs": []string{"get"}}}}
	case found && len(parts) == 4:
		answer = map[string]any{"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": map[string]any{}, "items": []any{
			map[string]any{"metricName": "load", "metricLabels": map[string]any{}, "value": l.get(parts[2]), "timestamp": time.Now().UTC().Format(time.RFC3339)}}}
	default:
		http.NotFound(response, request)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	// Who hung up needs no answer.
	_ = json.NewEncoder(response).Encode(answer)
}
