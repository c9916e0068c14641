package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gomodules.xyz/jsonpatch/v2"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/account"
	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// world is an API server for the workload webhook: it counts what is read and written.
type admissionWorld struct {
	*Engine
	client        client.WithWatch
	reads, writes int
}

func newAdmissionWorld(t *testing.T, kind workload.Kind, objects ...client.Object) *admissionWorld {
	t.Helper()
	w := &admissionWorld{}
	w.client = fake.NewClientBuilder().WithObjects(objects...).
		WithIndex(revision.NewMetadata(pin.ConfigMap), revision.BySource, revision.IndexBySource(pin.ConfigMap)).
		WithIndex(revision.NewMetadata(pin.Secret), revision.BySource, revision.IndexBySource(pin.Secret)).
		WithIndex(&appsv1.ReplicaSet{}, index.ByController, index.ControllerUID).
		WithIndex(&appsv1.ControllerRevision{}, index.ByController, index.ControllerUID).
		WithIndex(&batchv1.Job{}, index.ByController, index.ControllerUID).
		WithIndex(workload.Rollout.New(), index.ByReferred, index.Referred(workload.Rollout)).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				w.reads++
				return c.Get(ctx, key, obj, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				w.writes++
				return c.Create(ctx, obj, opts...)
			},
		}).Build()
	kinds := &workload.Kinds{}
	store := revision.NewStore(w.client, w.client, w.client, time.Now, kinds, 100)
	w.Engine = &Engine{
		Kind: kind, Kinds: kinds, Options: Options{Injection: optin.Admission}, Client: w.client, Live: w.client, Whole: w.client, Store: store,
		Accounts: account.New(w.client, time.Now), Now: time.Now,
	}
	return w
}

// ask sends a request to the use case, and returns the operations that it needs and what its user should know.
func (w *admissionWorld) ask(ctx context.Context, obj, old client.Object, dryRun bool) ([]jsonpatch.Operation, []notice.Notice, error) {
	answer, err := w.Admit(ctx, Request{Object: obj, Old: old, DryRun: dryRun})
	return answer.Patch, answer.Warnings, err
}

// noticeText returns what warnings say, in lines.
func noticeText(said []notice.Notice) string {
	var lines []string
	for _, n := range said {
		if !n.Normal {
			lines = append(lines, n.Text)
		}
	}
	return strings.Join(lines, "\n")
}

// admitted returns the object that comes of a request, and fails if asking again would change more: the API server may call
// a webhook twice.
func (w *admissionWorld) admitted(t *testing.T, obj, old client.Object, dryRun bool) client.Object {
	t.Helper()
	old = w.serve(t, old)
	once := w.patched(t, obj, old, dryRun)
	if diff := cmp.Diff(once, w.patched(t, once, old, dryRun), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("asked again, it changes more (-once +twice):\n%s", diff)
	}
	return once
}

