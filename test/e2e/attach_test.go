//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/test/gen"
)

// attachable makes a ConfigMap of a name that is unique per deploy.
func attachable(name string, annotations ...string) *corev1.ConfigMap {
	cm := configMap(name, "color", name)
	cm.Annotations = map[string]string{keys.Attach: "true"}
	for _, key := range annotations {
		cm.Annotations[key] = "true"
	}
	return cm
}

// deploy changes the name that Deployment web reads, as deploy tools do.
func (w *world) deploy(configMap string) {
	w.Helper()
	w.Kubectl("patch", "deployment", "web", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/template/spec/containers/0/envFrom/0/configMapRef/name","value":"`+configMap+`"}]`)
	w.Eventually("rolled out", func() string { return w.NotRolledOut("web") })
}

// waitOwners waits until exactly the Deployment and the ReplicaSets that name a ConfigMap own it.
func (w *world) waitOwners(name string) {
	w.Helper()
	w.Eventually(name+" is owned by those that use it", func() string {
		cm := &corev1.ConfigMap{}
		if err := w.Get(name, cm); err != nil {
			return err.Error()
		}
		var got, want []string
		for _, o := range cm.OwnerReferences {
			got = append(got, o.Name)
		}
		for _, rs := range w.ReplicaSets("web") {
			if rs.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name == name {
				want = append(want, rs.Name)
			}
		}
		slices.Sort(want)
		got = slices.DeleteFunc(got, func(n string) bool { return n == "web" })
		slices.Sort(got)
		if len(want) == 0 || !slices.Equal(got, want) {
			return fmt.Sprintf("owners %q, want %q", got, want)
		}
		return ""
	})
}

func (w *world) waitGone(name string) {
	w.Helper()
	w.Eventually(name+" goes", func() string {
		if !w.Gone(name) {
			return "still there"
		}
		return ""
	})
}

// Mode attach: a ConfigMap of each deploy goes with the last ReplicaSet that uses it, and no earlier; the workload's
// template is never touched.
func TestModeAttach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(attachable("web-v1"), configMap("plain", "k", "v"),
		deployment("web", inMode(optin.Attach), gen.Tracking("all"), gen.HistoryLimit(1), envFrom("web-v1"), volume("plain")))
	w.waitOwners("web-v1")
	w.Create(attachable("web-v2"))
	w.deploy("web-v2")
	w.waitOwners("web-v2")
	w.waitOwners("web-v1")
	// A rollback by hand uses the old one again.
	w.Undo("web")
	w.Eventually("rolled back", func() string { return w.NotRolledOut("web") })
	w.waitOwners("web-v1")
	w.Create(attachable("web-v3"))
	w.deploy("web-v3")
	w.waitGone("web-v2")
	w.waitOwners("web-v1")
	if w.Deployment("web").Spec.Template.Annotations[keys.Pins] != "" {
		t.Error("the template was touched")
	}
	plain := &corev1.ConfigMap{}
	w.Must(w.Get("plain", plain))
	if len(plain.OwnerReferences) > 0 {
		t.Errorf("what is not marked for it was attached: %+v", plain.OwnerReferences)
	}
	w.Kubectl("delete", "deployment", "web")
	w.waitGone("web-v1")
	w.waitGone("web-v3")
	if w.Gone("plain") {
		t.Error("a user's object went")
	}
}

// The annotation of Pulumi's recipe marks too, without confrev.io/track; an object that no one has used yet stays.
func TestModeAttachTakesThePulumiAnnotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	marked := configMap("web-1a2b", "k", "v")
	marked.Annotations = map[string]string{"configmap.kubernetes.io/revision-managed": "true"}
	w.Create(marked, attachable("early"), deployment("web", inMode(optin.Attach), gen.Untracked, gen.Annotated(keys.Mode, "attach"), envFrom("web-1a2b")))
	w.waitOwners("web-1a2b")
	w.graceTimePasses()
	if w.Gone("early") {
		t.Error("an object that was never attached went")
	}
}

