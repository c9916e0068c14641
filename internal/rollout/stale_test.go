package rollout

import (
	"context"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rule 21.6, as the webhook applies it: the workload runs image 1 with a pin of what the plan does not follow.
func TestARequestDropsStalePins(t *testing.T) {
	const webPin, dbPin = "configmap/web=web-xxxxxxxxxx@1", "secret/db=db-xxxxxxxxxx@1"
	app := gen.PinOfApp("a", "1")
	both, withSecret := app+","+webPin, app+","+dbPin
	refers := func(source string) gen.DeploymentModifier { return gen.Template(gen.Volume(source)) }
	onlyApp := gen.Tracking("configmap/app")
	restarted := func(d *appsv1.Deployment) { d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "now" }
	live, tracked := gen.ConfigMap("web", nil), gen.ConfigMap("web", nil)
	live.Annotations = map[string]string{keys.Policy: "live"}
	liveApp := gen.App("a")
	liveApp.Annotations = live.Annotations
	was := func(name string, order int64, image, pins string, source string) client.Object {
		rs := gen.ReplicaSet(name, gen.Web(image, refers(source), gen.Pinned(pins)), order)
		rs.Spec.Template.Spec.Containers[0].Image = image
		return rs
	}
	tests := map[string]struct {
		sources  []client.Object
		obj, old *appsv1.Deployment
		pins     string
	}{
		"nothing refers to it any more":     {[]client.Object{tracked}, gen.Web("2", gen.Pinned(both)), gen.Web("1", refers("configmap/web"), gen.Pinned(both)), app},
		"it is to be read live":             {[]client.Object{live}, gen.Web("2", refers("configmap/web"), gen.Pinned(both)), gen.Web("1", refers("configmap/web"), gen.Pinned(both)), app},
		"at a restart too":                  {[]client.Object{live}, gen.Web("1", refers("configmap/web"), gen.Pinned(both), restarted), gen.Web("1", refers("configmap/web"), gen.Pinned(both)), app},
		"and it is the only one":            {[]client.Object{liveApp}, gen.Web("2", gen.Pinned(app), restarted), gen.Web("1", gen.Pinned(app), restarted), ""},
		"the workload does not track it":    {[]client.Object{tracked}, gen.Web("2", refers("configmap/web"), onlyApp, gen.Pinned(both)), gen.Web("1", refers("configmap/web"), onlyApp, gen.Pinned(both)), app},
		"but the template does not change":  {[]client.Object{live}, gen.Web("1", refers("configmap/web"), gen.Pinned(both), gen.Annotated(keys.Settle, "1s")), gen.Web("1", refers("configmap/web"), gen.Pinned(both)), both},
		"nor does it where pins were lost":  {[]client.Object{live}, gen.Web("1", refers("configmap/web")), gen.Web("1", refers("configmap/web"), gen.Pinned(both)), both},
		"but it is missing":                 {nil, gen.Web("2", refers("configmap/web"), onlyApp, gen.Pinned(both)), gen.Web("1", refers("configmap/web"), onlyApp, gen.Pinned(both)), both},
		"but its kind is not enabled":       {nil, gen.Web("2", refers("secret/db"), gen.Pinned(withSecret)), gen.Web("1", refers("secret/db"), gen.Pinned(withSecret)), withSecret},
		"an undo brings it back, live":      {[]client.Object{live, was("web-1", 1, "1", both, "configmap/web"), was("web-2", 2, "2", app, "configmap/web")}, gen.Web("1", refers("configmap/web"), gen.Pinned(both)), gen.Web("2", refers("configmap/web"), gen.Pinned(app)), app},
		"an undo brings it back, untracked": {[]client.Object{tracked, was("web-1", 1, "1", both, "configmap/web"), was("web-2", 2, "2", app, "configmap/web")}, gen.Web("1", refers("configmap/web"), onlyApp, gen.Pinned(both)), gen.Web("2", refers("configmap/web"), onlyApp, gen.Pinned(app)), both},
		"but the workload opted out":        {[]client.Object{live}, gen.Web("2", refers("configmap/web"), gen.Tracking("none"), gen.Pinned(both)), gen.Web("1", refers("configmap/web"), gen.Tracking("none"), gen.Pinned(both)), both},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			objects := append([]client.Object{gen.RevisionOfApp("a", "1")}, test.sources...)
			if len(test.sources) == 0 || test.sources[0] != client.Object(liveApp) {
				objects = append(objects, gen.App("a"))
			}
			w := newAdmissionWorld(t, workload.Deployment, objects...)
			got := w.admitted(t, test.obj, test.old, true).(*appsv1.Deployment)
			pins := got.Spec.Template.Annotations[keys.Pins]
			if pins != test.pins {
				t.Errorf("pins %q, want %q", pins, test.pins)
			}
		})
	}
}

