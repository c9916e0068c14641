//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// What shows that nothing was logged must see what is: here the API server refuses the label that confrev puts on a source.
func TestErrorsLoggedAreSeen(t *testing.T) {
	t.Parallel()
	w, _ := deployed(t)
	if lines := errorsLogged(t, w.NS); len(lines) > 0 {
		t.Errorf("before there is a reason, confrev logged: %s", lines[0])
	}
	w.refuseConfrev(refusalOf("configmaps, deployments"), "web", "not this one")
	w.Create(configMap("other", "color", "A"), deployment("other", envFrom("other")))
	w.Eventually("the error is logged", func() string {
		if lines := errorsLogged(t, w.NS); len(lines) == 0 {
			return "nothing logged"
		}
		return ""
	})
}

// A change that a policy keeps confrev from writing is said on the workload, without the policy's words, and is written once it may be.
func TestARefusedWriteIsSaid(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.refuseConfrev(refusalOf("deployments"), "web", "not this one")
	w.Edit("web", "color", "B")
	w.WaitEvent("WriteRefused", "web", fmt.Sprintf("deployment %s/web cannot be changed: deployments.apps \"web\" is forbidden: "+
		"ValidatingAdmissionPolicy 'refuse-in-%[1]s' with binding 'refuse-in-%[1]s' denied request; it stays as it is", w.NS))
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("the pin moved to %s", got)
	}
	if lines := errorsLogged(t, w.NS); len(lines) > 0 {
		t.Errorf("confrev also logged: %s", lines[0])
	}
	w.Kubectl("delete", "validatingadmissionpolicybinding", "refuse-in-"+w.NS)
	w.WaitPinned("web", "web", "color", "B")
}

// A change to a revision that a policy keeps confrev from writing is said on the workload that is about to be pinned to it (rules 5 and 12).
func TestARefusedChangeToARevisionIsSaid(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.Edit("web", "color", "B")
	b := w.WaitPinned("web", "web", "color", "B")
	w.refuseConfrev(refusalOf("configmaps, deployments"), "web", "not this one")
	w.Edit("web", "color", "A")
	w.WaitEvent("WriteRefused", "web", fmt.Sprintf("ConfigMap %s/%s cannot be changed: ", w.NS, a.Revision))
	if got := w.PinOf("web", "web"); got != b {
		t.Errorf("the pin moved to %s", got)
	}
	w.Kubectl("delete", "validatingadmissionpolicybinding", "refuse-in-"+w.NS)
	w.Within(time.Minute+patience, "the change is taken", func() string {
		if now := w.PinOf("web", "web"); now.Revision != a.Revision {
			return "pinned to " + now.String()
		}
		return ""
	})
}

// applyForTest applies what is written for a NAMESPACE, and deletes it when the test ends.
func (w *world) applyForTest(text string) {
	w.Helper()
	text = strings.ReplaceAll(text, "NAMESPACE", w.NS)
	w.KubectlIn(text, "apply", "-f", "-")
	w.Cleanup(func() {
		if _, err := cluster.Run(context.Background(), text, "kubectl", "--namespace", w.NS, "delete", "--ignore-not-found", "-f", "-"); err != nil {
			w.Error(err)
		}
	})
}

// refuseConfrev applies a policy, and waits until it refuses with these words what confrev writes to a Deployment: the API server takes
// up a new policy when it gets to it. The note is one that nothing else refuses to confrev's account.
func (w *world) refuseConfrev(policy, deployment, words string) {
	w.Helper()
	w.applyForTest(policy)
	w.Eventually("the policy is at work", func() string {
		_, err := cluster.Kubectl(w.Ctx, "--namespace", w.NS, "--as", "system:serviceaccount:"+env.Namespace+":confrev",
			"annotate", "deployment/"+deployment, keys.Held+"=x", "--overwrite", "--dry-run=server")
		if !strings.Contains(errorText(err), words) {
			return "it is let through: " + errorText(err)
		}
		return ""
	})
}

// refusalOf returns a policy that keeps confrev from changing these resources of a namespace.
func refusalOf(resources string) string { return strings.Replace(refusal, "RESOURCES", resources, 1) }

