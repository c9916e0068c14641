//go:build reliability

package reliability

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"confrev.io/confrev/test/faults"
	"confrev.io/confrev/test/gen"
)

// few leaves confrev's account about three requests at a time, and the API server refuses all others.
const few = `
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: confrev-few}
spec:
  type: Limited
  limited: {nominalConcurrencyShares: 1, lendablePercent: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: confrev-few}
spec:
  priorityLevelConfiguration: {name: confrev-few}
  matchingPrecedence: 100
  rules:
  - subjects: [{kind: ServiceAccount, serviceAccount: {namespace: confrev-system, name: confrev}}]
    resourceRules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"], clusterScope: true}]
`

// How much confrev does at a time is for the API server's priority and fairness to decide: what it refuses is late, and nothing is lost or doubled. confrev
// sends fewer then, since the API server makes clients wait for up to 32 seconds if it refuses many requests.
func TestTheAPIServerLimitsConfrev(t *testing.T) {
	const workloads = 100
	m := alone(t, "fairness", faults.Options{})
	w := newWorld(t)
	w.Create(configMap(source, "A"))
	for i := range workloads {
		w.Create(deployment(fmt.Sprint("web-", i), gen.Replicas(0)))
	}
	w.waitPinned("A")
	w.Barrier()
	rolledOutOnce, before := w.rolledOutOnce(), w.refused()
	w.KubectlIn(few, "apply", "-f", "-")
	defer w.KubectlIn(few, "delete", "-f", "-")
	began := time.Now()
	w.Edit(source, color, "B")
	w.waitPinned("B")
	refused := w.refused() - before
	w.Logf("the API server refused %d requests; all have the change after %s", refused, time.Since(began).Round(10*time.Millisecond))
	switch {
	case refused == 0:
		t.Error("it refused none: this shows nothing")
	case refused > workloads/2:
		t.Errorf("it refused %d requests: confrev went on sending what would be refused", refused)
	}
	w.Barrier()
	rolledOutOnce()
	if m.Ended() {
		t.Errorf("confrev ended, see %s", m.Log)
	}
}

// refused returns how many requests the API server has refused because of the limit.
func (w *world) refused() (n int) {
	w.Helper()
	for line := range strings.Lines(w.Kubectl("get", "--raw", "/metrics")) {
		if strings.HasPrefix(line, "apiserver_flowcontrol_rejected_requests_total{") && strings.Contains(line, `priority_level="confrev-few"`) {
			value := line[strings.LastIndex(line, " ")+1:]
			count, err := strconv.Atoi(strings.TrimSpace(value))
			w.Must(err)
			n += count
		}
	}
	return n
}
