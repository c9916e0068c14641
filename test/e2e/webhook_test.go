//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// onlyReplicaSets fails unless a Deployment ever had just so many ReplicaSets, all of them pinned.
func (w *world) onlyReplicaSets(deployment string, want int) {
	w.Helper()
	all := w.ReplicaSets(deployment)
	if len(all) != want {
		w.Errorf("%s has %d ReplicaSets, want %d\n%s", deployment, len(all), want, w.Describe())
	}
	for _, rs := range all {
		if rs.Spec.Template.Annotations[keys.Pins] == "" {
			w.Errorf("ReplicaSet %s has no pins", rs.Name)
		}
	}
	if revision := w.Deployment(deployment).Annotations["deployment.kubernetes.io/revision"]; revision != fmt.Sprint(want) {
		w.Errorf("%s was rolled out %s times, want %d", deployment, revision, want)
	}
}

// Rules 2 and 7: the first ReplicaSet is right already, whichever comes first.
func TestAFirstDeployMakesOneReplicaSet(t *testing.T) {
	t.Parallel()
	objects := strings.SplitN(manifest, "---", 2)
	for name, order := range map[string][]int{"configuration first": {0, 1}, "workload first": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, i := range order {
				w.KubectlIn(objects[i], "apply", "-f", "-")
			}
			w.WaitPinned("web", "web", "color", "A")
			w.Barrier()
			w.onlyReplicaSets("web", 1)
			d := w.Deployment("web")
			if d.Spec.Paused || d.Annotations[keys.Paused] != "" {
				t.Errorf("paused: %v, note %q", d.Spec.Paused, d.Annotations[keys.Paused])
			}
		})
	}
}

// Rule 7: a pause that is not confrev's is never lifted; one that is says what it waits for.
func TestOnlyConfrevsOwnPausesEnd(t *testing.T) {
	t.Parallel()
	t.Run("by confrev, and the user continues without", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Create(deployment("web", envFrom("web")))
		if d := w.Deployment("web"); !d.Spec.Paused || d.Annotations[keys.Paused] != "configmap/web" {
			t.Fatalf("paused: %v, note %q", d.Spec.Paused, d.Annotations[keys.Paused])
		}
		w.WaitEvent("Paused", "web", "until configmap/web can be pinned")
		w.Kubectl("rollout", "resume", "deployment/web")
		w.Eventually("the note goes", func() string { return w.Deployment("web").Annotations[keys.Paused] })
	})
	t.Run("by confrev, for as long as the user waits for a rollout", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Create(deployment("web", envFrom("web"), func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(3)) }))
		w.WaitEvent("PauseEnded", "web", "Resumed 3s after its creation although configmap/web cannot be pinned")
		if d := w.Deployment("web"); d.Spec.Paused || d.Annotations[keys.Paused] != "" {
			t.Errorf("paused: %v, note %q", d.Spec.Paused, d.Annotations[keys.Paused])
		}
		w.Create(configMap("web", "color", "A"))
		w.WaitPinned("web", "web", "color", "A")
	})
	t.Run("not for a Secret that a CSI volume may make", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Create(deployment("web", func(d *appsv1.Deployment) {
			spec := &d.Spec.Template.Spec
			spec.Volumes = []corev1.Volume{{Name: "store", VolumeSource: corev1.VolumeSource{
				CSI: &corev1.CSIVolumeSource{Driver: "secrets-store.csi.k8s.io", ReadOnly: new(true)}}}}
			spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "synced"}}}}
		}))
		w.WaitEvent("SourceMissing", "web", "secret/synced")
		if d := w.Deployment("web"); d.Spec.Paused || d.Annotations[keys.Paused] != "" {
			t.Errorf("paused: %v, note %q", d.Spec.Paused, d.Annotations[keys.Paused])
		}
		w.Eventually("web has a ReplicaSet, for whose first pod the driver makes the Secret", func() string {
			if len(w.ReplicaSets("web")) != 1 {
				return "none"
			}
			return ""
		})
		w.Create(secret("synced", corev1.SecretTypeOpaque, "k", "v"))
		w.Eventually("pinned", func() string {
			if !strings.HasPrefix(w.PinsText("web"), "secret/synced=") {
				return w.PinsText("web")
			}
			return ""
		})
	})
	t.Run("by confrev, and the user opts out", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Create(deployment("web", envFrom("web")))
		w.Kubectl("annotate", "deployment/web", keys.Track+"=none", "--overwrite")
		w.Eventually("resumed", func() string {
			if d := w.Deployment("web"); d.Spec.Paused || d.Annotations[keys.Paused] != "" {
				return fmt.Sprintf("paused: %v, note %q", d.Spec.Paused, d.Annotations[keys.Paused])
			}
			return ""
		})
	})
	t.Run("by the user", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		d := deployment("web", envFrom("web"))
		d.Spec.Paused = true
		w.Create(d)
		w.Create(configMap("web", "color", "A"))
		w.Eventually("pinned", func() string {
			if w.PinOf("web", "web") == (pin.Pin{}) {
				return "no pin"
			}
			return ""
		})
		w.Barrier()
		if d := w.Deployment("web"); !d.Spec.Paused || d.Annotations[keys.Paused] != "" {
			t.Errorf("paused: %v, note %q", d.Spec.Paused, d.Annotations[keys.Paused])
		}
	})
	t.Run("a source that is optional", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Create(deployment("web", envKey("web", "color", true)))
		if w.Deployment("web").Spec.Paused {
			t.Error("paused for a source that need not be there")
		}
	})
}