// serve makes an object be on the API server, and returns it as the API server has it.
func (w *admissionWorld) serve(t *testing.T, obj client.Object) client.Object {
	t.Helper()
	if obj == nil {
		return nil
	}
	served, there := obj.DeepCopyObject().(client.Object), obj.DeepCopyObject().(client.Object)
	reads, writes := w.reads, w.writes
	err := w.client.Get(t.Context(), client.ObjectKeyFromObject(obj), there)
	if err == nil {
		served.SetResourceVersion(there.GetResourceVersion())
		err = w.client.Update(t.Context(), served)
	} else {
		served.SetResourceVersion("")
		err = w.client.Create(t.Context(), served)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.reads, w.writes = reads, writes
	return served
}

func (w *admissionWorld) patched(t *testing.T, obj, old client.Object, dryRun bool) client.Object {
	t.Helper()
	ops, _, err := w.ask(t.Context(), obj, old, dryRun)
	if err != nil {
		t.Fatal(err)
	}
	if len(ops) == 0 {
		ops = []jsonpatch.Operation{}
	}
	result, err := w.Apply(obj, ops)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// Rules 2, 4, 6, 7: what a request becomes. The source has content b, which the workload did not roll out yet unless the
// old object has it.
func TestAdmit(t *testing.T) {
	a, b := gen.PinOfApp("a", "1"), gen.PinOfApp("b", "2")
	frozen := gen.Annotated(keys.FreezeUntil, "2999-01-01")
	restarted := func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "2026-11-22T12:00:00Z"
	}
	first := gen.PinOfApp("b", "1")
	unnamed := func(d *appsv1.Deployment) { d.UID, d.Generation = "", 0 }
	heldFrom := gen.HeldOn(b, a)
	note := gen.Annotated(keys.Held, heldFrom)
	paused := func(d *appsv1.Deployment) { d.Spec.Paused = true }
	tests := map[string]struct {
		source   string // content of configmap/app; "b" when it is not given, "-" for none
		obj, old *appsv1.Deployment
		pins     string
		held     string
		paused   string
	}{
		"a first deploy":                        {obj: gen.Web("1", unnamed), pins: first},
		"a first deploy with nothing to track":  {obj: gen.Web("1", unnamed, gen.Tracking("none"))},
		"a first deploy without the source":     {source: "-", obj: gen.Web("1", unnamed), paused: "configmap/app"},
		"one that is paused already":            {source: "-", obj: gen.Web("1", unnamed, paused)},
		"an update without the source":          {source: "-", obj: gen.Web("2"), old: gen.Web("1")},
		"opting in":                             {obj: gen.Web("1"), old: gen.Web("1", gen.Tracking("none")), pins: first},
		"a new image takes the change along":    {obj: gen.Web("2", gen.Pinned(a)), old: gen.Web("1", gen.Pinned(a)), pins: b},
		"nothing of the template changes":       {obj: gen.Web("1", gen.Pinned(a), gen.Annotated(keys.Settle, "1s")), old: gen.Web("1", gen.Pinned(a)), pins: a},
		"pins that are removed come back":       {obj: gen.Web("1"), old: gen.Web("1", gen.Pinned(a)), pins: a},
		"and with a new image, they move":       {obj: gen.Web("2"), old: gen.Web("1", gen.Pinned(a)), pins: b},
		"pins written by hand":                  {obj: gen.Web("1", gen.Pinned(a)), old: gen.Web("1", gen.Pinned(gen.PinOfApp("c", "3"))), pins: a},
		"malformed pins":                        {obj: gen.Web("1", gen.Pinned("x")), old: gen.Web("1", gen.Pinned(a)), pins: a},
		"pins of another cluster":               {obj: gen.Web("2", gen.Pinned(gen.PinOfApp("z", "9"))), old: gen.Web("1", gen.Pinned(a)), pins: b},
		"an undo":                               {obj: gen.Web("1", gen.Pinned(a)), old: gen.Web("2", gen.Pinned(b)), pins: a, held: heldFrom},
		"an undo of the configuration alone":    {obj: gen.Web("1", gen.Pinned(a)), old: gen.Web("1", gen.Pinned(b)), pins: a, held: heldFrom},
		"a new image while held":                {obj: gen.Web("3", gen.Pinned(a), note), old: gen.Web("1", gen.Pinned(a), note), pins: a, held: heldFrom},
		"a replace while held":                  {obj: gen.Web("1"), old: gen.Web("1", gen.Pinned(a), note), pins: a, held: heldFrom},
		"an undo to before the first pins":      {obj: gen.Web("1"), old: gen.Web("2", gen.Pinned(b)), pins: b},
		"on-deploy, without a deploy":           {obj: gen.Web("1", gen.Pinned(a), gen.Annotated(keys.Advance, "on-deploy")), old: gen.Web("1", gen.Pinned(a)), pins: a},
		"on-deploy, with one":                   {obj: gen.Web("2", gen.Pinned(a), gen.Annotated(keys.Advance, "on-deploy")), old: gen.Web("1", gen.Pinned(a)), pins: b},
		"on-deploy, with a restart":             {obj: gen.Web("1", gen.Pinned(a), gen.Annotated(keys.Advance, "on-deploy"), restarted), old: gen.Web("1", gen.Pinned(a)), pins: a},
		"a restart takes the change along":      {obj: gen.Web("1", gen.Pinned(a), restarted), old: gen.Web("1", gen.Pinned(a)), pins: b},
		"a deploy during a freeze":              {obj: gen.Web("2", gen.Pinned(a), frozen), old: gen.Web("1", gen.Pinned(a)), pins: a},
		"a deploy after one":                    {obj: gen.Web("2", gen.Pinned(a), gen.Annotated(keys.FreezeUntil, "2020-01-01")), old: gen.Web("1", gen.Pinned(a)), pins: b},
		"a deploy that includes the change":     {obj: gen.Web("2", gen.Pinned(a), frozen, gen.Annotated(keys.Deploys, "include")), old: gen.Web("1", gen.Pinned(a)), pins: b},
		"an undo during a freeze":               {obj: gen.Web("1", gen.Pinned(a), frozen), old: gen.Web("2", gen.Pinned(b), frozen), pins: a, held: heldFrom},
		"a first deploy during a freeze":        {obj: gen.Web("1", unnamed, frozen), pins: first},
		"manual, with a deploy":                 {obj: gen.Web("2", gen.Pinned(a), gen.Annotated(keys.Advance, "manual")), old: gen.Web("1", gen.Pinned(a)), pins: a},
		"manual, misspelt":                      {obj: gen.Web("2", gen.Pinned(a), gen.Annotated(keys.Advance, "manul")), old: gen.Web("1", gen.Pinned(a)), pins: a},
		"manual, and a first deploy":            {obj: gen.Web("1", unnamed, gen.Annotated(keys.Advance, "manual")), pins: first},
		"opting out, and the pins go with it":   {obj: gen.Web("1", gen.Tracking("none")), old: gen.Web("1", gen.Pinned(a))},
		"opting out, and the pins stay":         {obj: gen.Web("2", gen.Pinned(a), gen.Tracking("none")), old: gen.Web("1", gen.Pinned(a)), pins: a},
		"the source is deleted, and it deploys": {source: "-", obj: gen.Web("2", gen.Pinned(a)), old: gen.Web("1", gen.Pinned(a)), pins: a},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if test.old != nil && test.obj.Spec.Template.Annotations[keys.Pins] == a && test.old.Spec.Template.Annotations[keys.Pins] != a {
				made := gen.RevisionOfApp("a", "1")
				made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: test.old.Name, UID: test.old.UID}}
				objects = append(objects, made)
			}
			if test.source != "-" {
				objects = append(objects, gen.App("b"))
			}
			for _, dryRun := range []bool{true, false} {
				w := newAdmissionWorld(t, workload.Deployment, objects...)
				var old client.Object
				if test.old != nil {
					old = test.old
				}
				got := w.admitted(t, test.obj.DeepCopy(), old, dryRun).(*appsv1.Deployment)
				if pins := got.Spec.Template.Annotations[keys.Pins]; pins != test.pins {
					t.Errorf("pins %q, want %q", pins, test.pins)
				}
				if held := got.Annotations[keys.Held]; held != test.held {
					t.Errorf("held from %q, want %q", held, test.held)
				}
				if got.Annotations[keys.Paused] != test.paused || got.Spec.Paused != (test.paused != "" || test.obj.Spec.Paused) {
					t.Errorf("paused %v, for %q", got.Spec.Paused, got.Annotations[keys.Paused])
				}
				if dryRun && w.writes > 0 {
					t.Errorf("a dry run wrote %d times", w.writes)
				}
				if new := strings.Contains(test.pins, gen.NameOfRevision("b")); !dryRun && (w.writes == 1) != new && test.held == "" && !strings.HasPrefix(name, "an undo") {
					t.Errorf("wrote %d times", w.writes)
				}
			}
		})
	}
}

