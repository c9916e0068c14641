package view

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/installation"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// seen is what a user may list of a namespace: its objects, except those of some kinds.
type seen struct {
	objects []client.Object
	refused []string
}

// client returns a client with the user's rights. It only lists and reads; what an API server does by itself is left to the end-to-end tests.
func (s seen) client(t *testing.T) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	list := func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		// Not the fake client's scheme: it adds kinds to that while it lists.
		gvk, err := apiutil.GVKForObject(list, clientgoscheme.Scheme)
		if err != nil {
			return err
		}
		kind := strings.TrimSuffix(gvk.Kind, "List")
		if slices.Contains(s.refused, kind) {
			return apierrors.NewForbidden(schema.GroupResource{Group: gvk.Group, Resource: strings.ToLower(kind) + "s"}, "", nil)
		}
		if kind == "Pod" {
			// The fake client knows no field selectors; all pods of these tests run.
			options = []client.ListOption{client.InNamespace(gen.Namespace)}
		}
		return c.List(ctx, list, options...)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gen.Namespace}}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(namespace).WithObjects(s.objects...).
		WithInterceptorFuncs(interceptor.Funcs{List: list}).WithReturnManagedFields().Build()
}

// view takes a view.
func (s seen) view(t *testing.T) *View {
	t.Helper()
	v, err := Take(t.Context(), s.client(t), installation.Installation{Options: installation.DefaultOptions(), Namespace: installation.DefaultNamespace}, gen.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// done makes a Deployment of one pod look rolled out.
func done(d *appsv1.Deployment) {
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
}

// podOf returns a pod of a ReplicaSet of Deployment web, which carries some pins.
func podOf(replicaSet, pins string) *corev1.Pod {
	yes := true
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: gen.Namespace, Name: replicaSet + "-x", Annotations: map[string]string{keys.Pins: pins},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet, UID: types.UID("replicaset-" + replicaSet), Controller: &yes}},
	}}
}

// forged looks like the newest revision of configmap/app, except for its name, which does not follow from its content.
func forged(name string) *corev1.ConfigMap {
	cm := gen.RevisionOfApp("b", "9")
	cm.Name, cm.Data = name, map[string]string{"k": "evil"}
	return cm
}

var (
	first, second = gen.PinOfApp("a", "1"), gen.PinOfApp("b", "2")
	revisions     = []client.Object{gen.RevisionOfApp("a", "1"), gen.RevisionOfApp("b", "2")}
)

func with(more ...client.Object) []client.Object { return slices.Concat(revisions, more) }

func TestStatusOfAWorkload(t *testing.T) {
	paused := func(d *appsv1.Deployment) { d.Spec.Paused = true }
	for name, test := range map[string]struct {
		seen
		state   State
		message string
		current string
	}{
		"rolled out": {seen{objects: with(gen.App("b"), gen.Web("app:1", gen.Pinned(second), done))}, RolledOut, "", gen.NameOfRevision("b")},
		"the source is missing": {seen{objects: []client.Object{gen.Web("app:1", done)}}, Missing,
			"configmap/app does not exist; new pods cannot start until it is created", ""},
		"a key is missing": {seen{objects: []client.Object{gen.App("b"), gen.Deployment("web", gen.Tracking("all"), gen.Template(gen.Env("configmap/app", "other")), done)}},
			Missing, `configmap/app lacks ["other"], which a container requires`, gen.NameOfRevision("b")},
		"held": {seen{objects: with(gen.App("b"), gen.Web("app:1", gen.Pinned(first), gen.Annotated(keys.Held, gen.HeldOn(second, first)), done))},
			Held, "rolled back; stays until", gen.NameOfRevision("b")},
		"waiting for approval": {seen{objects: with(gen.App("b"), gen.Web("app:1", gen.Pinned(first), gen.Annotated(keys.Advance, "manual"), done))},
			Waiting, "waits until a person advances it (annotation confrev.io/advance)", gen.NameOfRevision("b")},
		"paused": {seen{objects: with(gen.App("b"), gen.Web("app:1", gen.Pinned(first), paused, done))},
			Paused, "spec.paused is set", gen.NameOfRevision("b")},
		"about to advance":                    {seen{objects: with(gen.App("b"), gen.Web("app:1", gen.Pinned(first), done))}, Advancing, "not pinned yet", gen.NameOfRevision("b")},
		"a forged revision is not current":    {seen{objects: with(forged("app-forged"), gen.App("b"), gen.Web("app:1", gen.Pinned(second), done))}, RolledOut, "", gen.NameOfRevision("b")},
		"no right to list ConfigMaps":         {seen{with(gen.App("b"), gen.Web("app:1", gen.Pinned(second), done)), []string{"ConfigMap"}}, Unknown, "configmaps", ""},
		"not tracked":                         {seen{objects: with(gen.App("b"), gen.Web("app:1", gen.Untracked, gen.Pinned(first), done))}, Untracked, "", ""},
		"a pod without the pin":               {seen{objects: with(gen.App("b"), gen.Web("app:1", gen.Pinned(second), done), gen.Ran("web-1", 1, "app:1", second), podOf("web-1", first))}, NotResolved, "1 of 1 pods do not carry the pin", gen.NameOfRevision("b")},
		"pods that may not be seen are right": {seen{with(gen.App("b"), gen.Web("app:1", gen.Pinned(second), done), gen.Ran("web-1", 1, "app:1", second), podOf("web-1", first)), []string{"Pod"}}, RolledOut, "", gen.NameOfRevision("b")},
	} {
		t.Run(name, func(t *testing.T) {
			v := test.view(t)
			list, err := v.Status(t.Context(), Which{Objects: []Object{webObject}})
			if err != nil || len(list.Items) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			got := list.Items[0]
			if got.State != test.state || !strings.Contains(got.Message, test.message) || test.message == "" && got.Message != "" {
				t.Errorf("it is %s: %q", got.State, got.Message)
			}
			current := ""
			if len(got.Sources) == 1 && got.Sources[0].Current != nil {
				current = got.Sources[0].Current.Name
			}
			if current != test.current {
				t.Errorf("current is %q, want %q", current, test.current)
			}
			if missing := len(test.refused) > 0; missing != (len(list.Notes) > 0) {
				t.Errorf("refused: %v, notes: %q", test.refused, list.Notes)
			}
		})
	}
}

