//go:build e2e

package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
)

// subject is a kind of workload: all that the tests know of one kind and not of the others.
type subject struct {
	name string
	// kind is what a user makes and opts in.
	kind workload.Kind
	// templated is the kind of the object of the same name that has the pod template. It is kind itself except for a Rollout's
	// workloadRef.
	templated workload.Kind
	// spec returns the spec of an object of kind around the template.
	spec func(name string, template map[string]any) map[string]any
	// others returns what must exist in addition to it.
	others func(name string, template map[string]any) []*unstructured.Unstructured
	// history is where kind says how many holders are kept, kept that number for the holders of one earlier template.
	history string
	kept    int64
	// rollBack undoes the last rollout as a user of the kind does. Nil where there is no such thing.
	rollBack func(a *app)
	// start makes pods of the template where the workload itself does not, and rolls nothing out.
	start func(a *app)
	// partly makes the next rollout stop half-way, where unready pods alone do not.
	partly func(a *app)
	// pods is how many there are when nothing rolls out, old how many of them stay when the new ones do not become ready.
	pods, old int
	// renewed is true when the pod that replaces an old one in the middle of a rollout is a new one: so it is with DaemonSets.
	renewed bool
}

func (s subject) String() string { return s.name }

// replicasOfSubjects is how many pods a workload has that is scaled.
const replicasOfSubjects = 2