// A controller that scales, a person who adds a label: no request costs anything that cannot matter.
func TestWhatIsNoConcernReadsNothing(t *testing.T) {
	labelled := func(d *appsv1.Deployment) { d.Labels = map[string]string{"team": "a"} }
	scaled := func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32) }
	noted := gen.Annotated("deployment.kubernetes.io/revision", "3")
	deleted := func(d *appsv1.Deployment) { now := metav1.Now(); d.DeletionTimestamp = &now }
	for name, obj := range map[string]*appsv1.Deployment{
		"the same": gen.Web("1"), "a label": gen.Web("1", labelled), "scaled": gen.Web("1", scaled), "someone's annotation": gen.Web("1", noted),
		"being deleted": gen.Web("2", deleted),
	} {
		t.Run(name, func(t *testing.T) {
			w := newAdmissionWorld(t, workload.Deployment, gen.App("b"))
			if ops, _, err := w.ask(t.Context(), obj, gen.Web("1"), false); len(ops) > 0 || err != nil || w.reads+w.writes > 0 {
				t.Errorf("%+v, %v, %d reads, %d writes", ops, err, w.reads, w.writes)
			}
		})
	}
}

// With injection into the template, the names are put in within the same request, anyone who writes.
func TestAdmissionInjects(t *testing.T) {
	into := gen.Annotated(keys.Injection, "template")
	name := func(d *appsv1.Deployment) string {
		return d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name
	}
	named := func(name string) gen.DeploymentModifier {
		return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name = name }
	}
	first := gen.PinOfApp("b", "1")
	live := gen.Web("1", into, gen.Pinned(first), named(gen.NameOfRevision("b")))
	tests := map[string]struct{ obj, old *appsv1.Deployment }{
		"a first deploy":                   {obj: gen.Web("1", into)},
		"the manifest is applied again":    {obj: gen.Web("1", into, gen.Pinned(first)), old: live},
		"the manifest replaces it":         {obj: gen.Web("1", into), old: live},
		"a new image":                      {obj: gen.Web("2", into, gen.Pinned(first)), old: live},
		"the pin alone, as the controller": {obj: gen.Web("1", into, gen.Pinned(first), named(gen.NameOfRevision("a"))), old: gen.Web("1", into, gen.Pinned(gen.PinOfApp("a", "1")), named(gen.NameOfRevision("a")))},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			w := newAdmissionWorld(t, workload.Deployment, gen.App("b"))
			var old client.Object
			if test.old != nil {
				old = test.old
			}
			got := w.admitted(t, test.obj, old, false).(*appsv1.Deployment)
			if name(got) != gen.NameOfRevision("b") || got.Spec.Template.Annotations[keys.Pins] != first {
				t.Errorf("refers to %s with pins %s", name(got), got.Spec.Template.Annotations[keys.Pins])
			}
		})
	}
}

