//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/spread"
)

// pairs is how many pairs of namespaces the confrev under test lists as stages. Each test takes one.
const pairs = 8

var pairsTaken atomic.Int32

// stageNames returns the names of a pair of namespaces, of which the second may come after the first.
func stageNames(pair int) (earlier, later string) {
	return fmt.Sprintf("e2e-stage-%d-test", pair), fmt.Sprintf("e2e-stage-%d-prod", pair)
}

// listStages returns the pairs in the form of the flag.
func listStages() string {
	var all []string
	for pair := range pairs {
		earlier, later := stageNames(pair)
		all = append(all, later+"="+earlier)
	}
	return strings.Join(all, ",")
}

// stageValues returns the pairs as values of the chart.
func stageValues() []string {
	var all []string
	for pair := range pairs {
		earlier, later := stageNames(pair)
		all = append(all, fmt.Sprintf("stages[%d].namespace=%s", pair, later), fmt.Sprintf("stages[%d].after=%s", pair, earlier))
	}
	return all
}

// newStages creates two namespaces of which the second may come after the first.
func newStages(t *testing.T) (earlier, later *world) {
	t.Helper()
	one, other := stageNames(int(pairsTaken.Add(1)-1) % pairs)
	worlds := [2]*world{}
	for i, name := range []string{one, other} {
		w := worldIn(t, name)
		w.Eventually("the namespace of an earlier run is gone", func() string {
			err := cluster.Client.Create(w.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
			if apierrors.IsAlreadyExists(err) {
				return err.Error()
			}
			w.Must(err)
			return ""
		})
		t.Cleanup(func() {
			// The test's own context has ended.
			if _, err := cluster.Kubectl(context.Background(), "delete", "namespace", name, "--wait=false"); err != nil {
				t.Error(err)
			}
		})
		worlds[i] = w
	}
	return worlds[0], worlds[1]
}

// comesAfter makes changes in a namespace wait for another one.
func (w *world) comesAfter(earlier *world) {
	w.Helper()
	w.Kubectl("annotate", "namespace", w.NS, keys.After+"="+earlier.NS, "--overwrite")
}

// staysAt checks that nothing has moved once confrev has seen everything.
func (w *world) staysAt(before pin.Pin, names ...string) {
	w.Helper()
	w.Barrier()
	if have := w.have(before, names...); len(have) > 0 {
		w.Fatalf("%v have the change already", have)
	}
}

// looksAgain makes confrev look at a change in which nothing happens, instead of after some seconds.
func (w *world) looksAgain(source string) {
	w.Helper()
	w.Kubectl("annotate", source, fmt.Sprintf("example.com/look=%d", time.Now().UnixNano()), "--overwrite")
}

// Rule 44: a change waits until the namespace before has vouched for the same content, also in a deploy. After that, nothing takes it back: neither
// what happens there, nor a restart.
func TestAChangeWaitsForTheStageBefore(t *testing.T) {
	t.Parallel()
	earlier, later := newStages(t)
	before := earlier.fleet(nil, "one", "two")
	later.comesAfter(earlier)
	later.fleet(map[string]string{keys.Steps: "1"}, "a", "b")
	later.Edit("shared", "color", "B")
	later.WaitEvent("WaitingToAdvance", "a", "configmap/shared")
	later.staysAt(before, "a", "b")
	if s := later.spreads(); s.After != earlier.NS || !strings.Contains(s.Message, "it waits until namespace "+earlier.NS+" has vouched for it") {
		t.Errorf("status says %+v", s)
	}
	later.Kubectl("set", "image", "deployment/b", "app=app:2")
	later.staysAt(before, "a", "b")

	// What is not rolled out completely proves nothing.
	end := earlier.noMorePods()
	earlier.Edit("shared", "color", "B")
	earlier.allHave(before, "one", "two")
	later.staysAt(before, "a", "b")
	full := later.noMorePods()
	end()
	later.allHave(before, "a")
	earlier.logs(confrev, "every workload has vouched for a change, for which other namespaces may wait\" controller=spread namespace="+earlier.NS+" source=configmap/shared")

	// The first namespace gets other content while the second is in the middle.
	earlier.Edit("shared", "color", "C")
	earlier.WaitPinned("one", "shared", "color", "C")
	later.staysAt(before, "b")
	full()
	later.WaitPinned("b", "shared", "color", "B")

	// The next change waits again. It does not have to be seen by both at the same time: C was proven long ago when it arrives.
	earlier.areRolledOut("one", "two")
	later.Edit("shared", "color", "C")
	later.WaitPinned("b", "shared", "color", "C")
}

// Rule 44: content that differs, as it does between environments, and all Secrets, wait for the same version.
func TestAChangeWaitsForItsVersion(t *testing.T) {
	t.Parallel()
	earlier, later := newStages(t)
	secret := func(version, value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db", Annotations: map[string]string{keys.Version: version}},
			StringData: map[string]string{"password": value}}
	}
	later.comesAfter(earlier)
	for w, value := range map[*world]string{earlier: "test-1", later: "prod-1"} {
		w.Create(secret("1", value), deployment("web", secretVolume("db")))
		w.Eventually("pinned", func() string { return w.unpinned("web", "secret/db=", "@1") })
		w.areRolledOut("web")
	}
	update := func(w *world, version, value string) {
		w.Kubectl("patch", "secret", "db", "--type=merge", "-p", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"stringData":{"password":%q}}`, keys.Version, version, value))
	}
	update(later, "2", "same-2")
	later.WaitEvent("WaitingToAdvance", "web", "secret/db")
	// The same content with another version is not the same change: from the one, no one must learn what the other contains.
	update(earlier, "3", "same-2")
	earlier.Eventually("it has the content", func() string { return earlier.unpinned("web", "secret/db=", "@2") })
	earlier.areRolledOut("web")
	earlier.Eventually("its revision notes that it was vouched for", func() string {
		list := &corev1.SecretList{}
		earlier.Must(cluster.Client.List(earlier.Ctx, list, client.InNamespace(earlier.NS), client.MatchingLabels{keys.Source: "db"}))
		for _, s := range list.Items {
			if r, ok := spread.ParseRecord(s.Annotations[keys.Propagation]); ok && r.Complete && r.Version == "3" {
				return ""
			}
		}
		return "none does"
	})
	later.looksAgain("secret/db")
	later.Barrier()
	if why := later.unpinned("web", "secret/db=", "@1"); why != "" {
		t.Fatal(why)
	}
	update(earlier, "2", "test-2")
	later.Eventually("it has the change", func() string { return later.unpinned("web", "secret/db=", "@2") })
}

// Rule 44: a person lets a change begin, and a source can be an exception. A person stops all of it.
func TestAPersonLetsAChangePastItsStage(t *testing.T) {
	t.Parallel()
	earlier, later := newStages(t)
	later.comesAfter(earlier)
	before := later.fleet(nil, "a", "b")
	later.Edit("shared", "color", "B")
	later.WaitEvent("WaitingToAdvance", "a", "configmap/shared")
	later.confrev("advance", "deployment/a").ends(0)
	later.WaitPinned("a", "shared", "color", "B")
	later.staysAt(before, "b")
	later.confrev("stop", "configmap/shared").ends(0)
	later.confrev("advance", "configmap/shared", "--past-stage").fails(1, "is stopped")
	later.confrev("resume", "configmap/shared").ends(0)
	later.confrev("advance", "deployment/a", "--past-stage").fails(1, "--past-stage is for a source")
	later.confrev("advance", "configmap/shared", "--past-stage", "--past-wave=1").fails(1, "none of the others can be")
	later.confrev("advance", "configmap/shared", "--past-stage").ends(0, "does not wait for namespace "+earlier.NS)
	later.WaitPinned("b", "shared", "color", "B")
	later.confrev("advance", "configmap/shared", "--past-stage").ends(0, "does not wait for another namespace")
	later.Kubectl("annotate", "configmap/shared", keys.After+"=none")
	later.Edit("shared", "color", "C")
	later.WaitPinned("a", "shared", "color", "C")
}

// Rule 44: only the operator of confrev lets a namespace come after another one. What cannot be read lets nothing advance, and is said.
func TestAStageThatIsNotListed(t *testing.T) {
	t.Parallel()
	earlier, later := newStages(t)
	before := later.fleet(nil, "a")
	earlier.fleet(nil, "a")
	later.Kubectl("annotate", "namespace", later.NS, keys.After+"=kube-public")
	later.WaitEvent("InvalidSpreading", "a", later.NS+` may not come after namespace "kube-public": the chart value stages does not list this pair`)
	later.Edit("shared", "color", "B")
	// Nothing at all advances in this namespace.
	newWorld(t).Barrier()
	if have := later.have(before, "a"); len(have) > 0 {
		t.Errorf("%v have the change", have)
	}
	// It does not work the other way round.
	earlier.comesAfter(later)
	earlier.WaitEvent("InvalidSpreading", "a", "the chart value stages does not list this pair")
	earlier.Kubectl("annotate", "namespace", earlier.NS, keys.After+"-")
	later.Kubectl("annotate", "namespace", later.NS, keys.After+"-")
	later.WaitPinned("a", "shared", "color", "B")
	// An object has only one event of a reason, so each mistake gets a Deployment of its own.
	later.Kubectl("annotate", "configmap/shared", keys.After+"="+earlier.NS)
	later.Create(deployment("b", envFrom("shared")))
	later.WaitEvent("InvalidSpreading", "b", "is not known on a source: want none")
	later.Kubectl("annotate", "configmap/shared", keys.After+"-", keys.Version+"= ")
	later.Create(deployment("c", envFrom("shared")))
	later.WaitEvent("InvalidSpreading", "c", "want 1 to 128 characters")
}

// Rule 44: a record that was copied, forged or left by other content lets nothing begin.
func TestAForgedRecordLetsNothingBegin(t *testing.T) {
	t.Parallel()
	earlier, later := newStages(t)
	earlier.fleet(nil, "a")
	later.comesAfter(earlier)
	before := later.fleet(nil, "a")
	later.Edit("shared", "color", "B")
	later.WaitEvent("WaitingToAdvance", "a", "configmap/shared")
	source := &corev1.ConfigMap{}
	earlier.Must(earlier.Get("shared", source))
	// What the revision of that content will be called is known, and its record must not be prepared.
	name := trueName("shared", "color", "B")
	forged := forged(name, "shared", hashOf("color", "B"), map[string]string{
		keys.Number: "2", keys.Propagation: `{"revision":"x","number":2,"wave":0,"complete":true,"version":"2"}`}, "color", "B")
	// Without an owner, confrev would delete it in the middle of this.
	forged.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: source.Name, UID: source.UID}}
	earlier.Create(forged)
	later.looksAgain("configmap/shared")
	later.staysAt(before, "a")
	record := fmt.Sprintf(`{"revision":%q,"number":2,"wave":0,"complete":true}`, forged.UID)
	got := earlier.runIn("", "", "kubectl", "annotate", "--overwrite", "configmap/"+name, keys.Propagation+"="+record)
	if got.status == 0 || !strings.Contains(got.stderr, "only confrev changes its labels and annotations") {
		t.Errorf("a record is written by hand: %+v", got)
	}
	later.looksAgain("configmap/shared")
	later.staysAt(before, "a")
	if earlier.Gone(name) {
		t.Error("what was forged is gone: this test shows nothing")
	}
}
