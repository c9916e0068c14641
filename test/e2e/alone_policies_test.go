//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// Without guards, and for those that a value of the chart exempts, all is as if there were none: what they do is repaired
// (rule 9). Not parallel.
func TestGuardsCanBeTurnedOff(t *testing.T) {
	reinstallAfter(t)
	w, a := deployed(t)
	w.WaitOwned(a.Revision, "web")
	ana := w.tenant()
	remove := []string{"delete", "configmap", a.Revision, "--dry-run=server"}
	allowed := func() string {
		_, err := ana.run(remove...)
		return errorText(err)
	}
	w.Must(reinstall(t, "guards.exemptUsers[0]="+ana.name))
	w.Eventually("the exempted may delete it", allowed)
	_, err := cluster.Kubectl(w.Ctx, append([]string{"--namespace", w.NS}, remove...)...)
	w.refused(err, "is a revision of configmap/web in use", "the cluster's admin, who is not exempted")

	w.Must(reinstall(t, "guards.enabled=false"))
	w.Eventually("anyone may delete it", func() string {
		_, err := cluster.Kubectl(w.Ctx, append([]string{"--namespace", w.NS}, remove...)...)
		return errorText(err) + allowed()
	})
	ana.may("delete", "configmap", a.Revision)
	w.WaitEvent("RevisionRecreated", "web", a.Revision)

	w.Must(reinstall(t))
	w.Eventually("it is guarded again", func() string {
		if said := allowed(); !strings.Contains(said, "is a revision of configmap/web in use") {
			return "not refused: " + said
		}
		return ""
	})
}

// Another webhook that acts within confrev's own request makes the policy refuse it: confrev says which field, and the next deploy
// is pinned nevertheless. Where the chart tolerates the field, nothing is refused. Not parallel.
func TestForeignMutationOfConfrevsRequestIsReported(t *testing.T) {
	onlyWithPolicies(t)
	const canary = "canary-of-the-confined"
	w, a := deployed(t, canaried(canary))
	confinedOnPurpose = w.NS
	mutator := `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: ` + w.NS + `}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ` + w.NS + `}}
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [UPDATE]}]
  matchConditions:
  - {name: confrev, expression: "request.userInfo.username == 'system:serviceaccount:` + env.Namespace + `:confrev'"}
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/spec/minReadySeconds', value: 7}]"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: ` + w.NS + `}
spec: {policyName: ` + w.NS + `}
`
	reinstallAfter(t)
	w.applyForTest(mutator)
	c, web := thief(t), deployment("web")
	w.Eventually("the other policy acts", func() string {
		w.Must(w.Get("web", web))
		err := c.Patch(w.Ctx, web, client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/annotations/confrev.io~1held","value":"x"}]`)), client.DryRunAll)
		if !strings.Contains(errorText(err), "confrev may not change spec.minReadySeconds") {
			return "not refused: " + errorText(err)
		}
		return ""
	})
	w.Edit("web", "color", "B")
	w.WaitEvent(revision.ConfinementRefused, "web", "confrev may not change spec.minReadySeconds")
	w.tellsNothing(confrev, revision.ConfinementRefused, canary)
	if now := w.PinOf("web", "web"); now != a {
		t.Errorf("pinned to %s despite the refusal", now)
	}
	w.Kubectl("set", "image", "deployment/web", "*=app:2")
	b := w.WaitPinned("web", "web", "color", "B")

	w.Must(reinstall(t, "selfConfinement.tolerate[0]=spec.minReadySeconds"))
	w.Edit("web", "color", "C")
	if c := w.WaitPinned("web", "web", "color", "C"); c == b {
		t.Errorf("still on %s", c)
	}
}

// Pins need no policies when they are in the template.
func TestInjectionIntoTheTemplateNeedsNoPolicies(t *testing.T) {
	stop(t)
	reinstallAfter(t)
	w := newWorld(t)
	w.removePodAdmission()
	w.Must(confrev.Launch())
	w.Create(configMap("web", "color", "A"), deployment("web", envFrom("web"), injecting(optin.Template)))
	a := w.WaitPinned("web", "web", "color", "A")
	w.waitTemplateNames(a.Revision)
	w.podsRead(a.Revision)
	w.Must(reinstall(t))
	w.Must(confrev.WaitReady(w.Ctx))
}

// Without --secrets, confrev neither may nor does anything with Secrets; where restartOn lists something, it keys what it publishes of
// that (rule 22). Not parallel.
func TestWithoutSecretsConfrevHasNoRightOnThem(t *testing.T) {
	stop(t)
	reinstallAfter(t)
	w := newWorld(t)
	account := "system:serviceaccount:" + env.Namespace + ":confrev"
	// What authorizes requests sees the chart's roles a little later.
	may := func(verb, want string) {
		t.Helper()
		w.Eventually("may confrev "+verb+" Secrets: "+want, func() string {
			if out, err := cluster.Kubectl(w.Ctx, "auth", "can-i", verb, "secrets", "--all-namespaces", "--as", account); strings.TrimSpace(out) != want {
				return out + errorText(err)
			}
			return ""
		})
	}
	w.Must(reinstall(t, "secrets.enabled=false", "restartOn=null"))
	// Nothing is to be keyed.
	may("create", "no")
	w.Must(reinstall(t, "secrets.enabled=false"))
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		want := "no"
		if verb == "create" {
			// RBAC cannot limit it to a name. The policy does.
			want = "yes"
		}
		may(verb, want)
	}
	made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "web-bcdfghjklm", Labels: map[string]string{
		keys.Content: "k1-abcdefg-" + strings.Repeat("a", 52)}, Annotations: map[string]string{keys.SourceName: "web"}}, Immutable: new(true)}
	w.refused(thief(t).Create(w.Ctx, made, client.DryRunAll), "confrev may not create what is neither a revision nor its anchor or key")
	mark := auditMark(t)
	limited, err := cluster.Confrev(w.Ctx, "without-secrets", binary, "--settle", settle.String(), "--grace", grace.String(),
		"--restart-on", "persistentvolumeclaims")
	w.Must(err)
	w.Must(limited.Start(w.Ctx))
	defer func() { w.Must(limited.Stop()) }()

	const canary = "canary-of-a-secret"
	w.Create(configMap("web", "k", "v"), secret("web", corev1.SecretTypeOpaque, "k", canary))
	w.Create(deployment("web", gen.Tracking("configmap/web,secret/web"), envFrom("web"), secretVolume("web"), canaried(canary)))
	w.Create(deployment("all", envFrom("web"), secretVolume("web")))
	revision := w.WaitPinned("web", "web", "k", "v").Revision
	w.WaitPinned("all", "web", "k", "v")
	w.WaitEvent("KindNotEnabled", "web", "lists a Secret; this confrev runs without --secrets")
	w.tellsNothing(limited, "KindNotEnabled", canary)
	w.Barrier()
	w.podsRead(revision + "+web")
	for _, name := range []string{"web", "all"} {
		if got := w.Pins(name).Sources(); len(got) != 1 {
			t.Errorf("%s is pinned to %v", name, got)
		}
	}
	if err := w.Get(keys.KeySecret, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("nothing is keyed, and there is a key: %v", err)
	}
	w.Create(deployment("claims", gen.Untracked, gen.Annotated(keys.RestartOn, "persistentvolumeclaims.v1/data")), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}})
	w.Eventually("it is keyed", func() string {
		if noted := w.hashes("claims") + w.Deployment("claims").Annotations[keys.Hashes]; !strings.Contains(noted, "=k1-") {
			return noted
		}
		return ""
	})
	requests, err := cluster.ConfrevRequests(mark)
	w.Must(err)
	for _, r := range requests {
		// The authority of its webhooks' certificates is confrev's own.
		if r.Object.Resource == "secrets" && r.Object.Name != "confrev-webhook-ca" && r.Object.Name != keys.KeySecret {
			t.Errorf("confrev asked: %s", r)
		}
	}
}

