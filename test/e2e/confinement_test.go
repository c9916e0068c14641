//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/analysis"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/env"
)

// thief has confrev's own name, as one has who stole its token, and every right that RBAC could give: what stops it is the policy.
func thief(t *testing.T) client.Client {
	t.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + env.Namespace + ":confrev", Groups: []string{"system:masters"},
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// steal sends a JSON patch of an object as the thief, as a dry run, and wants the policy to refuse these fields; none to let it
// through.
func (w *world) steal(c client.Client, obj client.Object, fields, patch string) {
	w.Helper()
	target := obj.DeepCopyObject().(client.Object)
	err := c.Patch(w.Ctx, target, client.RawPatch(types.JSONPatchType, []byte("["+patch+"]")), client.DryRunAll)
	switch {
	case fields == "" && err != nil:
		w.Errorf("%s\nwant it to be let through, got: %v", patch, err)
	case fields != "" && !strings.Contains(errorText(err), "denied request: "+fields):
		w.Errorf("%s\nwant a refusal: %s\ngot: %v", patch, fields, err)
	}
}

// Of a workload of every kind, confrev's own account may write what confrev writes, and nothing else.
func TestConfrevsOwnAccountWritesNothingElse(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), thief(t)
	for _, s := range []subject{aDeployment, aStatefulSet, aDaemonSet, aCronJob, aCanary, aWebApp} {
		t.Run(s.name, func(t *testing.T) {
			w := worldIn(t, w.NS)
			path, at := s.kind.Path, s.kind.TemplatePointer()
			name := strings.ToLower(s.name)
			template := everyForm(name, "conf", "cred")
			obj := objectOf(s.kind.GVK, name, s.spec(name, template))
			// The webhook pins nothing: the sources do not exist. A pause is reverted, so that one kind is like the others.
			obj.SetAnnotations(map[string]string{keys.Track: "all", "own": "own"})
			w.Create(obj)
			for patch, fields := range map[string]string{
				`{"op":"add","path":"/metadata/annotations/confrev.io~1held","value":"x"}`:                                              "",
				`{"op":"add","path":"/metadata/annotations/confrev.io~1hashes","value":"x"}`:                                            "",
				`{"op":"add","path":"` + at + `/metadata/annotations","value":{"confrev.io/pins":"x","confrev.io/hashes":"y"}}`:         "",
				`{"op":"add","path":"/metadata/annotations/confrev.io~1track","value":"configmap/x"}`:                                   "confrev may not change metadata.annotations.confrev.io/track",
				`{"op":"add","path":"/metadata/annotations/confrev.io~1paused","value":"x"}`:                                            "confrev may not change metadata.annotations.confrev.io/paused",
				`{"op":"remove","path":"/metadata/annotations/own"}`:                                                                    "confrev may not change metadata.annotations.own",
				`{"op":"add","path":"/metadata/labels","value":{"a":"b"}}`:                                                              "confrev may not change metadata.labels",
				`{"op":"add","path":"/metadata/finalizers","value":["example.com/a"]}`:                                                  "confrev may not change metadata.finalizers",
				`{"op":"add","path":"/metadata/ownerReferences","value":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"b"}]}`: "confrev may not change metadata.ownerReferences",
				`{"op":"add","path":"` + at + `/metadata/annotations","value":{"a":"b"}}`:                                               "confrev may not change " + path + ".metadata.annotations.a",
				`{"op":"add","path":"` + at + `/metadata/labels/a","value":"b"}`:                                                        "confrev may not change " + path + ".metadata.labels",
				`{"op":"add","path":"` + at + `/spec/containers/0/image","value":"other"}`:                                              "confrev may not change " + path + ".spec.containers",
				`{"op":"add","path":"` + at + `/spec/containers/0/command","value":["other"]}`:                                          "confrev may not change " + path + ".spec.containers",
				`{"op":"add","path":"` + at + `/spec/containers/0/securityContext","value":{"privileged":true}}`:                        "confrev may not change " + path + ".spec.containers",
				`{"op":"add","path":"` + at + `/spec/containers/0/env/-","value":{"name":"A","value":"b"}}`:                             "confrev may not change " + path + ".spec.containers",
				`{"op":"remove","path":"` + at + `/spec/containers/0/envFrom/0"}`:                                                       "confrev may not change " + path + ".spec.containers",
				`{"op":"add","path":"` + at + `/spec/containers/-","value":{"name":"a","image":"b"}}`:                                   "confrev may not change " + path + ".spec.containers",
				`{"op":"add","path":"` + at + `/spec/volumes/-","value":{"name":"a","hostPath":{"path":"/"}}}`:                          "confrev may not change " + path + ".spec.volumes",
				`{"op":"add","path":"` + at + `/spec/serviceAccountName","value":"admin"}`:                                              "confrev may not change " + path + ".spec.serviceAccount",
				`{"op":"add","path":"` + at + `/spec/hostNetwork","value":true}`:                                                        "confrev may not change " + path + ".spec.hostNetwork",
			} {
				w.steal(c, obj, fields, patch)
			}
			w.stealNames(c, obj, at, path)
		})
	}
}

