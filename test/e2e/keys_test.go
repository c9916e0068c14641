//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

var dbSource = pin.Source{Kind: pin.Secret, Name: "db"}

// The workloads of these tests use all of secret/db: one is pinned to it, one restarts for it and says so on its template, and one
// restarts for it and has noted what it was when it opted in.
var keyedNames = []string{"pinned", "stamped", "noted"}

func keyedWorkloads() map[string]*appsv1.Deployment {
	all := map[string]*appsv1.Deployment{
		"pinned":  deployment("pinned", secretVolume("db")),
		"stamped": deployment("stamped", inMode(optin.Restart), secretVolume("db")),
		"noted":   deployment("noted", inMode(optin.Restart), secretVolume("db")),
	}
	for _, d := range all {
		d.Spec.Template.Annotations = map[string]string{}
	}
	return all
}

// shownOf returns what must not change where nothing is to roll.
func (w *world) shownOf(names ...string) string {
	w.Helper()
	var all []string
	for _, name := range names {
		d := w.Deployment(name)
		all = append(all, fmt.Sprintf("%s: template %v, %d ReplicaSets", name, d.Spec.Template.Annotations, len(w.ReplicaSets(name))))
	}
	return strings.Join(all, "\n")
}

func (w *world) secretRevisions(source string) []corev1.Secret {
	w.Helper()
	all := &corev1.SecretList{}
	w.Must(cluster.Client.List(w.Ctx, all, client.InNamespace(w.NS), client.HasLabels{keys.Content}))
	return slices.DeleteFunc(all.Items, func(s corev1.Secret) bool { return s.Annotations[keys.SourceName] != source })
}

func (w *world) key() *corev1.Secret {
	w.Helper()
	key := &corev1.Secret{}
	w.Must(w.Get(keys.KeySecret, key))
	return key
}

func (w *world) scheme() string {
	w.Helper()
	key, err := content.NewKey(w.key().Data["key"])
	w.Must(err)
	return key.Scheme()
}

// rollsOnce edits secret/db, and wants each workload to roll out once for it, and what it states then to be keyed.
func (w *world) rollsOnce(value string) {
	w.Helper()
	before := map[string]int{}
	for _, name := range keyedNames {
		before[name] = len(w.ReplicaSets(name))
	}
	old := w.Pins("pinned")[dbSource]
	w.EditSecret("db", "pin", value)
	_, made := w.waitSecretPinned("pinned", "db", old)
	scheme := w.scheme()
	if !strings.HasPrefix(made.Labels[keys.Content], scheme) {
		w.Errorf("the revision is labeled %s, the key is %s", made.Labels[keys.Content], scheme)
	}
	for _, name := range keyedNames[1:] {
		w.Eventually(name+" states the change", func() string {
			if now := w.hashes(name); !strings.HasPrefix(now, "secret/db="+scheme) {
				return "it states " + now + ", and the key is " + scheme
			}
			return ""
		})
	}
	w.Barrier()
	for _, name := range keyedNames {
		w.Eventually(name+" rolled out once", func() string {
			if now := len(w.ReplicaSets(name)); now != before[name]+1 {
				return fmt.Sprintf("%d ReplicaSets, before %d", now, before[name])
			}
			return ""
		})
	}
}

// Rule 22: a cluster whose Secrets were hashed without a key, as it is when a confrev that keys them begins to run.
func TestAnUpgradeFromUnkeyedHashesRollsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	source := secret("db", corev1.SecretTypeOpaque, "pin", "1234")
	source.Data = map[string][]byte{"pin": []byte("1234")}
	source.StringData = nil
	held := content.FromSecret(source)
	name := content.RevisionName("db", held.Hash(), 0)
	digests, _ := held.Digests().Text()
	old := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{keys.Source: "db", keys.Content: string(held.Hash())},
			Annotations: map[string]string{keys.SourceName: "db", keys.Number: "4", keys.KeyDigests: digests},
		},
		Immutable: new(true), Type: corev1.SecretTypeOpaque, Data: source.Data,
	}
	w.Create(source, old)
	all := keyedWorkloads()
	hash := "secret/db=" + held.Digests().Sum(true, nil) + "@4"
	all["pinned"].Spec.Template.Annotations[keys.Pins] = "secret/db=" + name + "@4"
	all["stamped"].Spec.Template.Annotations[keys.Hashes] = hash
	all["noted"].Annotations[keys.Hashes] = hash
	want := map[string]string{}
	for _, d := range all {
		// What is created is what the webhook makes of it from then on.
		want[d.Name] = fmt.Sprintf("%s: template %v, 1 ReplicaSets", d.Name, d.Spec.Template.Annotations)
	}
	w.Create(all["pinned"], all["stamped"], all["noted"])
	w.Eventually("rolled out", func() string { return w.NotRolledOut("pinned") + w.NotRolledOut("stamped") + w.NotRolledOut("noted") })
	w.Barrier()
	for name, was := range want {
		if now := w.shownOf(name); now != was {
			t.Errorf("created as %s\nit is  %s", was, now)
		}
	}
	if made := w.secretRevisions("db"); len(made) != 1 {
		t.Errorf("there are %d revisions", len(made))
	}
	w.rollsOnce("5678")
	// Back to what the unkeyed revision has: it is not published again.
	before := w.Pins("pinned")[dbSource]
	w.EditSecret("db", "pin", "1234")
	if p, _ := w.waitSecretPinned("pinned", "db", before); p.Revision == name {
		t.Errorf("pinned to %s", p)
	}
}

