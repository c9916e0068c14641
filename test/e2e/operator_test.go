//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// WebApp is a kind that confrev knows by its --config only. Its operator, like many a real one, makes one ReplicaSet for
// each template, scales the new one up and then the others down, and keeps a history of them.
var webApp = schema.GroupVersionKind{Group: "e2e.confrev.io", Version: "v1", Kind: "WebApp"}

// webAppValues tell the chart of the kind.
var webAppValues = []string{
	"workloads[0].group=e2e.confrev.io", "workloads[0].version=v1", "workloads[0].kind=WebApp", "workloads[0].plural=webapps",
	"workloads[0].holder.group=apps", "workloads[0].holder.version=v1", "workloads[0].holder.kind=ReplicaSet",
	"workloads[0].holder.plural=replicasets",
	"workloads[1].group=e2e.confrev.io", "workloads[1].version=v1", "workloads[1].kind=PrunedApp", "workloads[1].plural=prunedapps",
	"workloads[1].holder.group=apps", "workloads[1].holder.version=v1", "workloads[1].holder.kind=ReplicaSet",
	"workloads[1].holder.plural=replicasets",
}

const webAppCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: webapps.e2e.confrev.io}
spec:
  group: e2e.confrev.io
  scope: Namespaced
  names: {kind: WebApp, listKind: WebAppList, plural: webapps, singular: webapp}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// prunedApp is a kind whose schema says of its template's metadata what generators say by default, so that the API server prunes
// annotations. It has no operator.
var prunedApp = schema.GroupVersionKind{Group: "e2e.confrev.io", Version: "v1", Kind: "PrunedApp"}

const prunedAppCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: prunedapps.e2e.confrev.io}
spec:
  group: e2e.confrev.io
  scope: Namespaced
  names: {kind: PrunedApp, listKind: PrunedAppList, plural: prunedapps, singular: prunedapp}
  versions:
  # The one that the API server prefers is not the one that confrev is configured with.
  - name: v2
    served: true
    storage: false
    schema: &schema
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              template:
                type: object
                properties:
                  metadata: {type: object}
                  spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
  - {name: v1, served: true, storage: true, schema: *schema}