// stealNames tries the names of sources in a template: each may be that of a revision of the same source, and of nothing else.
func (w *world) stealNames(c client.Client, obj *unstructured.Unstructured, at, path string) {
	w.Helper()
	spec := at + "/spec"
	names := map[string]string{}
	containers, volumes := path+".spec.containers", path+".spec.volumes"
	for list, field := range map[string]string{"containers": containers, "initContainers": path + ".spec.initContainers"} {
		for i, each := range asList(obj.Object, path+".spec."+list) {
			for _, reference := range referencesIn(each, fmt.Sprintf("%s/%s/%d", spec, list, i)) {
				names[reference] = field
			}
		}
	}
	for i, each := range asList(obj.Object, path+".spec.volumes") {
		for _, reference := range referencesIn(each, fmt.Sprintf("%s/volumes/%d", spec, i)) {
			names[reference] = volumes
		}
	}
	if len(names) < 8 {
		w.Fatalf("found only %v", names)
	}
	for pointer, field := range names {
		name, _ := pointed(obj.Object, pointer).(string)
		w.steal(c, obj, "", `{"op":"replace","path":"`+pointer+`","value":"`+name+`-5f7d8c9b2k"}`)
		for _, other := range []string{"other", name + "-other", "other-5f7d8c9b2k", name + "-5f7d8c9b2", name + "x-5f7d8c9b2k"} {
			w.steal(c, obj, "confrev may not change "+field, `{"op":"replace","path":"`+pointer+`","value":"`+other+`"}`)
		}
	}
}

func asList(object map[string]any, path string) []any {
	all, _ := at(object, path).([]any)
	return all
}

// referencesIn returns the JSON pointers of the names of sources in a container or a volume.
func referencesIn(value any, pointer string) []string {
	var found []string
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			named, _ := inner.(map[string]any)
			for _, kind := range []string{"configMap", "configMapRef", "secretRef", "configMapKeyRef", "secretKeyRef", "secret"} {
				if key != kind {
					continue
				}
				for _, field := range []string{"name", "secretName"} {
					// Admission adds the cluster's own certificates by itself.
					if named[field] != nil && named[field] != "kube-root-ca.crt" {
						found = append(found, pointer+"/"+key+"/"+field)
					}
				}
			}
			found = append(found, referencesIn(inner, pointer+"/"+key)...)
		}
	case []any:
		for i, inner := range v {
			found = append(found, referencesIn(inner, fmt.Sprintf("%s/%d", pointer, i))...)
		}
	}
	return found
}

// pointed returns what a JSON pointer leads to.
func pointed(value any, pointer string) any {
	for segment := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch v := value.(type) {
		case map[string]any:
			value = v[segment]
		case []any:
			var i int
			_, _ = fmt.Sscan(segment, &i)
			value = v[i]
		}
	}
	return value
}