// Rule 18: pins that a request removes come back, unless confrev itself removes them. Its own writes reach the webhook with injection template.
func TestAdmissionLeavesOutWhatConfrevDrops(t *testing.T) {
	a := gen.PinOfApp("a", "1")
	into := gen.Annotated(keys.Injection, "template")
	hashed := func(d *appsv1.Deployment) {
		hash := content.FromConfigMap(gen.App("b")).Digests().Sum(true, nil)
		metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, keys.Hashes, "configmap/app="+hash+"@1")
	}
	restart := gen.Annotated(keys.Mode, "restart")
	both := gen.Pinned(a + ",configmap/other=other-5f7d8c9b2k@1")
	named := gen.Template(func(spec *corev1.PodSpec) { spec.Containers[0].EnvFrom[0].ConfigMapRef.Name = gen.NameOfRevision("a") })
	for name, test := range map[string]struct {
		obj, old *appsv1.Deployment
		planned  bool
		pins     string
	}{
		"confrev switches to mode restart":                {gen.Web("1", into, restart, hashed), gen.Web("1", into, restart, gen.Pinned(a)), true, ""},
		"someone else removes pins in mode restart":       {gen.Web("1", into, restart, hashed), gen.Web("1", into, restart, gen.Pinned(a), hashed), false, a},
		"confrev drops the pin of what nothing refers to": {gen.Web("1", into, named, gen.Pinned(a)), gen.Web("1", into, named, both), true, a},
		"someone else drops it":                           {gen.Web("1", into, named, gen.Pinned(a)), gen.Web("1", into, named, both), false, a + ",configmap/other=other-5f7d8c9b2k@1"},
		"someone claims to be confrev":                    {gen.Web("1", into), gen.Web("1", into, gen.Pinned(a)), true, gen.PinOfApp("b", "2")},
		"someone else removes a pin":                      {gen.Web("1", into), gen.Web("1", into, gen.Pinned(a)), false, a},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAdmissionWorld(t, workload.Deployment, gen.App("b"), gen.RevisionOfApp("a", "1"))
			answer, err := w.Admit(t.Context(), Request{Object: test.obj, Old: w.serve(t, test.old), Planned: test.planned})
			if err != nil {
				t.Fatal(err)
			}
			got, err := w.Apply(test.obj, append([]jsonpatch.Operation{}, answer.Patch...))
			if err != nil {
				t.Fatal(err)
			}
			if pins := got.(*appsv1.Deployment).Spec.Template.Annotations[keys.Pins]; pins != test.pins {
				t.Errorf("pins %q, want %q", pins, test.pins)
			}
		})
	}
}