const refusal = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: refuse-in-NAMESPACE}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: ["", apps], apiVersions: [v1], resources: [RESOURCES], operations: [UPDATE]}
  validations:
  - expression: 'request.userInfo.username != "system:serviceaccount:confrev-system:confrev"'
    message: not this one
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: refuse-in-NAMESPACE}
spec:
  policyName: refuse-in-NAMESPACE
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}
`

// errorsLogged returns the lines in which confrev logged an error about a namespace.
func errorsLogged(t *testing.T, namespace string) []string {
	t.Helper()
	log, err := os.ReadFile(confrev.Log)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "level=ERROR") && strings.Contains(line, namespace) {
			lines = append(lines, line)
		}
	}
	return lines
}

const manifest = `
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {color: A}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {confrev.io/track: all}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: app
        image: app:1
        envFrom: [{configMapRef: {name: web}}]
`

// The user's own manifest goes in again and again: no conflict, no drift, and no rollout.
func TestApplyingTheSameManifestAgainChangesNothing(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"client-side": {"apply", "-f", "-"},
		"server-side": {"apply", "--server-side", "--field-manager=user", "-f", "-"},
	}
	for name, apply := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.KubectlIn(manifest, apply...)
			w.WaitPinned("web", "web", "color", "A")
			b := strings.ReplaceAll(manifest, "color: A", "color: B")
			w.KubectlIn(b, apply...)
			pinned := w.WaitPinned("web", "web", "color", "B")
			generation := w.Deployment("web").Generation

			w.KubectlIn(b, apply...)
			w.noDiff(b, apply)
			w.Barrier()
			if d := w.Deployment("web"); d.Generation != generation || w.PinOf("web", "web") != pinned {
				t.Errorf("applying again moved generation %d to %d and the pin from %s to %s",
					generation, d.Generation, pinned, w.PinOf("web", "web"))
			}

			w.Undo("web")
			w.WaitHeld("web", "web")
			held := w.PinOf("web", "web")
			w.Eventually("the undo is rolled out", func() string { return w.NotRolledOut("web") })
			w.KubectlIn(b, apply...)
			w.noDiff(b, apply)
			w.Barrier()
			if got := w.PinOf("web", "web"); got != held {
				t.Errorf("applying while held moved the pin from %s to %s", held, got)
			}
		})
	}
}

// noDiff fails if `kubectl diff` shows a difference: it exits with 1 then.
func (w *world) noDiff(manifest string, apply []string) {
	w.Helper()
	args := append([]string{"diff"}, apply[1:]...)
	found := w.whileUnwritten(func() string {
		out, err := cluster.Run(w.Ctx, manifest, "kubectl", append([]string{"--namespace", w.NS}, args...)...)
		if err != nil {
			return err.Error() + "\n" + out
		}
		return ""
	})
	if found != "" {
		w.Errorf("kubectl diff: %s", found)
	}
}

// replace runs `kubectl replace`, as often as a user must: it reads the object first, and fails when a controller writes
// its status in between.
func (w *world) replace(manifest string) {
	w.Helper()
	w.Eventually("kubectl replace", func() string {
		_, err := cluster.Run(w.Ctx, manifest, "kubectl", "--namespace", w.NS, "replace", "-f", "-")
		if err == nil {
			return ""
		}
		if !strings.Contains(err.Error(), "the object has been modified") {
			w.Fatal(err)
		}
		return err.Error()
	})
}

// kubectl replace removes all that the manifest does not mention.
func TestWhatReplaceRemovesComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.KubectlIn(manifest, "create", "-f", "-")
	a := w.WaitPinned("web", "web", "color", "A")
	w.replace(manifest)
	w.Eventually("pin and label are back", func() string {
		if got := w.PinOf("web", "web"); got != a {
			return "the pin is " + got.String()
		}
		if got := w.Kubectl("get", "configmap", "web", "-o", `jsonpath={.metadata.labels.confrev\.io/source}`); got != "web" {
			return "the label is " + got
		}
		return ""
	})
	// While held, what comes back is what it was held on (rule 4).
	b := strings.ReplaceAll(manifest, "color: A", "color: B")
	w.replace(b)
	w.WaitPinned("web", "web", "color", "B")
	// Not the one before: that is the template as replace left it for a moment, without a pin.
	w.Undo("web", "--to-revision="+w.rolloutRevision("web", a))
	w.Eventually("the undo is through", func() string {
		if got := w.PinOf("web", "web"); got != a {
			return "the pin is " + got.String()
		}
		return w.NotRolledOut("web")
	})
	w.WaitHeld("web", "web")
	w.replace(b)
	w.Barrier()
	if got := w.PinOf("web", "web"); got != a {
		t.Errorf("replacing a held Deployment moved it to %s, want %s", got, a)
	}
	if note := w.Deployment("web").Annotations[keys.Held]; note == "" {
		t.Error("the note of the hold did not come back")
	}
}

// kubectl replace sends no UID. A Deployment that follows what it owns keeps its pins nevertheless, within the same request (rule 18).
func TestAReplaceKeepsThePinsOfOwnedSources(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owning := strings.ReplaceAll(manifest, "confrev.io/track: all", `confrev.io/owners: "true"`)
	w.KubectlIn(owning, "create", "-f", "-")
	w.Kubectl("patch", "configmap", "web", "--type=merge", "-p", fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":%q}]}}`, w.Deployment("web").UID))
	a := w.WaitPinned("web", "web", "color", "A")
	w.Eventually("the pin is rolled out", func() string { return w.NotRolledOut("web") })
	before := len(w.ReplicaSets("web"))
	// The ConfigMap would lose its owner.
	_, workload, _ := strings.Cut(owning, "---\n")
	w.replace(workload)
	if got := w.PinsText("web"); got != "configmap/web="+a.String() {
		t.Errorf("the pins are %q, want %s", got, a)
	}
	w.Barrier()
	if got := len(w.ReplicaSets("web")); got != before {
		t.Errorf("there are %d ReplicaSets, want %d", got, before)
	}
}