// confrev's own account changes no workload that does not opt in by a key that it cannot write.
func TestConfrevsOwnAccountNeedsConsent(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), thief(t)
	pin := `{"op":"add","path":"/spec/template/metadata/annotations","value":{"confrev.io/pins":"x"}}`
	note := `{"op":"add","path":"/metadata/annotations/confrev.io~1held","value":"x"}`
	const refused = "confrev may not change a workload that does not opt in"
	for name, tt := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"nothing":    {map[string]string{"own": "own"}, refused},
		"track":      {map[string]string{keys.Track: "configmap/x"}, ""},
		"restart-on": {map[string]string{keys.RestartOn: "configmap/x"}, ""},
		"mode":       {map[string]string{keys.Mode: "attach"}, ""},
		"reloader":   {map[string]string{"configmap.reloader.stakater.com/reload": "x"}, ""},
		"wave":       {map[string]string{"wave.pusher.com/update-on-config-change": "true"}, ""},
		"none":       {map[string]string{keys.Track: "none", keys.RestartOn: "configmap/x"}, refused},
		"others":     {map[string]string{keys.Held: "x", keys.Settle: "1s"}, refused},
	} {
		d := deployment(name, envFrom("x"))
		d.Annotations = tt.annotations
		w.Create(d)
		w.steal(c, d, tt.want, pin)
		if name == "nothing" {
			w.steal(c, d, refused, note)
		}
	}
	w.Kubectl("label", "namespace", w.NS, keys.Track+"=all")
	d := deployment("by-namespace", envFrom("x"))
	d.Annotations = nil
	w.Create(d)
	w.Eventually("the label of the namespace is consent", func() string {
		return errorText(c.Patch(w.Ctx, d.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte("["+pin+"]")), client.DryRunAll))
	})
}

// Rule 7: the account ends confrev's own pause, and no other.
func TestConfrevsOwnAccountEndsOnlyItsOwnPause(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), thief(t)
	own, users := deployment("own", envFrom("none")), deployment("users")
	users.Spec.Paused = true
	w.Create(own, users)
	w.Must(w.Get("own", own))
	if !own.Spec.Paused || own.Annotations[keys.Paused] == "" {
		t.Fatal("the webhook did not pause it: this test shows nothing")
	}
	resume := `{"op":"remove","path":"/spec/paused"}`
	note := `{"op":"remove","path":"/metadata/annotations/confrev.io~1paused"}`
	w.steal(c, own, "", resume+","+note)
	w.steal(c, users, "confrev may not change spec.paused", resume)
	running := deployment("running")
	w.Create(running)
	w.steal(c, running, "confrev may not change spec.paused", `{"op":"add","path":"/spec/paused","value":true}`)
	w.Kubectl("annotate", "deployment/own", keys.Track+"=none", "--overwrite")
	w.Eventually("opting out ends the pause", func() string {
		w.Must(w.Get("own", own))
		if own.Spec.Paused {
			return "paused"
		}
		return ""
	})
}