// webObject is deployment/web as a user names it.
var webObject = Object{GroupKind: schema.GroupKind{Group: "apps", Kind: "Deployment"}, Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Name: "web"}

// A Rollout that has its template in another workload leads there: one step, since references may go in a circle.
func TestStatusOfARolloutThatRefers(t *testing.T) {
	rollout := func(name, kind, to string) *unstructured.Unstructured {
		reference := map[string]any{"apiVersion": workload.Rollout.GVK.GroupVersion().String(), "kind": kind, "name": to}
		if kind == "Deployment" {
			reference["apiVersion"] = "apps/v1"
		}
		r := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"workloadRef": reference}}}
		r.SetGroupVersionKind(workload.Rollout.GVK)
		r.SetNamespace(gen.Namespace)
		r.SetName(name)
		return r
	}
	for name, test := range map[string]struct {
		objects   []client.Object
		want, err string
	}{
		"to a Deployment":              {[]client.Object{rollout("a", "Deployment", "web"), gen.Deployment("web")}, "deployment/web", ""},
		"to a Deployment that is gone": {[]client.Object{rollout("a", "Deployment", "web")}, "", `deployments.apps "web" not found`},
		"to itself":                    {[]client.Object{rollout("a", "Rollout", "a")}, "rollout/a", ""},
		"in a circle":                  {[]client.Object{rollout("a", "Rollout", "b"), rollout("b", "Rollout", "a")}, "rollout/b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := Object{GroupKind: workload.Rollout.GVK.GroupKind(), Resource: schema.GroupResource{Group: "argoproj.io", Resource: "rollouts"}, Name: "a"}
			list, err := seen{objects: test.objects}.view(t).Status(t.Context(), Which{Objects: []Object{object}})
			if test.err != "" {
				if err == nil || err.Error() != test.err {
					t.Errorf("got %v, want %s", err, test.err)
				}
				return
			}
			if err != nil || len(list.Items) != 1 || list.Items[0].Workload != test.want {
				t.Errorf("got %+v, %v", list, err)
			}
		})
	}
}

func sourceObject(name string) Object {
	return Object{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Resource: schema.GroupResource{Resource: "configmaps"}, Name: name}
}