// deployedWithKey deploys the workloads, with a change that rolled out.
func (w *world) deployedWithKey() {
	w.Helper()
	source := secret("db", corev1.SecretTypeOpaque, "pin", "0000", "other", "canary-of-a-lost-key")
	w.Create(source)
	all := keyedWorkloads()
	w.Create(all["pinned"], all["stamped"])
	w.waitSecretPinned("pinned", "db", pin.Pin{})
	w.waitFollowed("stamped", "secret/db")
	w.Eventually("rolled out", func() string { return w.NotRolledOut("pinned") + w.NotRolledOut("stamped") })
	w.EditSecret("db", "pin", "1234")
	w.waitRestarted("stamped", "secret/db", "")
	w.Create(all["noted"])
	w.waitFollowed("noted", "secret/db")
	w.Barrier()
	w.Eventually("rolled out", func() string { return w.NotRolledOut("pinned") + w.NotRolledOut("stamped") + w.NotRolledOut("noted") })
}

// Rule 22.
func TestALostKeyRollsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployedWithKey()
	before, scheme := w.shownOf(keyedNames...), w.scheme()
	if !strings.Contains(before, scheme) || !strings.Contains(w.Deployment("noted").Annotations[keys.Hashes], scheme) {
		t.Fatalf("nothing states key %s: this test shows nothing\n%s", scheme, before)
	}
	w.unguarded("delete", "secret", keys.KeySecret)
	for _, name := range keyedNames {
		w.Kubectl("annotate", "deployment", name, "example.com/touched=yes")
	}
	for _, name := range keyedNames[1:] {
		w.touchUntil(name, "KeyLost", "the key with which secret/db was hashed is lost")
		w.Eventually(name+" has a new baseline", func() string {
			if note := w.Deployment(name).Annotations[keys.Hashes]; strings.Contains(note, scheme) || !strings.Contains(note, "secret/db="+w.scheme()) {
				return note
			}
			return ""
		})
	}
	w.Barrier()
	if now := w.shownOf(keyedNames...); now != before {
		t.Errorf("before the key was lost:\n%s\nafter it:\n%s", before, now)
	}
	if w.scheme() == scheme {
		t.Error("the key is the same")
	}
	w.rollsOnce("5678")
	w.tellsNothing(confrev, "KeyLost", "canary-of-a-lost-key")
}

// touchUntil makes confrev look at a workload until there is an event: nothing tells it that the key is gone, which its cache may show later.
func (w *world) touchUntil(deployment, reason, note string) {
	w.Helper()
	touched := 0
	w.Eventually(reason+" about "+deployment, func() string {
		notes := w.Events(reason, deployment)
		if slices.ContainsFunc(notes, func(text string) bool { return strings.Contains(text, note) }) {
			return ""
		}
		touched++
		w.Kubectl("annotate", "deployment", deployment, fmt.Sprint("example.com/touched=", touched), "--overwrite")
		return fmt.Sprintf("the events are %q", notes)
	})
}

// Rule 22: what is not confrev's is never taken for a key. Nothing of Secrets is pinned until it is gone.
func TestASecretThatIsNoKeyIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const canary = "canary-of-no-key"
	w.Create(secret(keys.KeySecret, corev1.SecretTypeOpaque, "key", canary), secret("db", corev1.SecretTypeOpaque, "password", canary),
		configMap("app", "k", "A"), deployment("web", envFrom("app"), secretVolume("db")))
	w.WaitEvent("KeyUnreadable", "web", "delete it")
	w.WaitPinned("web", "app", "k", "A")
	if got := w.PinsText("web"); strings.Contains(got, "secret/") {
		t.Errorf("pins are %s", got)
	}
	w.Kubectl("delete", "secret", keys.KeySecret)
	w.waitSecretPinned("web", "db", pin.Pin{})
	w.tellsNothing(confrev, "KeyUnreadable", canary)
}

