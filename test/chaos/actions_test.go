//go:build chaos

package chaos

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/polymorphichelpers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
)

const (
	trackKey     = keys.Track
	modeKey      = keys.Mode
	injectionKey = keys.Injection
	advanceKey   = keys.Advance
)

// waits are the settings that make changes wait. A history ends without them.
var waits = []string{keys.Advance, keys.FreezeUntil, keys.Steps, keys.MaxRolling, keys.Bake, keys.OnFailure}

func nested(value any, path ...string) map[string]any {
	for _, key := range slices.Backward(path) {
		value = map[string]any{key: value}
	}
	return value.(map[string]any)
}

func editSource(key string) func(*play, step) error {
	return func(p *play, s step) error {
		value := s.value
		if s.on.kind() == "secret" {
			value = base64.StdEncoding.EncodeToString([]byte(value))
		}
		return p.patch(s.on, nested(value, "data", key))
	}
}

func label(p *play, s step) error {
	return p.patch(s.on, nested(s.value, "metadata", "labels", "example.com/label"))
}

func create(p *play, s step) error {
	obj := source(s.on, "a", "x")
	if isWorkload(s.on) {
		obj = workload(s.on)
	}
	return p.create(obj)
}

func remove(p *play, s step) error { return p.delete(s.on, metav1.DeletePropagationBackground) }

func orphan(p *play, s step) error { return p.delete(s.on, metav1.DeletePropagationOrphan) }

// inTemplate returns a patch of the pod template of a workload.
func inTemplate(r ref, value any, path ...string) map[string]any {
	return nested(value, slices.Concat(templatePath(r.kind()), path)...)
}

// deploy does what kubectl set image does. Argo Rollouts' kind has no strategic merge patch.
func deploy(p *play, s step) error {
	image := "app:" + s.value
	if s.on.kind() == "rollout" {
		return p.change(s.on, types.JSONPatchType, []any{
			map[string]any{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image},
			map[string]any{"op": "add", "path": "/metadata/annotations/example.com~1step", "value": p.stamp()},
		})
	}
	containers := []any{map[string]any{"name": "app", "image": image}}
	return p.change(s.on, types.StrategicMergePatchType, p.stamped(inTemplate(s.on, containers, "spec", "containers")))
}

func restart(p *play, s step) error {
	at := time.Now().Format(time.RFC3339Nano)
	return p.patch(s.on, inTemplate(s.on, at, "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"))
}

func nonsense(p *play, s step) error {
	if s.value == noPin {
		p.robbed[s.on] = true
	}
	return p.patch(s.on, inTemplate(s.on, s.value, "metadata", "annotations", keys.Pins))
}

func scale(p *play, s step) error {
	return p.patch(s.on, nested(json.Number(s.value), "spec", "replicas"))
}

func pause(p *play, s step) error {
	return p.patch(s.on, nested(s.value == "true", "spec", "paused"))
}

func limit(p *play, s step) error {
	if s.on.kind() == "cronjob" {
		return p.patch(s.on, nested(json.Number(s.value), "spec", "successfulJobsHistoryLimit"))
	}
	return p.patch(s.on, nested(json.Number(s.value), "spec", "revisionHistoryLimit"))
}

func annotateTo(key string) func(*play, step) error {
	return func(p *play, s step) error { return p.annotate(s.on, map[string]any{key: s.value}) }
}

func freeze(p *play, s step) error {
	ahead, err := time.ParseDuration(s.value)
	if err != nil {
		return err
	}
	return p.annotate(s.on, map[string]any{keys.FreezeUntil: time.Now().Add(ahead).UTC().Format(time.RFC3339)})
}

func spread(p *play, s step) error {
	return p.annotate(s.on, map[string]any{keys.Steps: "1", keys.MaxRolling: "1", keys.Bake: "100ms", keys.OnFailure: s.value})
}

func unset(p *play, s step) error {
	settings := map[string]any{}
	for _, key := range waits {
		settings[key] = nil
	}
	return p.annotate(s.on, settings)
}

const quotaName = ref("resourcequota/none")

