//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// notDriven are the warnings that no namespace can bring about by itself, and the tests that search them for values (tellsNothing).
var notDriven = map[string]string{
	"ChangesTooOften":    "TestASourceThatChangesTooOftenIsNotCopied, since the confrev under test has bounds that no test reaches",
	"KindNotEnabled":     "TestWithoutSecretsConfrevHasNoRightOnThem, since the confrev under test runs with --secrets",
	"ConfinementRefused": "TestForeignMutationOfConfrevsRequestIsReported, since no other may let confrev try what its own account may not",
	"Reverted":           "workloadThatIsReverted, since it does not happen as long as the webhook answers",
	"KeyLost":            "TestALostKeyRollsNothing, since guards let no one delete a key",
	"KeyUnreadable":      "TestASecretThatIsNoKeyIsReported, since this namespace has a key",
	"RestartOnDelayed":   "none, since the API server lists all that it can read here; what is said has only the name of a kind",
	"PoliciesNotReady":   "TestNothingIsPinnedWhileAPolicyIsMissing, since it takes the chart's policies away",
}

// Rule 19: no value of any object is in what confrev and its plugin say, whatever goes wrong.
func TestNoValueIsEverRepeated(t *testing.T) {
	t.Parallel()
	mark := auditMark(t)
	logged, err := os.Stat(confrev.Log)
	if err != nil {
		t.Fatal(err)
	}
	a := newAviary(newWorld(t))
	a.plantSources()
	a.driveKeys()
	a.driveRestartOn()
	a.driveReferences()
	a.driveForgeries()
	a.driveOtherKinds()
	a.driveRefusals()
	a.driveLosses()
	a.waitSaid()
	a.Barrier()
	a.drivePlugin()
	a.checkDriven()
	a.collect(int(logged.Size()), mark)
	hits := a.search()
	t.Logf("planted %d, error paths driven %d, sinks searched %d, hits %d", len(a.planted), len(a.driven), len(a.sinks), hits)
}

// add creates objects as a user does. What the API server says to them is a sink.
func (a *aviary) add(objects ...client.Object) {
	a.Helper()
	for _, obj := range objects {
		obj.SetNamespace(a.NS)
		if err := a.door.Create(a.Ctx, obj); err != nil {
			a.Fatalf("%s: %v", obj.GetName(), err)
		}
	}
}

// said names the event that an error path ends in.
func (a *aviary) said(reason, on string) { a.driven = append(a.driven, reason+" on "+on) }

// saidNow waits for it.
func (a *aviary) saidNow(reason, on string) {
	a.Helper()
	a.WaitEvent(reason, on, "")
	a.said(reason, on)
}

// waitSaid waits for all the events that error paths end in.
func (a *aviary) waitSaid() {
	a.Helper()
	missing := a.Poll(a.Patience, func() string {
		all := &eventsv1.EventList{}
		a.List(all)
		said := map[string]bool{}
		for _, e := range all.Items {
			said[e.Reason+" on "+e.Regarding.Name] = true
		}
		var missing []string
		for _, what := range a.driven {
			if strings.Contains(what, " on ") && !said[what] {
				missing = append(missing, what)
			}
		}
		return strings.Join(missing, ", ")
	})
	if missing != "" {
		a.Errorf("no event %s", missing)
	}
}

// silent notes an error path that ends in no warning.
func (a *aviary) silent(what string) { a.driven = append(a.driven, what) }

// plantSources makes the sources that most workloads use, and plants canaries in their metadata too.
func (a *aviary) plantSources() {
	a.Helper()
	a.Kubectl("annotate", "namespace", a.NS, "example.com/note="+a.plant(inMetadata, "namespace"))
	conf := configMap("conf", "k", a.plant(inConfigMap, "conf"))
	conf.BinaryData = map[string][]byte{"b": []byte("\xff" + a.plant(inConfigMap, "binaryData of conf"))}
	cred := secret("cred", corev1.SecretTypeOpaque, "k", a.plant(inSecret, "cred"))
	for _, obj := range []client.Object{conf, cred} {
		obj.SetAnnotations(map[string]string{
			"example.com/note": a.plant(inMetadata, obj.GetName()), keys.ChangeCause: a.plant(inCause, obj.GetName()),
			corev1.LastAppliedConfigAnnotation: `{"data":{"k":"` + a.plant(inMetadata, "last applied "+obj.GetName()) + `"}}`,
		})
		obj.SetLabels(map[string]string{"example.com/label": a.plantText(inLabel, "label of "+obj.GetName(), ".")})
	}
	a.add(conf, cred)
}