// While one workload attaches a ConfigMap, every other holder that uses it owns it too: else it would go under them.
func TestAttachedSourceStaysForOtherHolders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(attachable("shared"), deployment("web", inMode(optin.Attach), envFrom("shared")), deployment("other", gen.Untracked, envFrom("shared")))
	other := w.Deployment("other").Spec.Template
	w.Eventually("both own it", func() string {
		cm := &corev1.ConfigMap{}
		w.Must(w.Get("shared", cm))
		if len(cm.OwnerReferences) != 4 {
			return fmt.Sprint(len(cm.OwnerReferences), " owners")
		}
		return ""
	})
	w.Barrier()
	if diff := cmp.Diff(other, w.Deployment("other").Spec.Template); diff != "" {
		t.Errorf("a workload that asked for nothing was changed (-before +after):\n%s", diff)
	}
	w.Kubectl("delete", "deployment", "web")
	w.Eventually("the other is left", func() string {
		cm := &corev1.ConfigMap{}
		w.Must(w.Get("shared", cm))
		if len(cm.OwnerReferences) != 2 {
			return fmt.Sprint(len(cm.OwnerReferences), " owners")
		}
		return ""
	})
}

// idle makes a CronJob that has no Job and did not opt in.
func idle(name, configMap string) *batchv1.CronJob {
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: name}}
	cron.Spec.Schedule, cron.Spec.Suspend = "0 0 1 1 *", new(true)
	cron.Spec.JobTemplate.Spec.Template = deployment(name, envFrom(configMap)).Spec.Template
	cron.Spec.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return cron
}

// A workload that begins to name an attached source owns it too, before it has a holder: its next Job needs the source.
func TestAttachedSourceStaysForACronJobWithoutJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(attachable("shared"), configMap("before", "k", "v"), idle("later", "before"), deployment("web", inMode(optin.Attach), envFrom("shared")))
	w.waitOwners("shared")
	w.Kubectl("patch", "cronjob", "later", "--type=json", "-p",
		`[{"op":"replace","path":"/spec/jobTemplate/spec/template/spec/containers/0/envFrom/0/configMapRef/name","value":"shared"}]`)
	owners := func() (names []string) {
		cm := &corev1.ConfigMap{}
		w.Must(w.Get("shared", cm))
		for _, o := range cm.OwnerReferences {
			names = append(names, o.Name)
		}
		return names
	}
	w.Eventually("it owns the source", func() string {
		if names := owners(); !slices.Contains(names, "later") {
			return fmt.Sprintf("owners %q", names)
		}
		return ""
	})
	w.Kubectl("delete", "deployment", "web")
	w.Eventually("it is left", func() string {
		if names := owners(); !slices.Equal(names, []string{"later"}) {
			return fmt.Sprintf("owners %q", names)
		}
		return ""
	})
}

// Opting out of attach, by the source or by the workload, leaves workload and source as they are.
func TestOptingOutOfAttach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(attachable("web-v1", keys.Protect), deployment("web", inMode(optin.Attach), gen.Untracked, gen.Annotated(keys.Mode, "attach"), envFrom("web-v1")))
	w.waitOwners("web-v1")
	template := w.Deployment("web").Spec.Template
	w.Kubectl("annotate", "deployment", "web", keys.Mode+"-")
	w.Barrier()
	if diff := cmp.Diff(template, w.Deployment("web").Spec.Template); diff != "" {
		t.Errorf("taking the mode away changed the template (-before +after):\n%s", diff)
	}
	w.Kubectl("annotate", "configmap", "web-v1", keys.Attach+"-")
	w.Eventually("the source is the user's alone again", func() string {
		cm := &corev1.ConfigMap{}
		w.Must(w.Get("web-v1", cm))
		if len(cm.OwnerReferences)+len(cm.Finalizers) > 0 || cm.Annotations[keys.Attached] != "" {
			return fmt.Sprintf("%+v", cm.ObjectMeta)
		}
		return ""
	})
	w.Kubectl("delete", "deployment", "web")
	w.graceTimePasses()
	if w.Gone("web-v1") {
		t.Error("it went with the workload")
	}
}