// keyManifest writes a Secret confrev-key to a file: what its metadata has next to the name, and more fields.
func (w *world) keyManifest(meta, rest string) string {
	w.Helper()
	return w.writeFile(w.TempDir(), "key.yaml", `{"apiVersion":"v1","kind":"Secret","type":"confrev.io/key","metadata":{"name":"confrev-key"`+meta+
		`},"stringData":{"key":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`+rest+"}")
}

const (
	immutable  = `,"immutable":true`
	keyChanged = "secret/confrev-key is the key of this namespace's hashes"
)

// Rules 17 and 22: a key that garbage collection deletes with something else is lost whenever its maker wants.
func TestAKeyIsCreatedWithoutOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owned, dead := w.bait()
	ana := w.tenant()
	for _, manifest := range []string{
		w.keyManifest(","+owned, immutable), w.keyManifest(","+dead, immutable), w.keyManifest(","+owned, ""),
		w.keyManifest(`,"finalizers":["example.com/keep"]`, immutable),
	} {
		ana.mayNot("secret/confrev-key is created without owners and finalizers", "create", "-f", manifest)
	}
	ana.may("create", "-f", w.keyManifest("", immutable))
}

// Rules 17 and 22: nor in two steps.
func TestNothingIsMadeTheKeyByAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owned, _ := w.bait()
	ana := w.tenant()
	patch := []string{"patch", "secret", keys.KeySecret, "--type=merge", "-p"}
	ana.may("create", "-f", w.keyManifest("", ""))
	ana.mayNot(keyChanged, append(patch, `{"immutable":true,"metadata":{`+owned+`}}`)...)
	ana.mayNot(keyChanged, append(patch, `{"immutable":true}`)...)
	ana.may("delete", "secret", keys.KeySecret)
}

// Rule 22: where there were no guards, or only those of an earlier version, a key may have owners. It is not used before they are removed.
func TestAKeyWithOwnersIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owned, dead := w.bait()
	ana := w.tenant()
	patch := []string{"patch", "secret", keys.KeySecret, "--type=merge", "-p"}
	ana.may("create", "-f", w.keyManifest("", immutable))
	w.unguarded(append(patch, `{"metadata":{`+owned+`}}`)...)
	w.Create(secret("db", corev1.SecretTypeOpaque, "pin", "1"), deployment("web", secretVolume("db")))
	w.WaitEvent("KeyUnreadable", "web", "remove them")
	if got := w.PinsText("web"); got != "" {
		t.Errorf("pins are %s", got)
	}
	ana.mayNot(keyChanged, append(patch, `{"metadata":{`+dead+`}}`)...)
	ana.may(append(patch, `{"metadata":{"ownerReferences":null}}`)...)
	w.waitSecretPinned("web", "db", pin.Pin{})
}

// Rule 22: a backup is restored with other UIDs, and without owners. Whether the key is in it or not, nothing rolls.
func TestARestoredBackupRollsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deployedWithKey()
	for _, withKey := range []bool{true, false} {
		t.Run(fmt.Sprintf("with its key %t", withKey), func(t *testing.T) {
			restored := newWorld(t)
			restored.restore(w, withKey)
			restored.Eventually("rolled out", func() string {
				return restored.NotRolledOut("pinned") + restored.NotRolledOut("stamped") + restored.NotRolledOut("noted")
			})
			restored.Barrier()
			for _, name := range keyedNames {
				is, was := restored.Deployment(name), w.Deployment(name)
				if len(restored.ReplicaSets(name)) != 1 || fmt.Sprint(is.Spec.Template.Annotations) != fmt.Sprint(was.Spec.Template.Annotations) {
					t.Errorf("%s\nin the backup:\n%s", restored.shownOf(name), w.shownOf(name))
				}
			}
			if same := restored.scheme() == w.scheme(); same != withKey {
				t.Errorf("the key is the same: %t", same)
			}
			if !withKey {
				restored.WaitEvent("KeyLost", "stamped", "")
			} else if said := restored.Events("KeyLost", "stamped"); len(said) > 0 {
				t.Errorf("reported: %q", said)
			}
			restored.rollsOnce("5678")
		})
	}
}