// web makes a Deployment that uses the sources and has canaries wherever a template takes text.
func (a *aviary) web(name string, options ...deploymentOption) *appsv1.Deployment {
	standard := []deploymentOption{gen.Replicas(0), envFrom("conf"), secretVolume("cred"), func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Env = []corev1.EnvVar{{Name: "PASSWORD", Value: a.plant(inWorkload, name+"'s env")}}
		c.Args = []string{a.plant(inWorkload, name+"'s args")}
		d.Annotations["example.com/note"] = a.plant(inWorkload, name+"'s annotation")
		d.Spec.Template.Annotations = map[string]string{"example.com/note": a.plant(inWorkload, name+"'s template")}
	}}
	return deployment(name, append(standard, options...)...)
}

func inTemplate(key, value string) deploymentOption {
	return func(d *appsv1.Deployment) { d.Spec.Template.Annotations[key] = value }
}

// driveKeys writes nonsense under every key of confrev: on a workload, on its template, and on a source.
func (a *aviary) driveKeys() {
	a.Helper()
	onWorkload := map[string]string{
		keys.Track: "InvalidTrack", keys.Mode: "InvalidMode", keys.Injection: "InvalidMode", keys.Advance: "InvalidAdvance",
		keys.Settle: "InvalidSettle", keys.RotateBy: "InvalidMode", keys.RestartOn: "InvalidRestartOn",
		keys.FreezeUntil: "InvalidFreeze", keys.Window: "InvalidWindow", keys.Deploys: "InvalidDeploys",
		keys.Wave: "InvalidSpreading", keys.Deadline: "InvalidSpreading", keys.Crashes: "InvalidSpreading", keys.Analysis: "InvalidSpreading",
		keys.Policy: "UnknownAnnotation",
	}
	onSource := map[string]string{
		keys.Policy: "InvalidMode", keys.Advance: "InvalidAdvance", keys.FreezeUntil: "InvalidFreeze", keys.Window: "InvalidWindow",
		keys.Deploys: "InvalidDeploys", keys.Safety: "InvalidSpreading", keys.Steps: "InvalidSpreading", keys.MaxRolling: "InvalidSpreading",
		keys.Bake: "InvalidSpreading", keys.Passed: "InvalidSpreading", keys.OnFailure: "InvalidSpreading", keys.StopAfter: "InvalidSpreading",
		keys.Resume: "InvalidSpreading", keys.Wave: "UnknownAnnotation",
	}
	type awaited struct{ reason, on, what string }
	var all []awaited
	for i, key := range declaredKeys(a.T) {
		workload, template, source := "workload-"+strconv.Itoa(i), "template-"+strconv.Itoa(i), "source-"+strconv.Itoa(i)
		odd := configMap(source, "k", a.plant(inConfigMap, source))
		odd.Annotations = map[string]string{key: a.item(key, source)}
		if key == keys.ChangeCause {
			odd.Annotations[key] = a.plant(inCause, source)
		}
		a.add(a.web(workload, gen.Annotated(key, a.item(key, workload))), odd,
			a.web(template, inTemplate(key, a.item(key, template)), envFrom(source)))
		all = append(all, awaited{onWorkload[key], workload, key}, awaited{"", template, key}, awaited{onSource[key], template, key})
	}
	compat := "reloader.stakater.com/auto"
	a.add(a.web("compat", gen.Annotated(compat, a.item(compat, "compat")), gen.Untracked))
	// The webhook takes nonsense out of templates as long as it is asked, which it is not about what the namespace opts in.
	a.add(a.web("pins", gen.Untracked, inTemplate(keys.Pins, a.item(keys.Pins, "pins"))),
		a.web("hashes", gen.Untracked, gen.Annotated(keys.Mode, "restart"), inTemplate(keys.Hashes, a.item(keys.Hashes, "hashes"))))
	a.Kubectl("label", "namespace", a.NS, keys.Track+"=all")
	all = append(all, awaited{"InvalidCompat", "compat", compat}, awaited{"MalformedPins", "pins", keys.Pins}, awaited{"MalformedPins", "hashes", keys.Hashes})
	for _, w := range all {
		if w.reason == "" {
			a.silent(w.what + " of " + w.on)
			continue
		}
		a.said(w.reason, w.on)
	}
}

