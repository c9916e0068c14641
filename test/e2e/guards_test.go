//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/env"
	"confrev.io/confrev/test/gen"
)

// unguarded runs kubectl as the garbage collector, which guards let through, to do what they keep others from.
func (w *world) unguarded(args ...string) string {
	w.Helper()
	return w.Kubectl(append([]string{"--as", "system:serviceaccount:kube-system:generic-garbage-collector"}, args...)...)
}

// tenant is the admin of a test's namespace, and of no other.
type tenant struct {
	*world
	name string
}

func (w *world) tenant() *tenant {
	w.Helper()
	t := &tenant{world: w, name: "admin-of-" + w.NS}
	w.Kubectl("create", "rolebinding", "admin", "--clusterrole=admin", "--user="+t.name)
	w.Eventually("the tenant has its rights", func() string {
		_, err := t.run("auth", "can-i", "delete", "configmaps")
		return errorText(err)
	})
	return t
}

// run runs kubectl as the tenant.
func (t *tenant) run(args ...string) (string, error) {
	return cluster.Kubectl(t.Ctx, append([]string{"--namespace", t.NS, "--as", t.name, "--as-group", "system:authenticated"}, args...)...)
}

func (t *tenant) may(args ...string) {
	t.Helper()
	_, err := t.run(args...)
	t.Must(err)
}

// mayNot wants the tenant, and the admin of the whole cluster, to be refused in these words.
func (t *tenant) mayNot(words string, args ...string) {
	t.Helper()
	_, err := t.run(args...)
	t.refused(err, words, "the tenant: kubectl", args)
	_, err = cluster.Kubectl(t.Ctx, append([]string{"--namespace", t.NS}, args...)...)
	t.refused(err, words, "the cluster's admin: kubectl", args)
}

func (w *world) refused(err error, words string, doing ...any) {
	w.Helper()
	if !strings.Contains(errorText(err), words) {
		w.Errorf("%s\nwant a refusal: %s\ngot: %v", fmt.Sprintln(doing...), words, err)
	}
}

// Rule 17.
func TestOnlyConfrevChangesRevisions(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.WaitOwned(a.Revision, "web")
	before := &corev1.ConfigMap{}
	w.Must(w.Get(a.Revision, before))
	it := "configmap/" + a.Revision + " is a revision of configmap/web, and "
	labels := it + "only confrev changes its labels and annotations. Change configmap/web instead: when its data changes, " +
		"confrev creates a new revision."
	owners := it + "only confrev changes its owners: the workloads that use it, and their ReplicaSets or other holders. " +
		"To keep its data for longer, copy it into an object of your own."
	finalizers := it + "takes no finalizers: it must be possible to delete it with its last user. To keep its data for longer, copy it " +
		"into an object of your own."
	// The API server's own words; it looks before any policy does.
	immutable := "field is immutable when `immutable` is set"
	ana := w.tenant()
	owner := `{"apiVersion":"v1","kind":"ConfigMap","name":"web","uid":"` + string(before.UID) + `"}`
	for words, patches := range map[string][]string{
		immutable: {
			`{"op":"replace","path":"/data/color","value":"B"}`,
			`{"op":"replace","path":"/immutable","value":false}`,
		},
		labels: {
			`{"op":"add","path":"/metadata/labels/team","value":"a"}`,
			`{"op":"replace","path":"/metadata/labels/confrev.io~1source","value":"other"}`,
			`{"op":"remove","path":"/metadata/labels/confrev.io~1content"}`,
			`{"op":"remove","path":"/metadata/labels"}`,
			`{"op":"add","path":"/metadata/annotations/kubernetes.io~1change-cause","value":"another"}`,
			`{"op":"replace","path":"/metadata/annotations/confrev.io~1number","value":"99"}`,
			`{"op":"remove","path":"/metadata/annotations/confrev.io~1source-name"}`,
			`{"op":"remove","path":"/metadata/annotations"}`,
			`{"op":"remove","path":"/metadata/labels"},{"op":"remove","path":"/metadata/ownerReferences"}`,
		},
		owners: {
			`{"op":"remove","path":"/metadata/ownerReferences"}`,
			`{"op":"remove","path":"/metadata/ownerReferences/0"}`,
			`{"op":"replace","path":"/metadata/ownerReferences/0/uid","value":"0"}`,
			`{"op":"replace","path":"/metadata/ownerReferences/0/controller","value":true}`,
			`{"op":"add","path":"/metadata/ownerReferences/-","value":` + owner + `}`,
		},
		finalizers: {
			`{"op":"add","path":"/metadata/finalizers","value":["example.com/keep"]}`,
		},
	} {
		for _, patch := range patches {
			ana.mayNot(words, "patch", "configmap", a.Revision, "--type=json", "-p", "["+patch+"]")
		}
	}
	after := &corev1.ConfigMap{}
	w.Must(w.Get(a.Revision, after))
	for _, revision := range []*corev1.ConfigMap{before, after} {
		// confrev itself notes the version of the source, after it has labeled it.
		delete(revision.Annotations, keys.SourceVersion)
		revision.ResourceVersion, revision.ManagedFields = "", nil
	}
	if !equality.Semantic.DeepEqual(before, after) {
		t.Errorf("the revision was %+v and is %+v", before, after)
	}
}