// Rule 2: new code and new configuration that are deployed together are one ReplicaSet, never old code with new
// configuration.
func TestADeployTakesTheConfigurationAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := strings.Replace(manifest, "confrev.io/track: all", "confrev.io/track: all, confrev.io/settle: "+never, 1)
	w.KubectlIn(first, "apply", "-f", "-")
	w.WaitPinned("web", "web", "color", "A")
	next := strings.ReplaceAll(strings.ReplaceAll(first, "color: A", "color: B"), "app:1", "app:2")
	w.KubectlIn(next, "apply", "-f", "-")
	if w.PinOf("web", "web").Number != 2 {
		t.Errorf("the pin is %s right after the deploy", w.PinOf("web", "web"))
	}
	w.WaitPinned("web", "web", "color", "B")
	w.Barrier()
	w.onlyReplicaSets("web", 2)
	w.WaitEvent("RolledForward", "web", "configmap/web")
	// With the settle time of a deploy, a hold that ends would show only after the barriers. An undo keeps settings (rule 21.5).
	w.Kubectl("annotate", "deployment/web", keys.Settle+"-")
	w.Undo("web")
	w.WaitHeld("web", "web")
	w.Barrier()
	if d := w.Deployment("web"); w.PinOf("web", "web").Number != 1 || d.Spec.Template.Spec.Containers[0].Image != "app:1" {
		t.Errorf("after the undo: %s, %s", w.PinOf("web", "web"), d.Spec.Template.Spec.Containers[0].Image)
	}
	// Rule 21.3: the undo was about the image too, so fixed code takes the present configuration along.
	w.Kubectl("set", "image", "deployment/web", "app=app:3")
	if got := w.PinOf("web", "web"); got.Number != 2 {
		t.Errorf("with fixed code the pin is %s", got)
	}
}

// A dry run shows what would be written, and leaves nothing behind.
func TestADryRunMakesNoRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"))
	d := deployment("web", envFrom("web"))
	d.Namespace = w.NS
	w.Must(cluster.Client.Create(w.Ctx, d, client.DryRunAll))
	pins, err := pin.Parse(d.Spec.Template.Annotations[keys.Pins])
	if err != nil || len(pins) != 1 {
		t.Errorf("pins %q, %v", d.Spec.Template.Annotations[keys.Pins], err)
	}
	w.Barrier()
	if made := w.Revisions("web"); len(made) > 0 {
		t.Errorf("a dry run made %s", made[0].Name)
	}
}

// Rule 4: when a pin may advance.
func TestAdvance(t *testing.T) {
	t.Parallel()
	t.Run("on-deploy", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Create(configMap("web", "color", "A"), deployment("web", envFrom("web"), gen.Annotated(keys.Advance, "on-deploy")))
		a := w.WaitPinned("web", "web", "color", "A")
		w.Edit("web", "color", "B")
		w.WaitEvent("WaitingToAdvance", "web", "configmap/web")
		w.Barrier()
		if got := w.PinOf("web", "web"); got != a {
			t.Fatalf("it advanced to %s without a deploy", got)
		}
		w.Kubectl("scale", "deployment/web", "--replicas=2")
		w.Kubectl("set", "image", "deployment/web", "app=app:2")
		w.WaitPinned("web", "web", "color", "B")
		w.Barrier()
		w.onlyReplicaSets("web", 2)
	})
	t.Run("manual", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.Create(configMap("web", "color", "A"), deployment("web", envFrom("web"), gen.Annotated(keys.Advance, "manual")))
		a := w.WaitPinned("web", "web", "color", "A")
		w.Edit("web", "color", "B")
		w.Kubectl("set", "image", "deployment/web", "app=app:2")
		w.Barrier()
		if got := w.PinOf("web", "web"); got != a {
			t.Fatalf("it advanced to %s by itself", got)
		}
		w.Kubectl("annotate", "deployment/web", keys.Advance+"=auto", "--overwrite")
		w.WaitPinned("web", "web", "color", "B")
	})
}

// Stand-alone Jobs are pinned at their creation or never, and hold their revisions.
func TestAStandAloneJobHoldsItsRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(configMap("web", "color", "A"))
	revision := w.standAloneJob(envFrom("web"))
	w.Edit("web", "color", "B")
	w.Barrier()
	w.Must(w.Get(revision.Name, revision))
	if revision.Data["color"] != "A" {
		t.Errorf("the Job's revision has %q", revision.Data)
	}
	w.Kubectl("delete", "job/migrate")
	w.waitGone(revision.Name)
}

// standAloneJob creates Job migrate, which uses configmap/web, waits until the Job owns the revision that it is pinned to, and returns
// that.
func (w *world) standAloneJob(uses deploymentOption) *corev1.ConfigMap {
	w.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "migrate", Annotations: map[string]string{keys.Track: "all"}},
		Spec:       batchv1.JobSpec{Template: deployment("web", uses).Spec.Template},
	}
	job.Spec.Template.Labels = nil
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	w.Create(job)
	pins, err := pin.Parse(job.Spec.Template.Annotations[keys.Pins])
	w.Must(err)
	revision := &corev1.ConfigMap{}
	w.Eventually("the Job owns its revision", func() string {
		w.Must(w.Get(pins[pin.Source{Kind: pin.ConfigMap, Name: "web"}].Revision, revision))
		if o := revision.OwnerReferences; len(o) != 1 || o[0].UID != job.UID {
			return fmt.Sprint("owned by ", o)
		}
		return ""
	})
	return revision
}