// An autoscaler changes the same object all the time.
func TestScalingDuringAnAdvanceConflictsWithNothing(t *testing.T) {
	t.Parallel()
	w, _ := deployed(t)
	w.Edit("web", "color", "B")
	for i := range 30 {
		w.Kubectl("scale", "deployment/web", "--replicas", []string{"1", "2", "3"}[i%3])
	}
	w.WaitPinned("web", "web", "color", "B")
	if lines := errorsLogged(t, w.NS); len(lines) > 0 {
		t.Errorf("logged: %s", lines[0])
	}
	if w.Deployment("web").Spec.Replicas == nil || *w.Deployment("web").Spec.Replicas != 3 {
		t.Error("confrev changed the replicas")
	}
}

// The least rights: what the chart grants with Secrets enabled, and nothing about pods.
func TestRightsOfTheChart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := map[string]struct {
		verb, resource, namespace string
		want                      bool
	}{
		"may watch ConfigMaps":                   {"watch", "configmaps", w.NS, true},
		"may patch Deployments":                  {"patch", "deployments.apps", w.NS, true},
		"may not update Deployments as a whole":  {"update", "deployments.apps", w.NS, false},
		"may not delete Deployments":             {"delete", "deployments.apps", w.NS, false},
		"may not write Jobs":                     {"patch", "jobs.batch", w.NS, false},
		"may not write ControllerRevisions":      {"patch", "controllerrevisions.apps", w.NS, false},
		"may not write namespaces":               {"patch", "namespaces", w.NS, false},
		"may not create pods":                    {"create", "pods", w.NS, false},
		"may not write ReplicaSets":              {"patch", "replicasets.apps", w.NS, false},
		"may not write leases outside its own":   {"update", "leases.coordination.k8s.io", w.NS, false},
		"may not change roles":                   {"update", "clusterroles.rbac.authorization.k8s.io", w.NS, false},
		"may not touch its own admission policy": {"update", "mutatingadmissionpolicies.admissionregistration.k8s.io", w.NS, false},
		"may not impersonate":                    {"impersonate", "users", w.NS, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := cluster.Kubectl(w.Ctx, "auth", "can-i", tt.verb, tt.resource, "--namespace", tt.namespace,
				"--as", "system:serviceaccount:confrev-system:confrev")
			answer := strings.TrimSpace(out)
			if answer != "yes" && answer != "no" {
				t.Fatalf("kubectl auth can-i: %q, %v", out, err)
			}
			if got := answer == "yes"; got != tt.want {
				t.Errorf("can %s %s: %s", tt.verb, tt.resource, answer)
			}
		})
	}
}