// A revision is listed with what uses it, and the one that has the source's content is current.
func TestHistoryOfASource(t *testing.T) {
	v := seen{objects: with(gen.App("b"), gen.Web("app:1", gen.Pinned(second)), gen.Ran("web-1", 1, "app:1", first), podOf("web-1", first))}.view(t)
	for name, object := range map[string]Object{"by its name": sourceObject("app"), "by a workload": webObject} {
		t.Run(name, func(t *testing.T) {
			list, err := v.History(t.Context(), []Object{object}, true)
			if err != nil || len(list.Items) != 1 || len(list.Items[0].Revisions) != 2 {
				t.Fatalf("%+v, %v", list, err)
			}
			old, now := list.Items[0].Revisions[0], list.Items[0].Revisions[1]
			if old.Name != gen.NameOfRevision("a") || old.Current || old.Pods != 1 || !slices.Equal(old.Holders, []string{"replicaset/web-1"}) ||
				!slices.Equal(old.Workloads, []string{"deployment/web"}) || !slices.Equal(old.Changes.Added, []string{"k"}) || old.Bytes != 2 {
				t.Errorf("the first is %+v", old)
			}
			if now.Name != gen.NameOfRevision("b") || !now.Current || now.Pods != 0 || len(now.Holders) > 0 || !slices.Equal(now.Changes.Changed, []string{"k"}) {
				t.Errorf("the second is %+v", now)
			}
		})
	}
	for name, want := range map[string]string{"none": `configmaps "none" not found`, gen.NameOfRevision("a"): "is itself a revision; its source is configmap/app"} {
		if _, err := v.History(t.Context(), []Object{sourceObject(name)}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of %s: %v", name, err)
		}
	}
}

func TestUsesOfASource(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: "once"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: *gen.PodSpec(gen.EnvFrom("configmap/app"))}}}
	live := gen.App("b")
	live.Annotations = map[string]string{keys.Policy: "live"}
	for name, test := range map[string]struct {
		objects []client.Object
		want    Effect
		reason  string
	}{
		"tracked":                  {with(gen.App("b"), gen.Web("app:1", gen.Pinned(second))), Rolls, ""},
		"in mode restart":          {[]client.Object{gen.App("b"), gen.Web("app:1", gen.Annotated(keys.Mode, "restart"))}, Restarts, ""},
		"held":                     {with(gen.App("b"), gen.Web("app:1", gen.Pinned(first), gen.Annotated(keys.Held, gen.HeldOn(second, first)))), Rolls, "held now; a change to the source ends that"},
		"waiting for approval":     {with(gen.App("b"), gen.Web("app:1", gen.Pinned(second), gen.Annotated(keys.Advance, "manual"))), Waits, "until a person advances it (annotation confrev.io/advance)"},
		"paused":                   {with(gen.App("b"), gen.Web("app:1", gen.Pinned(second), func(d *appsv1.Deployment) { d.Spec.Paused = true })), Waits, "until it is resumed: spec.paused is set"},
		"not tracked":              {[]client.Object{gen.App("b"), gen.Web("app:1", gen.Untracked)}, Stays, "not tracked: see the annotation confrev.io/track"},
		"with the policy live":     {[]client.Object{live, gen.Web("app:1")}, Stays, "confrev.io/policy: live; pods read the source itself"},
		"before the source exists": {[]client.Object{gen.Web("app:1")}, Rolls, ""},
		"a Job by itself":          {[]client.Object{gen.App("b"), job}, Stays, "the template of a Job never changes"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := seen{objects: test.objects}.view(t).Uses(t.Context(), []Object{sourceObject("app")})
			if err != nil || len(list.Items) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			if got := list.Items[0]; got.Effect != test.want || got.Reason != test.reason || len(got.Keys) > 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
	v := seen{objects: []client.Object{gen.App("b")}}.view(t)
	if list, err := v.Uses(t.Context(), []Object{sourceObject("app")}); err != nil || len(list.Items) > 0 {
		t.Errorf("of an unused source: %+v, %v", list, err)
	}
	if _, err := v.Uses(t.Context(), []Object{webObject}); err == nil || !strings.Contains(err.Error(), "is not a source") {
		t.Errorf("of a workload: %v", err)
	}
}

func TestDiagnosisOfANamespace(t *testing.T) {
	now := gen.Created.Add(48 * time.Hour)
	leak := gen.RevisionOfApp("a", "1")
	leak.CreationTimestamp = gen.Created
	held := gen.Web("app:1", gen.Pinned(first), gen.Annotated(keys.Held, gen.HeldOn(second, first)))
	recent, old := gen.RevisionOfApp("b", "2"), gen.RevisionOfApp("b", "2")
	recent.CreationTimestamp, old.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour)), gen.Created
	stray := forged("app-bbbbbbbbbb")
	stray.CreationTimestamp = gen.Created
	for name, test := range map[string]struct {
		seen
		reason, object string
		severity       Severity
	}{
		"a pinned revision is gone":     {seen{objects: []client.Object{gen.App("b"), gen.Web("app:1", gen.Pinned(first))}}, "RevisionMissing", "deployment/web", SeverityError},
		"held for a long time":          {seen{objects: []client.Object{gen.App("b"), gen.RevisionOfApp("a", "1"), old, held}}, "Held", "deployment/web", SeverityWarning},
		"held since an hour":            {seen{objects: []client.Object{gen.App("b"), gen.RevisionOfApp("a", "1"), recent, held}}, "Held", "deployment/web", SeverityInfo},
		"a revision that nothing uses":  {seen{objects: []client.Object{gen.App("b"), leak}}, "Leak", "configmap/" + leak.Name, SeverityWarning},
		"a forged revision":             {seen{objects: []client.Object{gen.App("b"), stray}}, "NotARevision", "configmap/app-bbbbbbbbbb", SeverityWarning},
		"a pod reads the source itself": {seen{objects: []client.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: "p", Annotations: map[string]string{keys.Pins: first}}, Spec: *gen.PodSpec(gen.EnvFrom("configmap/app"))}}}, "NotResolved", "pod/p", SeverityError},
		"no controller":                 {seen{}, "NotInstalled", "deployment/confrev", SeverityError},
		"nothing resolves pins":         {seen{}, "PolicyMissing", "mutatingadmissionpolicy/confrev-resolve-pins", SeverityError},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := test.view(t).Diagnose(t.Context(), DiagnosisOptions{Long: 24 * time.Hour, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(d.Findings, func(f Finding) bool { return f.Reason == test.reason && f.Object == test.object })
			if i < 0 || d.Findings[i].Severity != test.severity {
				t.Errorf("found %+v", d.Findings)
			}
		})
	}
	// Before Kubernetes 1.36, the webhook resolves pins; what it misses is refused by a policy, as everywhere.
	policy := admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "confrev-guard-revisions"}}
	webhook := admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "confrev-resolve-pins"}}
	for name, test := range map[string]struct {
		seen
		reason string
		want   []string
	}{
		"the webhook, and nothing that refuses": {seen{objects: []client.Object{&webhook}}, "PolicyMissing",
			[]string{"validatingadmissionpolicy/confrev-refuse-unresolved-pins", "validatingadmissionpolicybinding/confrev-refuse-unresolved-pins"}},
		"a guard without its binding": {seen{objects: []client.Object{&policy}}, "NoGuard",
			[]string{"validatingadmissionpolicy/confrev-guard-anchors", "validatingadmissionpolicy/confrev-guard-keys", "validatingadmissionpolicybinding/confrev-guard-revisions"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := test.view(t).Diagnose(t.Context(), DiagnosisOptions{Now: now})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range d.Findings {
				if f.Reason == test.reason {
					got = append(got, f.Object)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q", got)
			}
		})
	}
	// Kinds that may not be seen may use it.
	d, err := seen{[]client.Object{gen.App("b"), leak}, []string{"StatefulSet"}}.view(t).Diagnose(t.Context(), DiagnosisOptions{Now: now})
	if err != nil || len(d.Notes) != 1 || slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Reason == "Leak" }) {
		t.Errorf("%+v, %v", d, err)
	}
}