// driveRestartOn writes every form of confrev.io/restart-on that is wrong or forbidden.
func (a *aviary) driveRestartOn() {
	a.Helper()
	custom := objectOf(webApp, "custom", map[string]any{"secret": a.plant(inCustom, "custom"), "list": []any{a.plant(inCustom, "custom's list")}})
	custom.SetAnnotations(map[string]string{"note": a.plant(inCustom, "custom's annotation")})
	a.add(custom)
	const app = "webapps.v1.e2e.confrev.io/custom"
	field := func(before, after string) string { return app + before + a.item(keys.RestartOn, "a path") + after }
	forms := map[string][]string{
		"InvalidRestartOn": {
			"configmap/", "secret/" + a.item(keys.RestartOn, "a name"), "a/b/c", "/", field("{.spec['", ""), field("{..", "}"), field("{.spec[?(@.x=='", "')]}"),
			app + "{.spec['a','b']}", app + "{.metadata.annotations.note}", app + "{.spec[*]}", app + "{.spec", app + "{}",
			"configmap/conf{.data.k}", "secrets.v1/cred{.data.k}", "configmap/" + strings.Repeat("x", 2000), strings.Repeat("configmap/conf,", 40),
			app + "{" + strings.Repeat(".a", 40) + "}", "webapps.v9.e2e.confrev.io/custom",
		},
		"RestartOnForbidden": {"namespaces.v1/" + a.NS, "namespaces.v1/" + a.NS + "{.spec.finalizers}", "nodes.v1/x", "serviceaccounts.v1/default"},
		"SourceMissing":      {app + "-absent", "configmap/absent", "secret/absent"},
		"":                   {app, app + "{.spec.secret}", app + "{.spec.list[0]}", app + "{.spec.secret.deeper}", "configmap/conf", "secret/cred"},
	}
	for reason, texts := range forms {
		for i, text := range texts {
			name := "on-" + strings.ToLower(reason) + "-" + strconv.Itoa(i)
			a.mine[text] = true
			a.add(a.web(name, gen.Annotated(keys.RestartOn, text)))
		}
	}
	for reason, texts := range forms {
		for i := range texts {
			name := "on-" + strings.ToLower(reason) + "-" + strconv.Itoa(i)
			if reason == "" {
				a.silent(name)
				continue
			}
			a.said(reason, name)
		}
	}
	a.Kubectl("patch", "webapps.e2e.confrev.io", "custom", "--type=merge", "-p", `{"spec":{"secret":"`+a.plant(inCustom, "custom, changed")+`"}}`)
	a.said("Restarted", "on--0")
}

// driveReferences refers to what is not there, not a source, never copied, too much or too big.
func (a *aviary) driveReferences() {
	a.Helper()
	lock := configMap("lock", "k", a.plant(inConfigMap, "lock"))
	lock.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": `{"holderIdentity":"` + a.plant(inMetadata, "lock") + `"}`}
	many := a.web("many")
	for range podspec.MaxReferences + 1 {
		envKey("conf", "k", false)(many)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
		Name: "strict", Annotations: map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}}}
	account.Secrets = []corev1.ObjectReference{{Name: "cred"}}
	a.tooBig("big", a.plant(inSecret, "big"))
	a.add(lock, account, many,
		a.web("absent", envFrom("absent")), a.web("resumed", envFrom("absent"), func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(3)) }), a.web("absent-key", envKey("conf", "absent", false)),
		a.web("absent-key-of-secret", func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Env = append(d.Spec.Template.Spec.Containers[0].Env,
				sourceRef{kind: pin.Secret, name: "cred"}.env("absent"))
		}),
		a.web("unreferenced", gen.Tracking("configmap/unused")), a.web("locked", envFrom("lock"), gen.Tracking("configmap/lock")),
		a.web("limited", func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = "strict" }),
		a.web("too-big", secretVolume("big")), a.web("direct", envFrom(trueName("conf", "k", "v"))),
		forged(trueName("conf", "k", "v"), "conf", hashOf("k", "v"), nil, "k", "v"))
	a.said("TooManyReferences", "many")
	a.said("SourceMissing", "absent")
	a.said("PauseEnded", "resumed")
	a.said("KeyMissing", "absent-key")
	a.said("KeyMissing", "absent-key-of-secret")
	a.said("NotReferenced", "unreferenced")
	a.said("NeverCopied", "locked")
	a.said("SecretsLimited", "limited")
	a.said("TooBig", "too-big")
	a.said("NotASource", "direct")
}

