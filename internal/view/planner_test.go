package view

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/operator"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// steered returns a Deployment that has rolled out nothing but content 1 of ConfigMap app, of which there are contents 1 and 2.
func steered(t *testing.T, modifiers ...gen.DeploymentModifier) (*Planner, rollout.Assessment, client.Client) {
	t.Helper()
	source := gen.ConfigMap("app", map[string]string{"v": "2"})
	web := gen.Deployment("web", append(modifiers, gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/app")))...)
	first := web.DeepCopy()
	gen.Pinned("configmap/app=" + appA + "@1")(first)
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(source, web,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gen.Namespace}}, madeOf(appA, "1", "1"), madeOf(appB, "2", "2"),
		gen.ReplicaSet("web-1", first, 1)).Build()
	planner, err := NewPlannerOf(t.Context(), c, operator.Options{Options: rollout.Options{Injection: optin.Admission}}, gen.Namespace, []workload.Kind{workload.Deployment})
	if err != nil {
		t.Fatal(err)
	}
	look, err := planner.Assess(t.Context(), workload.Deployment, planner.Workload(workload.Deployment, client.ObjectKeyFromObject(web)))
	if err != nil {
		t.Fatal(err)
	}
	return planner, look, c
}

// appA and appB are the names of the revisions with the values 1 and 2.
var appA, appB = revisionNameOf("1"), revisionNameOf("2")

// heldFromB is the note of a hold from the second on the first.
var heldFromB = "configmap/app=" + appB + "@2;on=" + appA + "@1"

func revisionNameOf(value string) string {
	return content.RevisionName("app", content.FromConfigMap(gen.ConfigMap("app", map[string]string{"v": value})).Hash(), 0)
}

// madeOf makes a revision of ConfigMap app that only another workload owns.
func madeOf(name, number, value string) *corev1.ConfigMap {
	made := gen.ConfigMap(name, map[string]string{"v": value})
	hash := content.FromConfigMap(made).Hash()
	made.Labels = map[string]string{keys.Content: string(hash)}
	made.Annotations = map[string]string{keys.SourceName: "app", keys.Number: number}
	made.Immutable = new(true)
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "other", UID: "uid-of-other"}}
	return made
}

// A hold is noted with the pins, although no holder shows that the workload was ever on current (rule 4).
func TestSteeringBackHoldsAtOnce(t *testing.T) {
	planner, look, c := steered(t, gen.Pinned("configmap/app="+appB+"@2"))
	back := look.Pins.Decisions[0]
	back.To = pin.Pin{Revision: appA, Number: 1}
	steering := planner.Move(look, back)
	if got := steering.After.Decisions[0].Verdict; got != plan.Held {
		t.Errorf("afterwards it is %s", got)
	}
	if err := steering.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent, err := steering.Write(t.Context(), client.FieldOwner("me"))
	if err != nil {
		t.Fatal(err)
	}
	would, err := steering.Preview()
	if err != nil {
		t.Fatal(err)
	}
	for what, obj := range map[string]client.Object{"sent": sent, "would": would} {
		web := obj.(*appsv1.Deployment)
		if pins, held := web.Spec.Template.Annotations[keys.Pins], web.Annotations[keys.Held]; pins != "configmap/app="+appA+"@1" || !strings.HasPrefix(held, heldFromB+";keys=") {
			t.Errorf("%s: pins %q, held from %q", what, pins, held)
		}
	}
	// The revision must not go with its other users before a holder is seen (rule 12).
	kept := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: gen.Namespace, Name: appA}, kept); err != nil {
		t.Fatal(err)
	}
	if len(kept.OwnerReferences) != 2 || kept.OwnerReferences[1].Name != "web" || kept.Annotations[keys.Renewed] == "" {
		t.Errorf("the revision has the owners %v and was renewed at %q", kept.OwnerReferences, kept.Annotations[keys.Renewed])
	}
}