// Disabling Secrets rolls out nothing, and pins stay. Enabling them rolls out what tracks all and uses a Secret. Not parallel.
func TestSecretsAreDisabledAndEnabled(t *testing.T) {
	w := newWorld(t)
	pinned := func(name string) {
		t.Helper()
		w.Eventually(name+" is pinned", func() string {
			if w.PinsText(name) == "" {
				return "no pin"
			}
			return w.NotRolledOut(name)
		})
	}
	w.Create(secret("web", corev1.SecretTypeOpaque, "k", "v"), deployment("before", secretVolume("web")))
	pinned("before")
	pins, generation := w.PinsText("before"), w.Deployment("before").Generation
	stop(t)
	without, err := cluster.Confrev(w.Ctx, "secrets-disabled", binary, "--settle", settle.String(), "--grace", grace.String())
	w.Must(err)
	w.Must(without.Start(w.Ctx))
	t.Cleanup(func() {
		if !without.Ended() {
			w.Must(without.Kill())
		}
	})
	w.Create(deployment("meanwhile", secretVolume("web")))
	w.Barrier()
	if got := w.PinsText("meanwhile"); got != "" {
		t.Errorf("without Secrets, it is pinned to %s", got)
	}
	w.Must(without.Stop())
	start(t)
	pinned("meanwhile")
	w.Barrier()
	if got := w.Deployment("meanwhile").Generation; got != 2 {
		t.Errorf("enabling Secrets made generation %d, want one rollout", got)
	}
	if got, now := w.PinsText("before"), w.Deployment("before").Generation; got != pins || now != generation {
		t.Errorf("disabled and enabled, it is pinned to %s in generation %d, want %s in %d", got, now, pins, generation)
	}
}