// driveForgeries forges revisions, with a canary in their data and nonsense in each annotation.
func (a *aviary) driveForgeries() {
	a.Helper()
	told := a.plant(inConfigMap, "forgeries")
	a.add(configMap("taken", "k", told))
	for i, key := range []string{
		keys.SourceName, keys.Number, keys.KeyDigests, keys.SourceVersion, keys.Renewed, keys.Attached, keys.Anchor,
	} {
		name := content.RevisionName("taken", hashOf("k", told), i)
		a.add(forged(name, "taken", hashOf("k", told), map[string]string{key: a.item(key, name)}, "k", a.plant(inConfigMap, name)))
		a.silent("forged " + key)
	}
	for salt := 7; salt < 40; salt++ {
		a.add(configMap(content.RevisionName("taken", hashOf("k", told), salt), "k", a.plant(inConfigMap, "taken")))
	}
	a.add(a.web("no-name", envFrom("taken")))
	a.said("NoNameLeft", "no-name")
}

// driveOtherKinds makes objects of configured kinds that are no workloads, or whose schema keeps no pins.
func (a *aviary) driveOtherKinds() {
	a.Helper()
	odd := objectOf(webApp, "odd", map[string]any{"template": a.plant(inCustom, "odd")})
	half := objectOf(webApp, "half", map[string]any{"template": map[string]any{"spec": map[string]any{"containers": a.plant(inCustom, "half")}}})
	pruned := objectOf(prunedApp, "pruned", map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
		"name": "app", "image": "app:1", "env": []any{map[string]any{"name": "A", "value": a.plant(inCustom, "pruned")}},
		"envFrom": []any{map[string]any{"configMapRef": map[string]any{"name": "conf"}}}}}}}})
	for _, obj := range []*unstructured.Unstructured{odd, half, pruned} {
		obj.SetAnnotations(map[string]string{keys.Track: "all"})
		a.add(obj)
	}
	a.said("NoPodTemplate", "odd")
	a.said("NoPodTemplate", "half")
	a.said("PinsNotKept", "pruned")
}