var (
	aDeployment = subject{
		name: "Deployment", kind: workload.Deployment, rollBack: kubectlUndo,
		spec: scaled(map[string]any{"strategy": map[string]any{"rollingUpdate": surge}}),
	}
	aStatefulSet = subject{
		name: "StatefulSet", kind: workload.StatefulSet, rollBack: kubectlUndo,
		spec:   scaled(map[string]any{"serviceName": "none"}),
		partly: func(a *app) { a.patch(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}`) },
		old:    1,
	}
	aDaemonSet = subject{
		name: "DaemonSet", kind: workload.DaemonSet, rollBack: kubectlUndo,
		spec: func(name string, template map[string]any) map[string]any {
			return map[string]any{"selector": selectorOf(name), "template": template}
		},
		pods: 3, old: 2, renewed: true,
	}
	aCanary = subject{
		name: "RolloutCanary", kind: workload.Rollout, rollBack: argoUndo, spec: scaled(strategy("canary", surge)),
	}
	aStepwiseCanary = subject{
		name: "RolloutStepwise", kind: workload.Rollout, rollBack: argoUndo,
		spec: scaled(strategy("canary", map[string]any{
			"maxSurge": int64(1), "maxUnavailable": int64(0),
			"steps": []any{map[string]any{"setWeight": int64(50)}, map[string]any{"pause": map[string]any{}}},
		})),
	}
	aBlueGreen = subject{
		name: "RolloutBlueGreen", kind: workload.Rollout, rollBack: argoUndo,
		spec: func(name string, template map[string]any) map[string]any {
			fields := map[string]any{"activeService": name, "scaleDownDelaySeconds": int64(1)}
			return scaled(strategy("blueGreen", fields))(name, template)
		},
		others: func(name string, _ map[string]any) []*unstructured.Unstructured {
			return []*unstructured.Unstructured{service(name)}
		},
	}
	aReferringRollout = subject{
		name: "RolloutWorkloadRef", kind: workload.Rollout, templated: workload.Deployment, rollBack: argoUndo,
		spec: func(name string, template map[string]any) map[string]any {
			spec := scaled(strategy("canary", surge))(name, template)
			delete(spec, "template")
			spec["workloadRef"] = map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
			return spec
		},
		others: func(name string, template map[string]any) []*unstructured.Unstructured {
			return []*unstructured.Unstructured{objectOf(workload.Deployment.GVK, name, map[string]any{
				"replicas": int64(0), "selector": selectorOf(name), "template": template, "revisionHistoryLimit": int64(1)})}
		},
	}
	aCronJob = subject{
		name: "CronJob", kind: workload.CronJob,
		spec: func(_ string, template map[string]any) map[string]any {
			put(template, "spec.restartPolicy", "Never")
			return map[string]any{
				"schedule": "0 0 1 1 *", "suspend": true,
				"jobTemplate": map[string]any{"spec": map[string]any{"template": template}},
			}
		},
		history: "spec.successfulJobsHistoryLimit", kept: 2, start: startJob, pods: 1,
	}
	aWebApp = subject{
		name: "Configured", kind: workload.Kind{GVK: webApp, Path: "spec.template", Holder: workload.ReplicaSet},
		rollBack: webAppUndo, spec: scaled(nil),
	}
)

// subjects are all kinds.
var subjects = complete(
	aDeployment, aStatefulSet, aDaemonSet, aCanary, aStepwiseCanary, aBlueGreen, aReferringRollout, aCronJob, aWebApp,
)

// complete fills in what is alike for most kinds.
func complete(all ...subject) []subject {
	for i := range all {
		s := &all[i]
		if s.templated == (workload.Kind{}) {
			s.templated = s.kind
		}
		s.history, s.kept = cmp.Or(s.history, "spec.revisionHistoryLimit"), cmp.Or(s.kept, 1)
		s.pods = cmp.Or(s.pods, replicasOfSubjects)
		s.old = cmp.Or(s.old, s.pods)
	}
	return all
}

// surge replaces one pod at a time, and none before the new one is ready.
var surge = map[string]any{"maxSurge": int64(1), "maxUnavailable": int64(0)}

func strategy(name string, fields map[string]any) map[string]any {
	return map[string]any{"strategy": map[string]any{name: fields}}
}

func selectorOf(name string) map[string]any {
	return map[string]any{"matchLabels": map[string]any{"app": name}}
}

// scaled returns the spec of a kind with replicas, a selector and a template.
func scaled(fields map[string]any) func(string, map[string]any) map[string]any {
	return func(name string, template map[string]any) map[string]any {
		spec := map[string]any{"replicas": int64(replicasOfSubjects), "selector": selectorOf(name), "template": template}
		maps.Copy(spec, runtime.DeepCopyJSON(fields))
		return spec
	}
}

func objectOf(gvk schema.GroupVersionKind, name string, spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSON(spec)}}
	obj.SetGroupVersionKind(gvk)
	obj.SetName(name)
	return obj
}

func service(name string) *unstructured.Unstructured {
	return objectOf(corev1.SchemeGroupVersion.WithKind("Service"), name, map[string]any{
		"selector": map[string]any{"app": name}, "ports": []any{map[string]any{"port": int64(80)}}})
}

// at reads a field of an object by its path.
func at(object map[string]any, path string) any {
	value, _, err := unstructured.NestedFieldNoCopy(object, strings.Split(path, ".")...)
	if err != nil {
		return nil
	}
	return value
}

func count(object map[string]any, path string) int64 {
	n, _ := at(object, path).(int64)
	return n
}

func put(object map[string]any, path string, value any) {
	if err := unstructured.SetNestedField(object, value, strings.Split(path, ".")...); err != nil {
		panic(err)
	}
}

// rollingOut complains until the workload has rolled out its template. It promotes a Rollout that has paused, or waits for an
// experiment, as its user would.
func (a *app) rollingOut() string {
	a.Helper()
	obj := a.kind.New()
	a.Must(a.Get(a.name, obj))
	left := a.kind.Progress(obj).Left
	o, ok := obj.(*unstructured.Unstructured)
	if !ok || a.kind != workload.Rollout || at(o.Object, "status.observedGeneration") != strconv.FormatInt(o.GetGeneration(), 10) {
		return left
	}
	if a.templated != a.kind {
		if seen := at(o.Object, "status.workloadObservedGeneration"); seen != strconv.FormatInt(a.templateObject().GetGeneration(), 10) {
			return "its controller has not seen its Deployment yet"
		}
	}
	if at(o.Object, "status.phase") == "Paused" || at(o.Object, "status.canary.currentExperiment") != nil {
		a.argo("promote", a.name, "--full")
		return "promoted"
	}
	// A Rollout is healthy while old pods are still there.
	want := count(o.Object, "spec.replicas")
	if updated, all := count(o.Object, "status.updatedReplicas"), count(o.Object, "status.replicas"); left == "" && (updated != want || all != want) {
		return fmt.Sprintf("%d of %d updated, want %d", updated, all, want)
	}
	return left
}

func kubectlUndo(a *app) { a.Kubectl("rollout", "undo", a.resource()) }

// argo runs kubectl's plugin of Argo Rollouts.
func (w *world) argo(args ...string) string {
	w.Helper()
	out, err := cluster.Run(w.Ctx, "", "kubectl-argo-rollouts", append(args, "--namespace", w.NS)...)
	w.Must(err)
	return out
}

func argoUndo(a *app) { a.argo("undo", a.name) }

// webAppUndo does what a tool for such a kind would: it puts the template of the ReplicaSet before back.
func webAppUndo(a *app) {
	sets := a.holders()
	slices.SortFunc(sets, func(x, y unstructured.Unstructured) int { return int(numberOf(y) - numberOf(x)) })
	template := at(sets[1].Object, a.kind.Path).(map[string]any)
	labels := at(template, "metadata.labels").(map[string]any)
	delete(labels, webAppHash)
	a.Eventually("the template before is back", func() string {
		o := a.object()
		put(o.Object, a.kind.Path, template)
		err := cluster.Client.Update(a.Ctx, o)
		// Its operator writes the status at any time.
		if apierrors.IsConflict(err) {
			return err.Error()
		}
		a.Must(err)
		return ""
	})
}

func numberOf(o unstructured.Unstructured) int64 {
	n, _ := strconv.ParseInt(o.GetAnnotations()[revisionAnnotation], 10, 64)
	return n
}

func startJob(a *app) {
	a.job = "job-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	a.Kubectl("create", "job", a.job, "--from=cronjob/"+a.name)
}

// everyForm returns the template of a pod that refers to a ConfigMap and to a Secret in every form (rule 1).
func everyForm(name, configMap, secret string) map[string]any {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(0)),
		InitContainers:                []corev1.Container{{Name: "init", Image: "app:1"}},
		Containers:                    []corev1.Container{{Name: "app", Image: "app:1"}},
	}}
	template.Labels = map[string]string{"app": name}
	spec := &template.Spec
	refs := []sourceRef{{kind: pin.ConfigMap, name: configMap}, {kind: pin.Secret, name: secret}}
	for _, ref := range refs {
		spec.Volumes = append(spec.Volumes, ref.volume(string(ref.kind)))
		for _, c := range []*corev1.Container{&spec.InitContainers[0], &spec.Containers[0]} {
			c.Env = append(c.Env, ref.env(strings.ToUpper(string(ref.kind))))
			c.EnvFrom = append(c.EnvFrom, ref.envFrom())
		}
	}
	spec.Volumes = append(spec.Volumes, projected("both", refs...))
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
	if err != nil {
		panic(err)
	}
	return object
}

// references is how many everyForm has.
const references = 12