// Rule 21.6: the reference that a later mutator puts back has the pin of the object before, not a new one of what is current.
func TestADroppedPinIsNotMadeAgainOfCurrent(t *testing.T) {
	a := gen.PinOfApp("a", "1")
	manual := gen.Annotated(keys.Advance, "manual")
	w := newAdmissionWorld(t, workload.Deployment, gen.App("b"), gen.RevisionOfApp("a", "1"), gen.ConfigMap("other", nil))
	old := w.serve(t, gen.Web("1", manual, gen.Pinned(a)))
	without := gen.Web("2", manual, gen.Pinned(a))
	without.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "other"}}}}
	once := w.patched(t, without, old, true).(*appsv1.Deployment)
	if _, pinned := w.pinsOf(once)[gen.Source("configmap/app")]; pinned {
		t.Errorf("the pin stays: %s", w.pinsOf(once))
	}
	again := once.DeepCopy()
	again.Spec.Template.Spec.Containers[0].EnvFrom = append(again.Spec.Template.Spec.Containers[0].EnvFrom, old.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].EnvFrom...)
	if got := w.pinsOf(w.patched(t, again, old, true))[gen.Source("configmap/app")]; got != gen.Pins(a)[gen.Source("configmap/app")] {
		t.Errorf("asked again, the pin is %s, want %s", got, a)
	}
}

// Rule 21.6: with injection template, the name goes with the pin.
func TestADroppedPinTakesItsNameAlong(t *testing.T) {
	into := gen.Annotated(keys.Injection, string(optin.Template))
	source := gen.App("a")
	source.Annotations = map[string]string{keys.Policy: "ignore"}
	w := newAdmissionWorld(t, workload.Deployment, source, gen.RevisionOfApp("a", "1"))
	named := func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations["other"] = "stays"
		d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name = gen.NameOfRevision("a")
	}
	old := gen.Web("1", into, gen.Pinned(gen.PinOfApp("a", "1")), named)
	got := w.admitted(t, gen.Web("2", into, gen.Pinned(gen.PinOfApp("a", "1")), named), old, true).(*appsv1.Deployment)
	if name := got.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name; name != "app" || got.Spec.Template.Annotations[keys.Pins] != "" {
		t.Errorf("refers to %s, with pins %q", name, got.Spec.Template.Annotations[keys.Pins])
	}
}

// Rules 21.2 and 21.6: asked again about an undo of which it dropped a pin, the webhook still includes nothing that waits.
func TestAnUndoThatDroppedAPinIsKnownAgain(t *testing.T) {
	a := gen.PinOfApp("a", "1")
	both := a + ",configmap/web=web-xxxxxxxxxx@1"
	live := gen.ConfigMap("web", nil)
	live.Annotations = map[string]string{keys.Policy: "live"}
	refers, onDeploy := gen.Template(gen.Volume("configmap/web")), gen.Annotated(keys.Advance, "on-deploy")
	ran := func(name string, order int64, image, pins string) client.Object {
		return gen.ReplicaSet(name, gen.Web(image, refers, gen.Pinned(pins)), order)
	}
	w := newAdmissionWorld(t, workload.Deployment, gen.App("b"), gen.RevisionOfApp("a", "1"), live, ran("web-1", 1, "1", both), ran("web-2", 2, "2", a))
	got := w.admitted(t, gen.Web("1", refers, onDeploy, gen.Pinned(both)), gen.Web("2", refers, onDeploy, gen.Pinned(a)), true)
	if pins := w.pinsOf(got).String(); pins != a {
		t.Errorf("pins %q, want %q", pins, a)
	}
}

// Rule 21.6: to ask what an undo would have dropped reads nothing that the plan does not read anyway, however many pins a request removes
// (kubectl replace).
func TestWhatARequestDropsIsReadOnce(t *testing.T) {
	const sources = 20
	var objects []client.Object
	var refers []gen.PodSpecModifier
	pins := pin.Set{}
	for i := range sources {
		source := gen.ConfigMap(fmt.Sprint("source-", i), map[string]string{"k": "v"})
		objects = append(objects, source)
		refers = append(refers, gen.Volume("configmap/"+source.Name))
		name := content.RevisionName(source.Name, content.FromConfigMap(source).Hash(), 0)
		pins[gen.Source("configmap/"+source.Name)] = pin.Pin{Revision: name, Number: 1}
	}
	tests := map[string]struct{ obj, old, holder *appsv1.Deployment }{
		"the same code, and the pins are lost":        {gen.Web("1", gen.Template(refers...)), gen.Web("1", gen.Template(refers...), gen.Pinned(pins.String())), nil},
		"code that ran before, and the pins are lost": {gen.Web("1", gen.Template(refers...)), gen.Web("2", gen.Template(refers...), gen.Pinned(pins.String())), gen.Web("1", gen.Template(refers...), gen.Pinned(pins.String()))},
		"new code, and the pins are lost":             {gen.Web("3", gen.Template(refers...)), gen.Web("2", gen.Template(refers...), gen.Pinned(pins.String())), gen.Web("1", gen.Template(refers...), gen.Pinned(pins.String()))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			there := slices.Clone(objects)
			if test.holder != nil {
				there = append(there, gen.ReplicaSet("web-1", test.holder, 1))
			}
			w := newAdmissionWorld(t, workload.Deployment, there...)
			read := map[string]int{}
			w.Live = countsMetadata{w.client, read}
			w.patched(t, test.obj, w.serve(t, test.old), true)
			for source, times := range read {
				if times > 1 {
					t.Errorf("%s was read %d times", source, times)
				}
			}
			if len(read) < sources {
				t.Errorf("%d of %d sources were read", len(read), sources)
			}
		})
	}
}

// countsMetadata counts what is read of the metadata of ConfigMaps, by name.
type countsMetadata struct {
	client.Reader
	read map[string]int
}

func (c countsMetadata) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if meta, is := obj.(*metav1.PartialObjectMetadata); is && meta.Kind == "ConfigMap" {
		c.read[key.Name]++
	}
	return c.Reader.Get(ctx, key, obj, options...)
}