// restore makes the objects of another namespace again, as a backup has them.
func (w *world) restore(from *world, withKey bool) {
	w.Helper()
	fresh := func(meta *metav1.ObjectMeta) {
		*meta = metav1.ObjectMeta{Name: meta.Name, Labels: meta.Labels, Annotations: meta.Annotations}
	}
	secrets, deployments := &corev1.SecretList{}, &appsv1.DeploymentList{}
	w.Must(cluster.Client.List(w.Ctx, secrets, client.InNamespace(from.NS)))
	w.Must(cluster.Client.List(w.Ctx, deployments, client.InNamespace(from.NS)))
	for i := range secrets.Items {
		if s := &secrets.Items[i]; withKey || s.Name != keys.KeySecret {
			fresh(&s.ObjectMeta)
			w.Create(s)
		}
	}
	for i := range deployments.Items {
		if d := &deployments.Items[i]; d.Name != "barrier" {
			fresh(&d.ObjectMeta)
			w.Create(d)
		}
	}
}

// Several replicas that need a key at once agree on one.
func TestReplicasMakeOneKey(t *testing.T) {
	t.Parallel()
	for range 3 {
		w := newWorld(t)
		schemes := make([]string, 8)
		var group sync.WaitGroup
		for i := range schemes {
			group.Go(func() {
				store := revision.NewStore(cluster.Client, cluster.Client, cluster.Client, time.Now, nil, 10)
				key, err := store.Key(w.Ctx, w.NS)
				if err != nil {
					t.Error(err)
				}
				schemes[i] = key.Scheme()
			})
		}
		group.Wait()
		if slices.Sort(schemes); schemes[0] == "" || schemes[0] != schemes[len(schemes)-1] || schemes[0] != w.scheme() {
			t.Errorf("the keys are %v", schemes)
		}
	}
}

// Anyone who may read all but Secrets cannot test a guess: nothing that can be computed from the content stands anywhere.
func TestNoOneCanTestAGuess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	})
	w.deployedWithKey()
	one := deployment("one", gen.Annotated(keys.RestartOn, "secret/db,persistentvolumeclaims.v1/data"), secretVolume("db"))
	w.Create(one)
	w.waitFollowed("one", "secret/db", "persistentvolumeclaims.v1/data")
	w.rollsOnce("5678")
	// A hold has notes of its own.
	w.Undo("pinned")
	w.Undo("stamped")
	w.Eventually("held", func() string {
		note, hashNote := w.Deployment("pinned").Annotations[keys.Held], w.Deployment("stamped").Annotations[keys.HeldHashes]
		if note == "" || hashNote == "" {
			return note + " " + hashNote
		}
		return ""
	})
	w.Kubectl("create", "rolebinding", "viewer", "--clusterrole=view", "--user=viewer-of-"+w.NS)
	w.Eventually("a viewer", func() string {
		_, err := cluster.Kubectl(w.Ctx, "--namespace", w.NS, "--as", "viewer-of-"+w.NS, "get", "deployments")
		return errorText(err)
	})
	if _, err := cluster.Kubectl(w.Ctx, "--namespace", w.NS, "--as", "viewer-of-"+w.NS, "get", "secrets"); err == nil {
		t.Fatal("a viewer may read Secrets: this test shows nothing")
	}
	seen := w.Kubectl("--as", "viewer-of-"+w.NS, "get", "-o", "yaml",
		"deployments,replicasets,pods,configmaps,persistentvolumeclaims,events,controllerrevisions")
	// Before Kubernetes 1.35, a viewer may not read the same events in this API.
	seen += w.Kubectl("get", "events.events.k8s.io", "-o", "yaml")
	if !strings.Contains(seen, "secret/db="+w.scheme()) || !strings.Contains(seen, "persistentvolumeclaims.v1/data="+w.scheme()) {
		t.Fatal("the workloads state nothing of what they follow: this test shows nothing")
	}
	// Not even those who may read the metadata of Secrets.
	secrets := &corev1.SecretList{}
	w.Must(cluster.Client.List(w.Ctx, secrets, client.InNamespace(w.NS)))
	for i := range secrets.Items {
		s := &secrets.Items[i]
		seen += fmt.Sprintln(s.Name, s.Labels, s.Annotations)
	}
	for _, value := range []string{"0000", "1234", "5678"} {
		guess := content.FromSecret(&corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"pin": []byte(value)}})
		computed := []string{string(guess.Hash())[3:], guess.Digests()["pin"], guess.Digests().Sum(true, nil)}
		for salt := range 16 {
			computed = append(computed, content.RevisionName("db", guess.Hash(), salt))
		}
		for _, text := range computed {
			if strings.Contains(seen, text) {
				t.Errorf("the guess %s can be tested: %s is there", value, text)
			}
		}
	}
	if strings.Contains(seen, string(w.key().Data["key"])) {
		t.Error("the key is there")
	}
}