// waitNoted waits until confrev has labelled a source and noted its version on its revision, which is the last that it writes about it.
func (w *world) waitNoted(configMap, revision string) {
	w.Helper()
	w.Eventually("the version of configmap/"+configMap+" is noted", func() string {
		source, copied := &corev1.ConfigMap{}, &corev1.ConfigMap{}
		w.Must(w.Get(configMap, source))
		w.Must(w.Get(revision, copied))
		want := string(source.UID) + "/" + source.ResourceVersion
		if got := copied.Annotations[keys.SourceVersion]; source.Labels[keys.Source] == "" || got != want {
			return fmt.Sprintf("labels %v, noted %s, want %s", source.Labels, got, want)
		}
		return ""
	})
}

// Rule 17: tools that write the same again, such as those that encrypt or migrate what is stored, are in no one's way.
func TestWritingARevisionAsItIsIsNoChange(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.WaitOwned(a.Revision, "web")
	w.waitNoted("web", a.Revision)
	ana := w.tenant()
	as := []string{"--as", ana.name, "--as-group", "system:authenticated"}
	w.KubectlIn(w.Kubectl("get", "configmap", a.Revision, "-o", "yaml"), append(as, "replace", "-f", "-")...)
	w.KubectlIn("{apiVersion: v1, kind: ConfigMap, metadata: {name: "+a.Revision+"}, data: {color: A}}",
		append(as, "apply", "--server-side", "--field-manager=other", "-f", "-")...)
	now := &corev1.ConfigMap{}
	w.Must(w.Get(a.Revision, now))
	if len(now.ManagedFields) < 2 {
		t.Errorf("managed by %+v alone: this test shows nothing", now.ManagedFields)
	}
}