// The rollout that failed is that of the template as it is. A pin that is about to be written begins another, whatever source it is of.
func TestAFixOfAnotherSourceEndsAFailure(t *testing.T) {
	extra := gen.ConfigMap("extra", map[string]string{"k": "1"})
	revision := gen.ConfigMap(content.RevisionName("extra", content.FromConfigMap(extra).Hash(), 0), extra.Data)
	revision.Immutable = new(true)
	revision.Labels = map[string]string{keys.Content: string(content.FromConfigMap(extra).Hash()), keys.Source: "extra"}
	revision.Annotations = map[string]string{keys.SourceName: "extra", keys.Number: "1"}
	late := func(d *appsv1.Deployment) {
		done(d)
		d.Status.AvailableReplicas = 0
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: "ProgressDeadlineExceeded"}}
	}
	for name, test := range map[string]struct {
		pinned string
		state  State
		acts   bool
	}{
		"a fix is on its way": {first, Advancing, false},
		"there is no fix":     {second, Failed, true},
	} {
		t.Run(name, func(t *testing.T) {
			web := gen.Web("app:1", gen.Template(gen.EnvFrom("configmap/app"), gen.EnvFrom("configmap/extra")),
				gen.Pinned(test.pinned+",configmap/extra="+revision.Name+"@1"), late)
			list, err := seen{objects: with(gen.App("b"), extra, revision, web)}.view(t).Status(t.Context(), Which{Objects: []Object{webObject}})
			if err != nil || len(list.Items) != 1 || len(list.Items[0].Sources) != 2 {
				t.Fatalf("%+v, %v", list, err)
			}
			if got := list.Items[0]; got.State != test.state || list.NeedsAction() != test.acts || list.Failed() != test.acts {
				t.Errorf("it is %s: %q; a person has to act: %t", got.State, got.Message, list.NeedsAction())
			} else if !test.acts && got.Message != "not pinned yet" {
				t.Errorf("of the workload it says %q", got.Message)
			}
		})
	}
}