// Who chose the key could test guesses. Anyone who may read all Secrets gains nothing by that, so a backup can come back.
func TestTheKeyIsGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ana := w.tenant()
	maker := "maker-of-" + w.NS
	w.Kubectl("create", "role", "maker", "--verb=create", "--resource=secrets")
	w.Kubectl("create", "rolebinding", "maker", "--role=maker", "--user="+maker)
	create := []string{"create", "secret", "generic", keys.KeySecret, "--type=confrev.io/key", "--from-literal=key=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}
	w.Eventually("the maker may not choose the key", func() string {
		_, err := cluster.Kubectl(w.Ctx, append([]string{"--namespace", w.NS, "--as", maker}, create...)...)
		if err == nil {
			t.Fatal("it may")
		}
		if !strings.Contains(err.Error(), "anyone who chose it could test guesses of Secrets") {
			return err.Error()
		}
		return ""
	})
	_, err := cluster.Kubectl(w.Ctx, "--namespace", w.NS, "--as", maker, "create", "secret", "generic", "other")
	w.Must(err)
	w.Create(secret("db", corev1.SecretTypeOpaque, "pin", "1"), deployment("web", secretVolume("db")))
	w.waitSecretPinned("web", "db", pin.Pin{})
	const words = "secret/confrev-key is the key of this namespace's hashes"
	ana.mayNot(words, "delete", "secret", keys.KeySecret)
	ana.mayNot(words, "annotate", "secret", keys.KeySecret, "a=b")
	ana.mayNot(words, "patch", "secret", keys.KeySecret, "--type=json", "-p", `[{"op":"add","path":"/metadata/finalizers","value":["example.com/a"]}]`)
	ana.mayNot("field is immutable", "patch", "secret", keys.KeySecret, "-p", `{"data":{"key":"YQ=="}}`)
	w.unguarded("delete", "secret", keys.KeySecret)
	ana.may(create...)

	c := thief(t)
	other := newWorld(t)
	for what, change := range map[string]func(*corev1.Secret){
		"":           func(*corev1.Secret) {},
		"mutable":    func(s *corev1.Secret) { s.Immutable = nil },
		"other type": func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
		"other data": func(s *corev1.Secret) { s.Data["other"] = nil },
		"a label":    func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} },
		"an owner": func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: types.UID("b")}}
		},
		"other name": func(s *corev1.Secret) { s.Name = "confrev-key2" },
	} {
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other.NS, Name: keys.KeySecret}, Type: optin.KeyType, Immutable: new(true),
			Data: map[string][]byte{"key": make([]byte, content.KeySize)}}
		change(made)
		if err := c.Create(w.Ctx, made, client.DryRunAll); (err == nil) != (what == "") ||
			err != nil && !strings.Contains(err.Error(), "confrev may not create what is neither a revision nor its anchor or key") {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.refused(c.Delete(w.Ctx, w.key(), client.DryRunAll), "confrev may not delete what is neither a revision nor asks to be attached")
}

// Rule 22: users who may list Secrets, but not read the key, are told what they lack, and not that confrev lacks it.
func TestPluginWithoutTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(secret("db", corev1.SecretTypeOpaque, "pin", "1"), deployment("web", secretVolume("db")))
	w.waitSecretPinned("web", "db", pin.Pin{})
	w.Barrier()
	named := rights("", []string{"secrets"}, "get")
	named.ResourceNames = []string{"db"}
	user := w.account("keyless", named, rights("", []string{"configmaps", "pods", "secrets"}, "list"),
		rights("apps", []string{"deployments", "replicasets"}, "list"))
	const lacks = "note: you may not get or create secret/confrev-key, the key of this namespace's hashes"
	for line, status := range map[string]int{"status deployment/web": 3, "history secret/db": 0, "uses secret/db": 0, "doctor": 0} {
		got := w.plugin(append(strings.Fields(line), user)...)
		if got.status != status || strings.Count(got.stderr, lacks) != 1 || strings.Contains(got.stdout, keys.KeySecret) {
			t.Errorf("%s: status %d, want %d, with %q\n%s%s", line, got.status, status, lacks, got.stdout, got.stderr)
		}
	}
	w.shows(w.plugin("status", "deployment/web", user), 3, []string{"deployment/web", "secret/db"}, "1", "-", "Unknown", "1@1")
}