// Rule 17: what someone put there before the guards, or around them, does not stay forever.
func TestAFinalizerMayBeRemovedFromARevision(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.unguarded("patch", "configmap", a.Revision, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/a","example.com/b"]}}`)
	ana := w.tenant()
	ana.mayNot("takes no finalizers", "patch", "configmap", a.Revision, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/b","example.com/c"]}}`)
	ana.may("patch", "configmap", a.Revision, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/b"]}}`)
	ana.may("patch", "configmap", a.Revision, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
}

// Rule 17: in each of the ways to delete, and the source may well go.
func TestOnlyConfrevDeletesARevisionInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"), configMap("other", "k", "v"), secret("web", corev1.SecretTypeOpaque, "k", "v"),
		deployment("web", envFrom("web"), secretVolume("web")))
	a := w.WaitPinned("web", "web", "color", "A")
	w.WaitOwned(a.Revision, "web")
	ofSecret, made := w.waitSecretPinned("web", "web", pin.Pin{})
	w.Eventually("the Secret's revision has both owners too", func() string {
		if w.Must(w.Get(ofSecret.Revision, made)); len(made.OwnerReferences) != 2 {
			return fmt.Sprintf("owned by %+v", made.OwnerReferences)
		}
		return ""
	})
	words := func(kind, revision string) string {
		return kind + "/" + revision + " is a revision of " + kind + "/web in use, owned by Deployment/web and 1 more: pods may need it to " +
			"start. It is deleted with its last user. To delete it sooner, delete the workloads that use it or, if it is an " +
			"old one, lower their revisionHistoryLimit."
	}
	ana := w.tenant()
	ana.mayNot(words("configmap", a.Revision), "delete", "configmap", a.Revision)
	ana.mayNot(words("configmap", a.Revision), "delete", "configmap", a.Revision, "--cascade=foreground")
	ana.mayNot(words("configmap", a.Revision), "delete", "configmap", a.Revision, "--grace-period=0", "--force")
	ana.mayNot(words("secret", ofSecret.Revision), "delete", "secret", ofSecret.Revision)
	ana.mayNot(words("configmap", a.Revision), "delete", "configmaps", "-l", keys.Content)
	ana.mayNot(words("configmap", a.Revision), "delete", "--raw", "/api/v1/namespaces/"+w.NS+"/configmaps?labelSelector="+keys.Content)
	// These include what they may.
	ana.mayNot(words("configmap", a.Revision), "delete", "configmaps", "--all")
	ana.mayNot(words("secret", ofSecret.Revision), "delete", "secrets", "--all")
	if !w.Gone("web") || !w.Gone("other") {
		t.Error("the source and a user's own ConfigMap are there still: this test shows nothing")
	}
	w.Kubectl("delete", "pod", "-l", "app=web", "--wait=true")
	w.Eventually("the pod is back, on its revisions", func() string { return w.NotRolledOut("web") })
	w.podsRead(a.Revision + "+" + ofSecret.Revision)
}

// Rule 17: anyone who may delete ConfigMaps may delete a revision that no one owns.
func TestARevisionWithoutOwnersMayBeDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ana := w.tenant()
	// It names the revision, and has no pods: without it, confrev would delete the revision after the grace time.
	w.Create(deployment("namer", gen.Untracked, gen.Replicas(0), envFrom(orphan().Name)), orphan())
	ana.may("delete", "configmap", orphan().Name)
	w.Create(orphan())
	ana.mayNot("only confrev changes its labels", "label", "configmap", orphan().Name, "team=a", "--dry-run=server")
}

// Rule 17: guards are about revisions and anchors. What is the user's, is the user's.
func TestGuardsLeaveSourcesAlone(t *testing.T) {
	t.Parallel()
	w, _ := deployed(t)
	w.Barrier()
	ana := w.tenant()
	ana.may("patch", "configmap", "web", "--type=merge", "-p", `{"data":{"color":"B"},"metadata":{"finalizers":["example.com/keep"]}}`)
	ana.may("label", "configmap", "web", "team=a")
	ana.may("annotate", "configmap", "web", "note=b", keys.Policy+"=revision")
	ana.may("label", "configmap", "web", keys.Source+"-")
	ana.may("patch", "configmap", "web", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	w.WaitPinned("web", "web", "color", "B")
	ana.may("delete", "configmap", "web")
	ana.may("delete", "deployment", "web")
}

// Rules 17, 20: the policy and IsRevision must tell the same objects to be revisions. Some other object owns them all, so that
// they would be in use.
func TestGuardsKnowARevisionAsConfrevDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := configMap("owner")
	w.Create(owner)
	guarded := 0
	for name, form := range gen.RevisionForms() {
		form.ConfigMap.Namespace = w.NS
		form.ConfigMap.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
		for _, obj := range []client.Object{form.ConfigMap, &corev1.Secret{ObjectMeta: form.ConfigMap.ObjectMeta, Immutable: form.ConfigMap.Immutable}} {
			w.Must(cluster.Client.Create(w.Ctx, obj))
			err := cluster.Client.Delete(w.Ctx, obj, client.DryRunAll)
			if got := apierrors.IsForbidden(err); got != revision.IsRevision(obj) || !got && err != nil {
				t.Errorf("%T, %s: IsRevision says %t, the policy %v", obj, name, revision.IsRevision(obj), err)
			}
			if revision.IsRevision(obj) {
				guarded++
			}
		}
	}
	if guarded != 12 {
		t.Errorf("%d of the objects are revisions, want 12", guarded)
	}
}

// Rules 14, 17.
func TestOnlyConfrevTouchesTheAnchor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	anchor := configMap(revision.AnchorName)
	anchor.Annotations = map[string]string{keys.Anchor: "true"}
	other := configMap("other")
	other.Annotations = anchor.Annotations
	w.Create(anchor, other)
	const words = "configmap/confrev-anchor owns the revisions of this namespace that have very many users: if it is deleted, all of them are deleted, " +
		"in use or not. Leave it as it is; confrev deletes each revision after its last user."
	ana := w.tenant()
	for _, patch := range []string{
		`{"labels":{"team":"a"}}`, `{"annotations":{"confrev.io/anchor":null}}`, `{"finalizers":["example.com/keep"]}`,
		`{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"0"}]}`,
	} {
		ana.mayNot(words, "patch", "configmap", anchor.Name, "--type=merge", "-p", `{"metadata":`+patch+`}`)
	}
	ana.mayNot(words, "delete", "configmap", anchor.Name, "--wait=false")
	ana.mayNot(words, "delete", "configmaps", "--all", "--dry-run=server")
	ana.mayNot(words, "delete", "--raw", "/api/v1/namespaces/"+w.NS+"/configmaps?fieldSelector=metadata.name="+anchor.Name)
	ana.may("delete", "configmap", "other")

	// One that is not confrev's is no one's business.
	elsewhere := newWorld(t)
	elsewhere.Create(configMap(revision.AnchorName))
	bob := elsewhere.tenant()
	bob.may("label", "configmap", revision.AnchorName, "team=a")
	bob.may("delete", "configmap", revision.AnchorName)
}