`

// revisionAnnotation is where the operator numbers its ReplicaSets, as the Deployment controller does.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// webAppHash is the label by which a ReplicaSet's pods are its own.
const webAppHash = "e2e.confrev.io/hash"

// removeWebApps takes the configured kinds away that an earlier run left on the cluster.
func removeWebApps(ctx context.Context) error {
	_, err := cluster.Kubectl(ctx, "delete", "crd", "webapps.e2e.confrev.io", "prunedapps.e2e.confrev.io", "--ignore-not-found", "--timeout="+patience.String())
	return err
}

// installWebApps makes the API server serve the configured kinds.
func installWebApps(ctx context.Context) error {
	if _, err := cluster.Run(ctx, webAppCRD+"---"+prunedAppCRD, "kubectl", "apply", "-f", "-"); err != nil {
		return err
	}
	return cluster.WaitEstablished(ctx, "crd/webapps.e2e.confrev.io", "crd/prunedapps.e2e.confrev.io")
}

// waitHandled waits until confrev handles the configured kinds. What is created before is not pinned within its request, and not at all if its optional
// sources are missing (rule 6).
func waitHandled(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		metrics, err := confrev.ReadMetrics(ctx)
		handled := func(controller string) bool {
			return metrics.Sum("controller_runtime_max_concurrent_reconciles", "controller", controller) > 0
		}
		return err == nil && handled("webapp."+webApp.Group) && handled("prunedapp."+webApp.Group), err
	})
}

// startOperator installs the kind and runs its operator until ctx ends.
func startOperator(ctx context.Context) error {
	if err := installWebApps(ctx); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme: clientgoscheme.Scheme, Metrics: server.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return err
	}
	err = builder.ControllerManagedBy(manager).Named("webapp").For(newWebApp()).
		Owns(&appsv1.ReplicaSet{}, builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Complete(&operator{client: manager.GetClient()})
	if err != nil {
		return err
	}
	go func() {
		if err := manager.Start(ctx); err != nil {
			panic(fmt.Sprint("the test operator ended: ", err))
		}
	}()
	return nil
}

func newWebApp() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(webApp)
	return obj
}

type operator struct{ client client.Client }

// Reconcile looks again after conflicts.
func (o *operator) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	app := newWebApp()
	if err := o.client.Get(ctx, request.NamespacedName, app); err != nil || app.GetDeletionTimestamp() != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{}, o.reconcile(ctx, app)
}

func (o *operator) reconcile(ctx context.Context, app *unstructured.Unstructured) error {
	template, found, err := unstructured.NestedMap(app.Object, "spec", "template")
	if err != nil || !found {
		return nil //nolint:nilerr // a template that is none is its user's affair
	}
	all := &appsv1.ReplicaSetList{}
	if err := o.client.List(ctx, all, client.InNamespace(app.GetNamespace())); err != nil {
		return err
	}
	sets := slices.DeleteFunc(all.Items, func(rs appsv1.ReplicaSet) bool { return !metav1.IsControlledBy(&rs, app) })
	slices.SortFunc(sets, func(a, b appsv1.ReplicaSet) int { return cmp.Compare(number(b), number(a)) })
	latest := int64(0)
	if len(sets) > 0 {
		latest = number(sets[0])
	}
	text, err := json.Marshal(template)
	if err != nil {
		return err
	}
	hash := fnv.New32a()
	hash.Write(text)
	name := fmt.Sprintf("%s-%08x", app.GetName(), hash.Sum32())
	i := slices.IndexFunc(sets, func(rs appsv1.ReplicaSet) bool { return rs.Name == name })
	if i < 0 {
		rs, err := replicaSetOf(app, text, name, latest+1)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		err = o.client.Create(ctx, rs)
		if apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		return err
	}
	return o.scale(ctx, app, sets, sets[i], latest)
}

func (o *operator) scale(ctx context.Context, app *unstructured.Unstructured, sets []appsv1.ReplicaSet, current appsv1.ReplicaSet, latest int64) error {
	want, _, _ := unstructured.NestedInt64(app.Object, "spec", "replicas")
	if number(current) < latest || int64(*current.Spec.Replicas) != want {
		return o.patch(ctx, &current, fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}},"spec":{"replicas":%d}}`,
			revisionAnnotation, max(number(current), latest+1), want))
	}
	available := current.Status.ObservedGeneration >= current.Generation && int64(current.Status.AvailableReplicas) >= want
	limit, limited, _ := unstructured.NestedInt64(app.Object, "spec", "revisionHistoryLimit")
	var replicas, kept int64
	for _, rs := range sets {
		replicas += int64(rs.Status.Replicas)
		switch {
		case rs.UID == current.UID:
		case available && *rs.Spec.Replicas > 0:
			if err := o.patch(ctx, &rs, `{"spec":{"replicas":0}}`); err != nil {
				return err
			}
		case *rs.Spec.Replicas == 0 && rs.Status.Replicas == 0:
			if kept++; limited && kept > limit {
				if err := client.IgnoreNotFound(o.client.Delete(ctx, &rs)); err != nil {
					return err
				}
			}
		}
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{
		"observedGeneration": app.GetGeneration(), "replicas": replicas,
		"updatedReplicas": current.Status.Replicas, "availableReplicas": current.Status.AvailableReplicas,
	}})
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(o.client.Status().Patch(ctx, app, client.RawPatch(types.MergePatchType, status)))
}

func (o *operator) patch(ctx context.Context, rs *appsv1.ReplicaSet, text string) error {
	return client.IgnoreNotFound(o.client.Patch(ctx, rs, client.RawPatch(types.MergePatchType, []byte(text))))
}

// number returns the ReplicaSet's number among those of its WebApp.
func number(rs appsv1.ReplicaSet) int64 {
	n, err := strconv.ParseInt(rs.Annotations[revisionAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func replicaSetOf(app *unstructured.Unstructured, text []byte, name string, number int64) (*appsv1.ReplicaSet, error) {
	template := corev1.PodTemplateSpec{}
	if err := json.Unmarshal(text, &template); err != nil {
		return nil, err
	}
	labels := map[string]string{webAppHash: name}
	maps.Copy(labels, template.Labels)
	template.Labels = labels
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: app.GetNamespace(), Name: name, Labels: labels,
			Annotations:     map[string]string{revisionAnnotation: strconv.FormatInt(number, 10)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(app, webApp)},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	}, nil
}