// What was decided on an older state is not written.
func TestSteeringNoticesThatTheWorkloadChanged(t *testing.T) {
	planner, look, c := steered(t, gen.Pinned("configmap/app="+appA+"@1"), gen.Annotated(keys.Held, heldFromB))
	forward := look.Pins.Decisions[0]
	if forward.Verdict != plan.Held {
		t.Fatalf("it begins as %s", forward.Verdict)
	}
	forward.To = forward.Current
	steering := planner.Move(look, forward)
	web := look.Workload.DeepCopyObject().(*appsv1.Deployment)
	web.Generation++
	if err := c.Update(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	if _, err := steering.Write(t.Context()); err == nil {
		t.Error("it was written anyway")
	}
}

// A resumed workload has no note of a hold left.
func TestSteeringForwardEndsTheHold(t *testing.T) {
	planner, look, _ := steered(t, gen.Pinned("configmap/app="+appA+"@1"), gen.Annotated(keys.Held, heldFromB))
	forward := look.Pins.Decisions[0]
	forward.To = forward.Current
	steering := planner.Move(look, forward)
	would, err := steering.Preview()
	if err != nil {
		t.Fatal(err)
	}
	web := would.(*appsv1.Deployment)
	if pins, held := web.Spec.Template.Annotations[keys.Pins], web.Annotations[keys.Held]; pins != "configmap/app="+appB+"@2" || held != "" {
		t.Errorf("pins %q, held from %q", pins, held)
	}
}

// A revision that went meanwhile is not pinned.
func TestSteeringToWhatIsGone(t *testing.T) {
	planner, look, c := steered(t, gen.Pinned("configmap/app="+appB+"@2"))
	back := look.Pins.Decisions[0]
	back.To = pin.Pin{Revision: appA, Number: 1}
	if err := c.Delete(t.Context(), madeOf(appA, "1", "1")); err != nil {
		t.Fatal(err)
	}
	steering := planner.Move(look, back)
	if err := steering.Prepare(t.Context()); !revision.IsChanged(err) {
		t.Errorf("got %v", err)
	}
}

// A snapshot has only the metadata of sources: anyone who wants more is told so.
func TestSnapshotRefusesATypeThatItHasNot(t *testing.T) {
	planner, _, _ := steered(t)
	key := client.ObjectKey{Namespace: gen.Namespace, Name: "app"}
	if err := planner.Snapshot.Get(t.Context(), key, revision.NewMetadata(pin.ConfigMap)); err != nil {
		t.Error(err)
	}
	if err := planner.Snapshot.Get(t.Context(), key, &corev1.ConfigMap{}); err == nil || !strings.Contains(err.Error(), "not as *v1.ConfigMap") {
		t.Error(err)
	}
}

// Rule 21.3: who asks what comes next hears that a deploy ended the hold, as the controller finds it where the webhook did not answer.
func TestALookEndsTheHoldsThatTheControllerEnds(t *testing.T) {
	for image, want := range map[string]plan.Verdict{"1": plan.Held, "2": plan.Advanced, "3": plan.Advanced} {
		a, b := "configmap/app="+appA+"@1", "configmap/app="+appB+"@2"
		held := func(d *appsv1.Deployment) { d.Annotations[keys.Held] = heldFromB }
		c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(
			gen.ConfigMap("app", map[string]string{"v": "2"}), madeOf(appA, "1", "1"), madeOf(appB, "2", "2"),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gen.Namespace}},
			gen.Web(image, gen.Pinned(a), held), gen.Ran("web-2", 2, "2", b), gen.Ran("web-1", 3, "1", a)).
			WithInterceptorFuncs(interceptor.Funcs{
				// Of holders, the right to list is enough to look.
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
					if _, is := obj.(*appsv1.ReplicaSet); is {
						return fmt.Errorf("get of ReplicaSet %s", key)
					}
					return c.Get(ctx, key, obj, options...)
				},
			}).Build()
		planner, err := NewPlannerOf(t.Context(), c, operator.Options{Options: rollout.Options{Injection: optin.Admission}}, gen.Namespace, []workload.Kind{workload.Deployment})
		if err != nil {
			t.Fatal(err)
		}
		obj := planner.Workload(workload.Deployment, client.ObjectKey{Namespace: gen.Namespace, Name: "web"})
		look, err := planner.Assess(t.Context(), workload.Deployment, obj)
		if err != nil || look.Pins.Decisions[0].Verdict != want {
			t.Errorf("image %s: %v, %+v", image, err, look.Pins.Decisions)
		}
	}
}