// Stand-alone Jobs are pinned when they are created; those that a controller made have what it gave them.
func TestAdmitJobs(t *testing.T) {
	job := func(annotations map[string]string, owner bool) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: "job", Annotations: annotations}}
		j.Spec.Template.Spec = *gen.PodSpec(gen.EnvFrom("configmap/app"))
		if owner {
			j.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "cron", UID: "1", Controller: &owner}}
		}
		return j
	}
	tracked := map[string]string{keys.Track: "all"}
	tests := map[string]struct {
		job  *batchv1.Job
		old  client.Object
		pins string
	}{
		"stand-alone":            {job(tracked, false), nil, gen.PinOfApp("b", "1")},
		"not opted in":           {job(nil, false), nil, ""},
		"of a CronJob":           {job(tracked, true), nil, ""},
		"it exists already":      {job(tracked, false), job(nil, false), ""},
		"in a mode for rollouts": {job(map[string]string{keys.Track: "all", keys.Mode: "restart"}, false), nil, ""},
		"restart-on":             {job(map[string]string{keys.Track: "all", keys.RestartOn: "things.v1.example.com/a"}, false), nil, gen.PinOfApp("b", "1")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newAdmissionWorld(t, workload.StandAloneJob, gen.App("b"))
			got := w.admitted(t, test.job, test.old, false).(*batchv1.Job)
			if pins := got.Spec.Template.Annotations[keys.Pins]; pins != test.pins || got.Spec.Template.Annotations[keys.Hashes] != "" {
				t.Errorf("pins %q, want %q", pins, test.pins)
			}
		})
	}
}