// anchorManifest writes a ConfigMap confrev-anchor to a file: what its metadata has next to the name, and more fields.
func (w *world) anchorManifest(meta, rest string) string {
	w.Helper()
	return w.writeFile(w.TempDir(), "anchor.yaml", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"confrev-anchor"`+meta+`}`+rest+`}`)
}

// bait creates a ConfigMap, and returns how an object is owned by it and, in place of it, by what does not exist.
func (w *world) bait() (owned, dead string) {
	w.Helper()
	bait := configMap("bait")
	w.Create(bait)
	const owner = `"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"bait","uid":%q}]`
	return fmt.Sprintf(owner, bait.UID), fmt.Sprintf(owner, "dead")
}

const (
	marked        = `,"annotations":{"confrev.io/anchor":"true"}`
	anchorChanged = "configmap/confrev-anchor owns the revisions of this namespace that have very many users"
)

// Rules 14, 17: anyone who creates the anchor before confrev does cannot make one that is deleted with something of theirs, or that never goes.
// A backup has it as confrev made it.
func TestAnAnchorIsCreatedAsConfrevDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owned, dead := w.bait()
	ana := w.tenant()
	const words = "configmap/confrev-anchor is created with nothing but its annotation"
	for _, manifest := range []string{
		w.anchorManifest(marked+","+owned, ""), w.anchorManifest(marked+","+dead, ""),
		w.anchorManifest(marked+`,"finalizers":["example.com/keep"]`, ""),
		w.anchorManifest(marked, `,"data":{"k":"v"}`), w.anchorManifest(marked, `,"binaryData":{"k":""}`),
	} {
		ana.mayNot(words, "create", "-f", manifest)
		ana.mayNot(words, "apply", "--server-side", "-f", manifest)
	}
	ana.may("create", "-f", w.anchorManifest(marked, ""))
}

// Rules 14, 17: nor in two steps. One from before the guards can be made harmless.
func TestNothingIsMadeTheAnchorByAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owned, dead := w.bait()
	ana := w.tenant()
	patch := []string{"patch", "configmap", revision.AnchorName, "--type=merge", "-p"}
	ana.may("create", "-f", w.anchorManifest(","+owned, ""))
	ana.mayNot(anchorChanged, "annotate", "configmap", revision.AnchorName, keys.Anchor+"=true")
	ana.may("delete", "configmap", revision.AnchorName)
	ana.may("create", "-f", w.anchorManifest(marked, ""))
	ana.mayNot(anchorChanged, append(patch, `{"data":{"k":"v"}}`)...)
	ana.mayNot(anchorChanged, append(patch, `{"binaryData":{"k":""}}`)...)
	w.unguarded(append(patch, `{"data":{"k":"v"},"metadata":{"finalizers":["example.com/keep"],`+owned+`}}`)...)
	ana.mayNot(anchorChanged, append(patch, `{"metadata":{`+dead+`}}`)...)
	ana.may(append(patch, `{"data":null,"metadata":{"finalizers":null,"ownerReferences":null}}`)...)
}