// ConfigMaps and Secrets: revisions, labels of sources, and what asks to be attached.
func TestConfrevsOwnAccountLeavesSourcesAlone(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	c := thief(t)
	w.WaitOwned(a.Revision, "web")
	plain, attached := configMap("plain", "k", "v"), configMap("attached", "k", "v")
	attached.Annotations = map[string]string{keys.Attach: "true"}
	protected := configMap("protected", "k", "v")
	protected.Annotations = map[string]string{keys.Attach: "true", keys.Protect: "true"}
	foreign := secret("foreign", corev1.SecretTypeOpaque, "k", "v")
	made := configMap(a.Revision)
	made.Namespace = w.NS
	w.Create(plain, attached, protected, foreign)
	owner := `{"op":"add","path":"/metadata/ownerReferences","value":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"b"}]}`
	finalizer := `{"op":"add","path":"/metadata/finalizers","value":["confrev.io/protect"]}`
	mark := `{"op":"add","path":"/metadata/annotations","value":{"confrev.io/attached":"true"}}`
	label := `{"op":"add","path":"/metadata/labels","value":{"confrev.io/source":"plain"}}`
	for _, obj := range []client.Object{plain, foreign} {
		w.steal(c, obj, "", label)
		w.steal(c, obj, "confrev may not change data", `{"op":"add","path":"/data/k","value":"eA=="}`)
		w.steal(c, obj, "confrev may not change immutable", `{"op":"add","path":"/immutable","value":true}`)
		w.steal(c, obj, "confrev may not change metadata.ownerReferences", owner)
		w.steal(c, obj, "confrev may not change metadata.finalizers", finalizer)
		w.steal(c, obj, "confrev may not change metadata.annotations.confrev.io/attached", mark)
		w.steal(c, obj, "confrev may not change metadata.labels.confrev.io/content", `{"op":"add","path":"/metadata/labels","value":{"confrev.io/content":"v1-x"}}`)
		w.refused(c.Delete(w.Ctx, obj.DeepCopyObject().(client.Object), client.DryRunAll), "confrev may not delete what is neither a revision nor asks to be attached")
	}
	w.steal(c, attached, "", owner)
	w.steal(c, attached, "", `{"op":"add","path":"/metadata/annotations/confrev.io~1attached","value":"true"}`)
	w.steal(c, attached, "confrev may not change metadata.finalizers", finalizer)
	w.steal(c, protected, "", finalizer)
	w.steal(c, protected, "confrev may not change metadata.annotations.confrev.io/protect", `{"op":"remove","path":"/metadata/annotations/confrev.io~1protect"}`)
	// What its owner gave the marks of a revision too is still attached and released, but not labelled.
	forged := configMap("forged", "k", "v")
	forged.Labels = map[string]string{keys.Content: "anything"}
	forged.Annotations = map[string]string{keys.SourceName: "forged", keys.Attach: "true", keys.Attached: "uid"}
	released := configMap("released", "k", "v")
	released.Labels, released.Annotations = forged.Labels, map[string]string{keys.SourceName: "forged", keys.Attached: "uid"}
	w.Create(forged, released)
	w.steal(c, forged, "", `{"op":"add","path":"/metadata/annotations/confrev.io~1attached","value":"other"}`)
	for _, obj := range []client.Object{forged, released} {
		w.steal(c, obj, "", `{"op":"remove","path":"/metadata/annotations/confrev.io~1attached"}`)
	}
	w.steal(c, released, "confrev may not change metadata.annotations.confrev.io/attached", `{"op":"add","path":"/metadata/annotations/confrev.io~1attached","value":"other"}`)
	w.steal(c, released, "confrev may not change metadata.labels.confrev.io/source", `{"op":"add","path":"/metadata/labels/confrev.io~1source","value":"forged"}`)
	// Someone who adds these marks between confrev's look and its write makes it look again, rather than try what it may not.
	if err := c.Patch(w.Ctx, released.DeepCopy(), client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"labels":{"confrev.io/source":"forged"}}}`, plain.ResourceVersion))); !apierrors.IsConflict(err) {
		t.Errorf("a label for a source that has changed: want a conflict, got %v", err)
	}
	w.steal(c, made, "", `{"op":"add","path":"/metadata/annotations/confrev.io~1number","value":"9"}`)
	w.steal(c, made, "", `{"op":"remove","path":"/metadata/ownerReferences"}`)
	w.steal(c, made, "confrev may not change metadata.annotations.confrev.io/source-name", `{"op":"add","path":"/metadata/annotations/confrev.io~1source-name","value":"x"}`)
	w.steal(c, made, "confrev may not change metadata.labels.confrev.io/source", `{"op":"add","path":"/metadata/labels/confrev.io~1source","value":"x"}`)
	w.steal(c, made, "confrev may not change metadata.finalizers", `{"op":"add","path":"/metadata/finalizers","value":["example.com/a"]}`)
	w.Must(c.Delete(w.Ctx, made.DeepCopy(), client.DryRunAll))
}

// What confrev's own account creates is a revision or its anchor, and nothing that another controller would act on.
func TestConfrevsOwnAccountCreatesRevisionsOnly(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	c := thief(t)
	like := &corev1.ConfigMap{}
	w.Must(w.Get(a.Revision, like))
	like.ObjectMeta = metav1.ObjectMeta{Namespace: w.NS, Name: "web-5f7d8c9b2k", Labels: like.Labels, Annotations: like.Annotations}
	try := func(obj client.Object, change func(*metav1.ObjectMeta), want string) {
		t.Helper()
		meta := metaOf(obj)
		change(meta)
		err := c.Create(w.Ctx, obj, client.DryRunAll)
		if (want == "") != (err == nil) || !strings.Contains(errorText(err), want) {
			t.Errorf("create %T %s: want %q, got %v", obj, meta.Name, want, err)
		}
	}
	const refused = "confrev may not create what is neither a revision nor its anchor or key"
	asIs := func(*metav1.ObjectMeta) {}
	try(like.DeepCopy(), asIs, "")
	for what, change := range map[string]func(*metav1.ObjectMeta){
		"name":       func(m *metav1.ObjectMeta) { m.Name = "web" },
		"label":      func(m *metav1.ObjectMeta) { m.Labels = map[string]string{keys.Content: "v1-x", "a": "b"} },
		"no content": func(m *metav1.ObjectMeta) { m.Labels = nil },
		"annotation": func(m *metav1.ObjectMeta) { m.Annotations = map[string]string{keys.SourceName: "web", "a": "b"} },
		"finalizer":  func(m *metav1.ObjectMeta) { m.Finalizers = []string{"example.com/a"} },
		"controller": func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "b", Controller: new(true)}}
		},
	} {
		t.Log(what)
		try(like.DeepCopy(), change, refused)
	}
	mutable := like.DeepCopy()
	mutable.Immutable = nil
	try(mutable, asIs, refused)
	token := &corev1.Secret{ObjectMeta: *like.ObjectMeta.DeepCopy(), Type: corev1.SecretTypeOpaque, Immutable: new(true)}
	// Of a Secret, nothing is published that is not keyed.
	try(token.DeepCopy(), asIs, refused)
	token.Labels[keys.Content] = "k1-abcdefg" + token.Labels[keys.Content][2:]
	try(token.DeepCopy(), asIs, "")
	token.Type = "helm.sh/release.v1"
	try(token, asIs, refused)
	anchor := configMap(revision.AnchorName)
	anchor.Namespace, anchor.Annotations = w.NS, map[string]string{keys.Anchor: "true"}
	try(anchor.DeepCopy(), asIs, "")
	anchor.Data = map[string]string{"a": "b"}
	try(anchor, asIs, refused)
	for _, namespace := range []string{metav1.NamespaceSystem, env.Namespace} {
		try(like.DeepCopy(), func(m *metav1.ObjectMeta) { m.Namespace = namespace }, "confrev may not write in kube-system and in its own namespace")
	}
}

// Rule 42: confrev's account evicts pods that it has seen, and none in the system's namespaces.
func TestConfrevsOwnAccountEvictsOnlyWhatItHasSeen(t *testing.T) {
	t.Parallel()
	w, _ := deployed(t)
	c := thief(t)
	pod := w.Pods("web")[0]
	evict := func(namespace string, options *metav1.DeleteOptions) error {
		at := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pod.Name}}
		return c.SubResource("eviction").Create(w.Ctx, at, &policyv1.Eviction{DeleteOptions: options}, client.DryRunAll)
	}
	seen := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}, DryRun: []string{metav1.DryRunAll}}
	for what, options := range map[string]*metav1.DeleteOptions{
		"without options": nil, "without a UID": {DryRun: []string{metav1.DryRunAll}}, "with an empty UID": {Preconditions: &metav1.Preconditions{UID: new(types.UID(""))}},
	} {
		if err := evict(w.NS, options); !strings.Contains(errorText(err), "confrev may not evict a pod without its UID") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, namespace := range []string{metav1.NamespaceSystem, env.Namespace} {
		if err := evict(namespace, seen); !strings.Contains(errorText(err), "confrev may not write in kube-system and in its own namespace") {
			t.Errorf("in %s: %v", namespace, err)
		}
	}
	if err := evict(w.NS, seen); err != nil {
		t.Error(err)
	}
}

// Rule 43: confrev's account creates and deletes AnalysisRuns only if they are about their one owner.
func TestConfrevsOwnAccountRunsAnalysesOfWorkloadsOnly(t *testing.T) {
	t.Parallel()
	w, _ := deployed(t)
	c := thief(t)
	subject := analysis.Subject{Owner: *metav1.NewControllerRef(w.Deployment("web"), workload.Deployment.GVK), Namespace: w.NS}
	subject.Owner.BlockOwnerDeletion = nil
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"metrics": []any{
		map[string]any{"name": "up", "provider": map[string]any{"web": map[string]any{"url": "http://127.0.0.1:1"}}},
	}}}}
	template.SetName("smoke")
	const notAbout, more = "confrev may not create or delete an AnalysisRun that is not about its owner", "confrev may not label, annotate or keep an AnalysisRun"
	for what, test := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   string
	}{
		"as it is":      {func(*unstructured.Unstructured) {}, ""},
		"no owner":      {func(run *unstructured.Unstructured) { run.SetOwnerReferences(nil) }, notAbout},
		"no label":      {func(run *unstructured.Unstructured) { run.SetLabels(nil) }, notAbout},
		"another label": {func(run *unstructured.Unstructured) { run.SetLabels(map[string]string{keys.AnalysisOf: "x"}) }, notAbout},
		"two owners": {func(run *unstructured.Unstructured) {
			run.SetOwnerReferences(append(run.GetOwnerReferences(), metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}))
		}, notAbout},
		"an annotation": {func(run *unstructured.Unstructured) { run.SetAnnotations(map[string]string{"a": "b"}) }, more},
		"a finalizer":   {func(run *unstructured.Unstructured) { run.SetFinalizers([]string{"example.com/a"}) }, more},
		"kube-system": {func(run *unstructured.Unstructured) { run.SetNamespace(metav1.NamespaceSystem) },
			"confrev may not write in kube-system and in its own namespace"},
	} {
		run, why := subject.Run(template)
		if why != "" {
			t.Fatal(why)
		}
		test.change(run)
		if err := c.Create(w.Ctx, run, client.DryRunAll); (test.want == "") != (err == nil) || !strings.Contains(errorText(err), test.want) {
			t.Errorf("%s: want %q, got %v", what, test.want, err)
		}
	}
	theirs, why := subject.Run(template)
	if why != "" {
		t.Fatal(why)
	}
	theirs.SetOwnerReferences(nil)
	w.Must(cluster.Client.Create(w.Ctx, theirs))
	if err := c.Delete(w.Ctx, theirs, client.DryRunAll); !strings.Contains(errorText(err), notAbout) {
		t.Errorf("delete another's: %v", err)
	}
}

func metaOf(obj client.Object) *metav1.ObjectMeta {
	if s, ok := obj.(*corev1.Secret); ok {
		return &s.ObjectMeta
	}
	return &obj.(*corev1.ConfigMap).ObjectMeta
}

// The API server bounds the cost of CEL: a template of thousands of references must pass, also when each of them changes. It does not run next to
// other tests, as TestPoliciesPassPodsWithinTheirCostLimits.
func TestConfinementPassesTheLargestTemplates(t *testing.T) {
	w, c := newWorld(t), thief(t)
	const references = 2000
	large := deployment("large")
	var ops []string
	for i := range references {
		large.Spec.Template.Spec.Containers[0].Env = append(large.Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{
			Name: fmt.Sprintf("V%d", i), ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}, Key: fmt.Sprintf("k%d", i)}}})
		ops = append(ops, fmt.Sprintf(
			`{"op":"replace","path":"/spec/template/spec/containers/0/env/%d/valueFrom/configMapKeyRef/name","value":"conf-5f7d8c9b2k"}`, i))
	}
	w.Create(large)
	w.steal(c, large, "", `{"op":"add","path":"/spec/template/metadata/annotations","value":{"confrev.io/pins":"x"}}`)
	w.steal(c, large, "", strings.Join(ops, ","))
	ops[references-1] = strings.Replace(ops[references-1], "conf-5f7d8c9b2k", "other", 1)
	w.steal(c, large, "confrev may not change spec.template.spec.containers", strings.Join(ops, ","))
}