// Rule 18: a request about a workload that the API server does not have, or no longer, is let through as it is. Nothing is said and
// nothing is made, whatever the request says.
func TestAdmitBelievesOnlyWhatIsLive(t *testing.T) {
	tests := map[string]func(*appsv1.Deployment){
		"another UID":             func(d *appsv1.Deployment) { d.UID = "forged" },
		"another resourceVersion": func(d *appsv1.Deployment) { d.ResourceVersion = "4711" },
		"no resourceVersion":      func(d *appsv1.Deployment) { d.ResourceVersion = "" },
		"another name":            func(d *appsv1.Deployment) { d.Name = "not-there" },
		"another namespace":       func(d *appsv1.Deployment) { d.Namespace = "elsewhere" },
	}
	for name, forge := range tests {
		t.Run(name, func(t *testing.T) {
			w := newAdmissionWorld(t, workload.Deployment, gen.App("b"))
			old := w.serve(t, gen.Web("1")).(*appsv1.Deployment)
			obj := gen.Web("2", gen.Annotated(keys.RestartOn, "oops"), gen.Annotated(keys.Settle, "oops"))
			obj.Name, obj.Namespace = old.Name, old.Namespace
			if ops, said, err := w.ask(t.Context(), obj, old, true); len(ops) == 0 || len(said) == 0 || err != nil {
				t.Fatalf("of what is live: %v, %v, %v", ops, said, err)
			}
			forge(old)
			for _, dryRun := range []bool{true, false} {
				if ops, said, err := w.ask(t.Context(), obj, old, dryRun); len(ops)+len(said)+w.writes > 0 || err != nil {
					t.Errorf("%d operations, %v, %d writes, %v", len(ops), said, w.writes, err)
				}
			}
		})
	}
}

// Rule 18: the webhook never spends the budget of a source.
func TestAdmissionSpendsNoBudget(t *testing.T) {
	w := newAdmissionWorld(t, workload.Deployment, gen.App("b"))
	w.Store = revision.NewStore(w.client, w.client, w.client, time.Now, w.Kinds, 3)
	for i := range 10 {
		obj := gen.Web("1", func(d *appsv1.Deployment) { d.Name, d.UID = fmt.Sprint("forged-", i), "" }, gen.Pinned(gen.PinOfApp("a", fmt.Sprint(i+1))))
		if _, said, err := w.ask(t.Context(), obj, nil, false); err != nil || slices.ContainsFunc(said, func(n notice.Notice) bool {
			return strings.Contains(n.Text, "has changed more than")
		}) {
			t.Fatalf("the request %d is told %+v, %v", i, said, err)
		}
	}
	ref := revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: "app"}
	for i := range 3 {
		if err := w.Store.Admit(t.Context(), ref, content.Hash(fmt.Sprint("v1-", i)), int64(100+i)); err != nil {
			t.Errorf("of 3 changes the %d. is refused: %v", i+1, err)
		}
	}
}

// Rule 12: a workload that is pinned to another's revision owns it too. What is being created has no UID, whatever a forged request says: an owner
// that does not exist would not keep the revision.
func TestPinToForeignRevisionKeepsIt(t *testing.T) {
	other := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: "uid-of-other"}
	anchor := revision.AnchorName
	chosen := gen.Pinned(gen.PinOfApp("b", "1"))
	tests := map[string]struct {
		source   string
		obj, old client.Object
		want     []string
	}{
		"an update":                            {"b", gen.Web("1"), gen.Web("1", gen.Tracking("none")), []string{"other", "web"}},
		"an update that chooses it":            {"c", gen.Web("1", chosen), gen.Web("1", gen.Pinned(gen.PinOfApp("a", "1"))), []string{"other", "web"}},
		"a creation, with a UID of its own":    {"b", gen.Web("1"), nil, []string{"other", anchor}},
		"a creation that chooses it, the same": {"c", gen.Web("1", chosen), nil, []string{"other", anchor}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			shared := gen.RevisionOfApp("b", "1")
			shared.UID, shared.OwnerReferences = "uid-of-shared", []metav1.OwnerReference{other}
			w := newAdmissionWorld(t, workload.Deployment, gen.App(test.source), shared)
			w.Kinds.Add(workload.Deployment)
			if _, _, err := w.ask(t.Context(), test.obj, w.serve(t, test.old), false); err != nil {
				t.Fatal(err)
			}
			after := &corev1.ConfigMap{}
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(shared), after); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, o := range after.OwnerReferences {
				names = append(names, o.Name)
			}
			if diff := cmp.Diff(test.want, names); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
		})
	}
}