// Rules 12, 13, 17: garbage collection continues, in all the ways that a user has to ask for it.
func TestGuardsLetGarbageCollectionThrough(t *testing.T) {
	t.Parallel()
	for _, cascade := range []string{"background", "foreground"} {
		t.Run(cascade, func(t *testing.T) {
			t.Parallel()
			w, a := deployed(t)
			w.WaitOwned(a.Revision, "web")
			w.tenant().may("delete", "deployment", "web", "--cascade="+cascade, "--timeout="+(4*patience).String())
			w.waitGone(a.Revision)
		})
	}
	t.Run("orphan", func(t *testing.T) {
		t.Parallel()
		w, a := deployed(t)
		w.WaitOwned(a.Revision, "web")
		used := w.replicaSetOf(a)
		ana := w.tenant()
		ana.may("delete", "deployment", "web", "--cascade=orphan", "--timeout="+(4*patience).String())
		w.Eventually("the ReplicaSet alone owns the revision", func() string {
			obj := &corev1.ConfigMap{}
			w.Must(w.Get(a.Revision, obj))
			if len(obj.OwnerReferences) != 1 || obj.OwnerReferences[0].Name != used {
				return fmt.Sprintf("owned by %+v", obj.OwnerReferences)
			}
			return ""
		})
		ana.mayNot("in use, owned by ReplicaSet/"+used+": pods may need it", "delete", "configmap", a.Revision)
		ana.may("delete", "replicaset", used)
		w.waitGone(a.Revision)
	})
}

// replicaSetOf returns the name of the ReplicaSet of Deployment web that has a pin.
func (w *world) replicaSetOf(pinned pin.Pin) string {
	w.Helper()
	for _, rs := range w.ReplicaSets("web") {
		if strings.HasSuffix(rs.Spec.Template.Annotations[keys.Pins], "="+pinned.String()) {
			return rs.Name
		}
	}
	w.Fatalf("no ReplicaSet is pinned to %s", pinned)
	return ""
}

// Rule 17: a namespace goes with all that is in it.
func TestGuardsLetANamespaceBeDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	anchor := configMap(revision.AnchorName)
	anchor.Annotations = map[string]string{keys.Anchor: "true"}
	w.Create(anchor, configMap("web", "color", "A"), secret("web", corev1.SecretTypeOpaque, "k", "v"),
		deployment("web", envFrom("web"), secretVolume("web")))
	w.WaitOwned(w.WaitPinned("web", "web", "color", "A").Revision, "web")
	w.Kubectl("delete", "namespace", w.NS, "--timeout="+(4*patience).String())
}

// Rule 17: it goes anyone who clears it.
func TestANamespaceThatIsBeingDeletedIsNotGuarded(t *testing.T) {
	t.Parallel()
	w, a := deployed(t)
	w.unguarded("patch", "configmap", a.Revision, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/keep"]}}`)
	ana := w.tenant()
	ana.mayNot("only confrev changes its labels", "label", "configmap", a.Revision, "team=a")
	w.Kubectl("delete", "namespace", w.NS, "--wait=false")
	w.Eventually("the namespace is known to be going", func() string {
		_, err := cluster.Kubectl(w.Ctx, "--namespace", w.NS, "label", "configmap", a.Revision, "team=a")
		return errorText(err)
	})
	w.Kubectl("patch", "configmap", a.Revision, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
}

// Rules 17, 18.
func TestGuardsKeepOutOfTheSystem(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{metav1.NamespaceSystem, env.Namespace} {
		forged := orphan()
		forged.Namespace = namespace
		env.Create(t, cluster.Client, forged)
		forged.Labels["team"] = "a"
		if err := cluster.Client.Update(t.Context(), forged); err != nil {
			t.Error(err)
		}
	}
}

// The API server bounds the cost of CEL. Owners of a kind that it does not serve are left alone by garbage collection.
func TestGuardsPassTheLargestRevisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	large := orphan()
	large.Annotations["padding"] = strings.Repeat("x", 255<<10)
	for i := range 1000 {
		large.OwnerReferences = append(large.OwnerReferences, metav1.OwnerReference{
			APIVersion: "example.com/v1", Kind: "Thing", Name: fmt.Sprintf("%0253d", i), UID: "0"})
	}
	w.Create(large)
	ana := w.tenant()
	ana.mayNot("in use, owned by Thing/0", "delete", "configmap", large.Name)
	ana.mayNot("only confrev changes its owners", "patch", "configmap", large.Name, "--type=json", "-p", `[{"op":"remove","path":"/metadata/ownerReferences/999"}]`)
	w.unguarded("patch", "configmap", large.Name, "--type=json", "-p",
		`[{"op":"replace","path":"/metadata/ownerReferences/0/name","value":"`+strings.Repeat("x", 5<<10)+`"}]`)
	ana.mayNot("denied request: this is a revision in use", "delete", "configmap", large.Name)
}