// quota lets no further pods be created.
func quota(p *play, _ step) error {
	if p.exists[quotaName] {
		p.note("there is a quota already")
		return nil
	}
	obj := quotaName.object()
	obj.Object["spec"] = nested("0", "hard", "pods")
	return p.create(obj)
}

func unquota(p *play, _ step) error {
	if !p.exists[quotaName] {
		p.note("there is no quota")
		return nil
	}
	return p.delete(quotaName, metav1.DeletePropagationBackground)
}

func killPods(p *play, s step) error {
	p.line("kubectl delete pods -l app=%s --wait=false", s.on.name())
	return p.client.DeleteAllOf(p.Ctx, &corev1.Pod{}, client.InNamespace(p.NS), client.MatchingLabels{"app": s.on.name()})
}

// prune deletes the oldest ReplicaSet that has no pods.
func prune(p *play, s step) error {
	w, err := p.read(s.on)
	if err != nil {
		return err
	}
	sets := &appsv1.ReplicaSetList{}
	if err := p.client.List(p.Ctx, sets, client.InNamespace(p.NS)); err != nil {
		return err
	}
	old := slices.DeleteFunc(sets.Items, func(rs appsv1.ReplicaSet) bool {
		return !metav1.IsControlledBy(&rs, w) || rs.Status.Replicas > 0 || *rs.Spec.Replicas > 0 || rs.Status.ObservedGeneration < rs.Generation
	})
	// The newest one may be about to get its pods.
	if len(old) < 2 {
		p.note("%s has no old ReplicaSets", s.on)
		return nil
	}
	slices.SortFunc(old, func(a, b appsv1.ReplicaSet) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	p.line("kubectl delete replicaset %s --wait=false", old[0].Name)
	return client.IgnoreNotFound(p.client.Delete(p.Ctx, &old[0]))
}

// job starts a Job as kubectl create job --from does.
func job(p *play, s step) error {
	w, err := p.read(s.on)
	if err != nil {
		return err
	}
	made := ref(fmt.Sprintf("job/%s-%d", s.on.name(), p.now)).object()
	spec, _, err := unstructured.NestedMap(w.Object, "spec", "jobTemplate", "spec")
	if err != nil {
		return err
	}
	made.Object["spec"] = spec
	made.SetAnnotations(map[string]string{"cronjob.kubernetes.io/instantiate": "manual"})
	made.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(w, kinds["cronjob"])})
	p.line("kubectl create job %s --from=cronjob/%s", made.GetName(), s.on.name())
	made.SetNamespace(p.NS)
	return p.client.Create(p.Ctx, made)
}

// notUndone are the reasons for which kubectl rollout undo does nothing.
var notUndone = []string{"no rollout history found", "cannot rollback a paused deployment", "no last revision to roll back to", "unable to find"}

// undo does what kubectl rollout undo does, with its code.
func undo(p *play, s step) error {
	obj := map[string]client.Object{"deployment": &appsv1.Deployment{}, "statefulset": &appsv1.StatefulSet{}, "daemonset": &appsv1.DaemonSet{}}[s.on.kind()]
	key := client.ObjectKey{Namespace: p.NS, Name: s.on.name()}
	if err := p.client.Get(p.Ctx, key, obj); err != nil {
		return err
	}
	rollbacker, err := polymorphichelpers.RollbackerFor(kinds[s.on.kind()].GroupKind(), p.clientset)
	if err != nil {
		return err
	}
	p.line("kubectl rollout undo %s", s.on)
	said, err := rollbacker.Rollback(obj.(runtime.Object), nil, 0, cmdutil.DryRunNone)
	if err != nil && slices.ContainsFunc(notUndone, func(why string) bool { return strings.Contains(err.Error(), why) }) {
		said, err = err.Error(), nil
	}
	p.note("%s", said)
	return err
}

// pass lets time pass: what happens next depends on how far confrev has come.
func pass(p *play, s step) error {
	d, err := time.ParseDuration(s.value)
	if err != nil {
		return err
	}
	p.line("sleep %g", d.Seconds())
	time.Sleep(d)
	return nil
}
