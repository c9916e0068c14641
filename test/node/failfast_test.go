//go:build node

package node

import (
	"testing"
	"time"

	"confrev.io/confrev/internal/keys"
)

// Rules 41 and 42: a content with which containers really crash is rolled back before any deadline, and every pod has the content before again,
// also where the controller does not replace a pod that crashes.
func TestACrashIsUndone(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]kind{
		"Deployment":  deployment.with(3, fields{"replicas": int64(3)}),
		"StatefulSet": statefulSet.with(2, fields{"podManagementPolicy": "OrderedReady"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			source := configMap("app", "mode", "blue")
			source.Annotations = map[string]string{keys.OnFailure: "undo-all", keys.Bake: "1h"}
			w.Create(source)
			first := w.deploy(k, probe(byEnv("configmap/app", "mode")))
			edited := time.Now()
			w.Edit("app", "mode", "crash")
			w.WaitEvent("ChangeFailed", web, "revision 2 of configmap/app failed: container app crashed")
			pods := w.waitGenerations(generations{first: k.pods})[first]
			w.waitRolledOut(k)
			t.Logf("%.1f s from the edit until every pod has the content before", time.Since(edited).Seconds())
			for _, pod := range pods {
				w.checkReading("after the undo", w.startedWith(pod), reading{Env: map[string]string{"CFG_ENV_mode": "blue"}, Files: map[string]string{}})
			}
		})
	}
}