// Rule 16: protection keeps what a deploy tool deletes early, exactly as long as a holder uses it.
func TestProtectedSourceStaysWhileUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(attachable("web-v1", keys.Protect), deployment("web", inMode(optin.Attach), gen.HistoryLimit(0), envFrom("web-v1")))
	w.waitOwners("web-v1")
	w.Eventually("the finalizer is on", func() string {
		cm := &corev1.ConfigMap{}
		w.Must(w.Get("web-v1", cm))
		return missingFinalizer(cm)
	})
	w.Kubectl("delete", "configmap", "web-v1", "--wait=false")
	w.Barrier()
	if w.Gone("web-v1") {
		t.Fatal("it went while pods use it")
	}
	w.Create(attachable("web-v2"))
	w.deploy("web-v2")
	w.waitGone("web-v1")
	// Without the wish, the finalizer goes.
	w.Kubectl("annotate", "configmap", "web-v2", keys.Protect+"=true")
	w.Eventually("the finalizer is on", func() string {
		cm := &corev1.ConfigMap{}
		w.Must(w.Get("web-v2", cm))
		return missingFinalizer(cm)
	})
	w.Kubectl("annotate", "configmap", "web-v2", keys.Protect+"-")
	w.Eventually("the finalizer is off", func() string {
		cm := &corev1.ConfigMap{}
		w.Must(w.Get("web-v2", cm))
		if missingFinalizer(cm) == "" {
			return "still on"
		}
		return ""
	})
}

// Rule 16: a workload that did not opt in, and has no holder, is waited for, until it goes.
func TestProtectedSourceStaysForACronJobWithoutJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(attachable("web-v1", keys.Protect), attachable("web-v2"), idle("later", "web-v1"),
		deployment("web", inMode(optin.Attach), gen.HistoryLimit(0), envFrom("web-v1")))
	w.Eventually("the finalizer is on", func() string {
		cm := &corev1.ConfigMap{}
		w.Must(w.Get("web-v1", cm))
		return missingFinalizer(cm)
	})
	w.Kubectl("delete", "configmap", "web-v1", "--wait=false")
	w.deploy("web-v2")
	w.Eventually("the earlier ReplicaSet goes", func() string {
		if n := len(w.ReplicaSets("web")); n != 1 {
			return fmt.Sprint(n, " ReplicaSets")
		}
		return ""
	})
	w.Barrier()
	if w.Gone("web-v1") {
		t.Fatal("it went while a CronJob names it")
	}
	w.Kubectl("delete", "cronjob", "later")
	w.waitGone("web-v1")
}

// Rule 16: a protected source does not keep its namespace from going, whatever still uses it there.
func TestProtectedSourceGoesWithItsNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(attachable("web-v1", keys.Protect), deployment("web", inMode(optin.Attach), envFrom("web-v1")))
	w.waitOwners("web-v1")
	w.Eventually("web-v1 is protected", func() string {
		cm := &corev1.ConfigMap{}
		w.Must(w.Get("web-v1", cm))
		return missingFinalizer(cm)
	})
	// A holder that outlives the source: it must not be waited for.
	for _, rs := range w.ReplicaSets("web") {
		w.Kubectl("patch", "replicaset", rs.Name, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/stays"]}}`)
	}
	w.Must(cluster.Client.Delete(w.Ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.NS}}))
	w.waitGone("web-v1")
	for name := range strings.FieldsSeq(w.Kubectl("get", "replicasets", "-o", "name")) {
		w.Kubectl("patch", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	}
	w.Eventually("the namespace goes", func() string {
		err := cluster.Client.Get(w.Ctx, client.ObjectKey{Name: w.NS}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprint("it is still there: ", err)
	})
}

func missingFinalizer(cm *corev1.ConfigMap) string {
	if slices.Contains(cm.Finalizers, keys.ProtectFinalizer) {
		return ""
	}
	return "no finalizer"
}

// Rule 12: while confrev is down, ReplicaSets come that it cannot attach, and those that it attached go.
func attachedSourceInUseStays(m *member) {
	w := newWorld(m.T)
	w.Create(attachable("web-v1"), deployment("web", inMode(optin.Attach), gen.HistoryLimit(0), envFrom("web-v1")))
	w.waitOwners("web-v1")
	m.next()
	for _, image := range []string{"app:2", "app:3"} {
		w.Kubectl("set", "image", "deployment/web", "app="+image)
		w.Kubectl("rollout", "status", "deployment/web")
	}
	w.collected("web-v1")
	if w.Gone("web-v1") {
		m.Error("garbage collection took what the pods use")
	}
	m.next()
	w.waitOwners("web-v1")
}

// An ownerReference of the user's own is no attachment: confrev deletes nothing for it.
func TestOwnedSourceIsNotSweptInModeRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"), deployment("web", envFrom("web")))
	d := w.Deployment("web")
	owned := attachable("mine")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: d.UID}}
	w.Create(owned)
	w.WaitPinned("web", "web", "color", "A")
	w.graceTimePasses()
	if w.Gone("mine") {
		t.Error("it went")
	}
}