// quoting is a policy of someone else that refuses confrev's writes and says what is in the object.
const quoting = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: quote-in-NAMESPACE}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [UPDATE]}
    - {apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE]}
  matchConditions:
  - {name: ours, expression: 'request.userInfo.username == "system:serviceaccount:confrev-system:confrev"'}
  - {name: quoted, expression: 'object.metadata.name.startsWith("quoted")'}
  validations:
  - expression: 'false'
    messageExpression: >-
      "password " + (has(object.data) ? object.data["k"] : object.spec.template.spec.containers[0].env[0].value)
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: quote-in-NAMESPACE}
spec:
  policyName: quote-in-NAMESPACE
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}
`

// driveRefusals lets others refuse what confrev writes.
func (a *aviary) driveRefusals() {
	a.Helper()
	a.add(configMap("quoted-source", "k", a.plant(inConfigMap, "quoted-source")), configMap("steady", "k", a.plant(inConfigMap, "steady")),
		a.web("quoted", envFrom("steady")))
	a.WaitPinned("quoted", "steady", "k", a.dataOf("steady"))
	a.refuseConfrev(quoting, "quoted", "password canary")
	a.Edit("steady", "k", a.plant(inConfigMap, "steady, changed"))
	a.add(a.web("refused", envFrom("quoted-source")))
	a.said("RevisionRefused", "refused")
	a.said("WriteRefused", "quoted")

	a.quota("few", "count/secrets=1")
	a.EditSecret("cred", "k", a.plant(inSecret, "cred, changed"))
	a.saidNow("RevisionRefused", "absent")
	a.Kubectl("delete", "resourcequota", "few")
}

func (a *aviary) dataOf(name string) string {
	a.Helper()
	cm := &corev1.ConfigMap{}
	a.Must(a.Get(name, cm))
	return cm.Data["k"]
}

// driveLosses deletes revisions by hand, rolls back, and waits.
func (a *aviary) driveLosses() {
	a.Helper()
	a.add(configMap("lost", "k", a.plant(inConfigMap, "lost")), a.web("loser", envFrom("lost")), a.web("waiting", envFrom("lost"), gen.Annotated(keys.Advance, "manual")))
	first := a.WaitPinned("loser", "lost", "k", a.dataOf("lost"))
	a.unguarded("delete", "configmap", first.Revision)
	a.saidNow("RevisionRecreated", "loser")
	a.Edit("lost", "k", a.plant(inConfigMap, "lost, changed"))
	a.WaitPinned("loser", "lost", "k", a.dataOf("lost"))
	a.saidNow("WaitingToAdvance", "waiting")
	a.Undo("loser")
	a.saidNow("Held", "loser")
	a.unguarded("delete", "configmap", first.Revision)
	a.saidNow("RevisionMissing", "loser")

	a.add(configMap("halt", "k", a.plant(inConfigMap, "halt")), a.web("halting", envFrom("halt")))
	a.WaitPinned("halting", "halt", "k", a.dataOf("halt"))
	a.Kubectl("annotate", "deployment/halting", keys.Settle+"=1h")
	a.Edit("halt", "k", a.plant(inConfigMap, "halt, changed"))
	a.confrev("stop", "configmap/halt").says("goes no further")
	a.Kubectl("annotate", "deployment/halting", keys.Settle+"-")
	a.saidNow("ChangeStopped", "halting")

	// Without its account, no further pod of it can be created.
	a.Kubectl("create", "serviceaccount", "brittle")
	source := configMap("brittle", "k", a.plant(inConfigMap, "brittle"))
	source.Annotations = map[string]string{keys.OnFailure: "undo"}
	a.add(source, a.web("brittle", envFrom("brittle"), gen.Replicas(1), func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.ServiceAccountName = "brittle"
	}))
	before := a.WaitPinned("brittle", "brittle", "k", a.dataOf("brittle"))
	a.areRolledOut("brittle")
	a.Kubectl("delete", "serviceaccount", "brittle")
	a.Edit("brittle", "k", a.plant(inConfigMap, "brittle, changed"))
	a.Eventually("brittle has the change", func() string {
		if p := a.PinOf("brittle", "brittle"); p == before {
			return p.String()
		}
		return ""
	})
	a.unguarded("delete", "configmap", before.Revision)
	a.Kubectl("patch", "deployment", "brittle", "--type=merge", "-p", `{"spec":{"progressDeadlineSeconds":5}}`)
	a.saidNow("ChangeFailed", "brittle")
	a.saidNow("NotRolledBack", "brittle")
}

// checkDriven checks that all warnings of docs/events.md were driven, except for those that are listed.
func (a *aviary) checkDriven() {
	a.Helper()
	page, err := os.ReadFile(filepath.Join(env.Root(), "docs/events.md"))
	a.Must(err)
	_, table, _ := strings.Cut(string(page), "## Warning\n")
	table, _, _ = strings.Cut(table, "\n## ")
	reasons := regexp.MustCompile("(?m)^\\| `([A-Za-z]+)` \\|").FindAllStringSubmatch(table, -1)
	if len(reasons) < 20 {
		a.Fatalf("found only %v", reasons)
	}
	for _, match := range reasons {
		driven := slices.ContainsFunc(a.driven, func(d string) bool { return strings.HasPrefix(d, match[1]+" on ") })
		if _, known := notDriven[match[1]]; driven == known {
			a.Errorf("warning %s: driven %v, listed as one that cannot be %v", match[1], driven, known)
		}
	}
}

// drivePlugin asks every verb for what is wrong, in each format that it has.
func (a *aviary) drivePlugin() {
	a.Helper()
	dir := a.TempDir()
	a.writeFile(dir, "broken.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: cred}\ndata: {k: '"+a.plant(inFile, "a Secret that is not base64")+"'}\n")
	a.writeFile(dir, "half.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: cred}\nstringData: {k: "+a.plant(inFile, "a Secret of no YAML")+"\n")
	a.writeFile(dir, "odd.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: cred}\nstringData: ["+a.plant(inFile, "a Secret whose data is a list")+"]\n")
	a.writeFile(dir, "good.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: cred}\nstringData: {k: '"+a.plant(inFile, "a Secret")+"'}\n")
	a.writeFile(dir, "env", "A="+a.plant(inFile, "a file of variables")+"\n"+a.plant(inFile, "a line that is none")+" x=\n")
	literal := func() string { return a.plant(inLiteral, "a literal") }
	formats := verbsWithOutput()
	for _, c := range []struct{ verb, args string }{
		{"status", ""}, {"status", "deployment/template-0 deployment/absent webapp/odd"}, {"history", "deployment/loser"}, {"history", "secret/cred configmap/conf"},
		{"history", "configmap/taken"}, {"history", "configmap/absent"}, {"uses", "secret/cred"}, {"uses", "configmap/absent"}, {"doctor", ""},
		{"diff", "secret/cred"}, {"diff", "secret/cred --from=1 --to=9"}, {"diff", "deployment/loser"}, {"diff", "secret/cred --show-secrets --from=1 --to=source"},
		{"diff", "configmap/lost"}, {"diff", "configmap/steady --from=1 --to=source"}, {"diff", "secret/absent"},
		{"preview", "-f broken.yaml"}, {"preview", "-f half.yaml"}, {"preview", "-f odd.yaml"}, {"preview", "-f good.yaml"},
		{"undo", "deployment/absent"}, {"undo", "deployment/loser --to-revision=77"}, {"undo", "deployment/loser secret/cred --restore-source --to-revision=1 --dry-run=server"},
		{"undo", "deployment/quoted secret/cred --restore-source --to-revision=99"}, {"resume", "deployment/conf"}, {"resume", "deployment/loser secret/absent --dry-run=server"},
		{"advance", "deployment/waiting configmap/absent"}, {"advance", "webapp/odd"}, {"track", "deployment/absent"}, {"track", "deployment/loser what/ever"},
		{"set owner", "secret/absent deployment/loser"}, {"set owner", "secret/cred deployment/loser --dry-run=server"}, {"set volume", "deployment/loser -t secret --secret-name=absent"},
		{"create secret generic", "made --owner=deployment/absent --from-literal=k=" + literal()}, {"create secret generic", "cred --owner=deployment/loser --from-literal=k=" + literal()},
		{"create secret generic", "made --owner=deployment/loser --from-env-file=env"}, {"create configmap", "made --owner=deployment/absent --from-literal=" + literal()},
		{"create secret generic", "made --from-literal=k=" + literal() + " --owner=deployment/loser --dry-run=client -o json"},
		{"attach", "--deployment absent --secrets cred --timeout=1s"}, {"attach", "--deployment loser --secrets cred,absent --timeout=1s"},
		{"render", "-f half.yaml"},
	} {
		steps := []string{""}
		if formats[c.verb] && !strings.Contains(c.args, " -o ") {
			steps = append(steps, " -o json", " -o yaml")
		}
		for _, step := range steps {
			line := strings.TrimSpace(c.verb + " " + c.args + step)
			got := a.runIn(dir, "", append([]string{"kubectl", "confrev"}, strings.Fields(line)...)...)
			if got.stdout+got.stderr == "" {
				a.Errorf("kubectl confrev %s says nothing", line)
			}
			if c.args == "" && got.status == 1 {
				a.Errorf("kubectl confrev %s looks at nothing: %s", line, got.stderr)
			}
			a.sinks["kubectl confrev "+line] = got.stdout + got.stderr
		}
		a.silent("kubectl confrev " + c.verb + " " + c.args)
	}
}
