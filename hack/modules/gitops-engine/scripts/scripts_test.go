// Package scripts tests the health checks and actions of deploy/argocd: Argo CD's own settings read the patch, and its own engine runs the scripts.
package scripts

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/argoproj/argo-cd/v3/pkg/apiclient/application"
	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/argo-cd/v3/util/settings"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// overrides returns what Argo CD reads of its ConfigMap after the patch.
func overrides(t *testing.T) map[string]v1alpha1.ResourceOverride {
	t.Helper()
	text, err := os.ReadFile("../../../../deploy/argocd/argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var patch corev1.ConfigMap
	if err := yaml.UnmarshalStrict(text, &patch); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app.kubernetes.io/part-of": "argocd"}
	patch.ObjectMeta = metav1.ObjectMeta{Namespace: "argocd", Name: "argocd-cm", Labels: labels}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "argocd", Name: "argocd-secret", Labels: labels}}
	all, err := settings.NewSettingsManager(t.Context(), fake.NewClientset(&patch, secret), "argocd").GetResourceOverrides()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// object reads an object from YAML.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = obj.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return obj
}

func source(annotations string) string {
	return "apiVersion: v1\nkind: %s\nmetadata: {name: app, labels: {confrev.io/source: app}, annotations: {" + annotations + "}}"
}

func revision(uid, number, note string) string {
	return "apiVersion: v1\nkind: %s\nmetadata: {name: app-5f7d8c9b2k, uid: " + uid + ", labels: {confrev.io/content: v1-x}, annotations: {confrev.io/number: '" + number +
		"', confrev.io/propagation: '" + note + "'}}"
}

// A source whose change is stopped is Degraded, and so is a revision of which confrev noted that.
func TestHealthOfSources(t *testing.T) {
	all := lua.ResourceHealthOverrides(overrides(t))
	const failed = `{"revision":"u","number":3,"wave":1,"stops":1,"failed":["deployment/a@1763900000","deployment/b@0"]}`
	for name, tt := range map[string]struct{ text, status, message string }{
		"a source":                       {source(""), "", ""},
		"without any annotations":        {"apiVersion: v1\nkind: %s\nmetadata: {name: app}", "", ""},
		"stopped":                        {source("confrev.io/stop: app-5f7d8c9b2k"), "Degraded", "The change to revision app-5f7d8c9b2k is stopped"},
		"an empty stop":                  {source(`confrev.io/stop: ""`), "", ""},
		"a revision":                     {strings.Replace(revision("u", "3", ""), ", confrev.io/propagation: ''", "", 1), "", ""},
		"a revision that spreads":        {revision("u", "3", `{"revision":"u","number":3,"wave":1}`), "", ""},
		"a revision that was stopped":    {revision("u", "3", failed), "Degraded", "workloads failed with it: deployment/a, deployment/b."},
		"that was vouched for afterward": {revision("u", "3", strings.Replace(failed, `"failed"`, `"complete":true,"failed"`, 1)), "", ""},
		"a note of another object":       {revision("v", "3", failed), "", ""},
		"a note of another change":       {revision("u", "4", failed), "", ""},
		"what is no note":                {revision("u", "3", "x"), "", ""},
	} {
		for _, kind := range []string{"ConfigMap", "Secret"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				got, err := health.GetResourceHealth(object(t, fmt.Sprintf(tt.text, kind)), all)
				if err != nil || got == nil {
					t.Fatalf("%v, %v", got, err)
				}
				if string(got.Status) != tt.status || !strings.Contains(got.Message, tt.message) || tt.message == "" && got.Message != "" {
					t.Errorf("it is %q (%s), want %q (%s)", got.Status, got.Message, tt.status, tt.message)
				}
			})
		}
	}
}

// Of a Deployment without confrev's settings, Argo CD reports what it reports without the script.
func TestHealthOfDeploymentsStaysTheSame(t *testing.T) {
	all := lua.ResourceHealthOverrides(overrides(t))
	seen := map[health.HealthStatusCode]int{}
	conditions := []string{"", "{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}", "{type: Available, status: 'True', reason: MinimumReplicasAvailable}, {type: Progressing, status: 'True', reason: NewReplicaSetAvailable}"}
	for _, paused := range []string{"", "paused: true, ", "paused: false, "} {
		for _, replicas := range []string{"", "replicas: 0, ", "replicas: 2, "} {
			for _, generations := range [][2]int{{1, 0}, {1, 1}, {2, 1}, {2, 3}} {
				for _, condition := range conditions {
					for counts := range 27 {
						text := fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, generation: %d}\nspec: {%s%stemplate: {}}\nstatus: {observedGeneration: %d, conditions: [%s], replicas: %d, updatedReplicas: %d, availableReplicas: %d}",
							generations[0], paused, replicas, generations[1], condition, counts%3, counts/3%3, counts/9)
						obj := object(t, text)
						want, err := health.GetResourceHealth(obj, nil)
						if err != nil {
							t.Fatal(err)
						}
						got, err := health.GetResourceHealth(obj, all)
						if err != nil || *got != *want {
							t.Fatalf("it is %+v, want %+v: %v\n%s", got, want, err, text)
						}
						seen[want.Status]++
					}
				}
			}
		}
	}
	for _, bare := range []string{"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, generation: 1}\nspec: {}"} {
		want, _ := health.GetResourceHealth(object(t, bare), nil)
		if got, err := health.GetResourceHealth(object(t, bare), all); err != nil || *got != *want {
			t.Errorf("it is %+v, want %+v: %v\n%s", got, want, err, bare)
		}
	}
	if len(seen) != 4 {
		t.Errorf("only %v were seen", seen)
	}
}

// A Deployment that is not on the present configuration says why.
func TestHealthOfDeploymentsSaysWhy(t *testing.T) {
	all := lua.ResourceHealthOverrides(overrides(t))
	const held = "configmap/app=app-5f7d8c9b2k@3;on=app-x8w2m4k6zq@2;keys=abc"
	deployment := func(annotations, pins, spec string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, generation: 1, annotations: {" + annotations + "}}\nspec: {" + spec + "template: {metadata: {annotations: {confrev.io/pins: '" + pins +
			"'}}}}\nstatus: {observedGeneration: 1}"
	}
	for name, tt := range map[string]struct{ text, status, message string }{
		"pinned":                       {deployment("", "configmap/app=app-x8w2m4k6zq@2", ""), "Healthy", ""},
		"held":                         {deployment("confrev.io/held: '"+held+"'", "configmap/app=app-x8w2m4k6zq@2", ""), "Healthy", "Held: it was rolled back from configmap/app (app-5f7d8c9b2k@3). To continue: kubectl confrev resume deployment/web"},
		"held from two":                {deployment("confrev.io/held: '"+held+",secret/db=db-a@2;on=db-b@1'", "configmap/app=app-x8w2m4k6zq@2,secret/db=db-b@1", ""), "Healthy", "configmap/app (app-5f7d8c9b2k@3), secret/db (db-a@2)"},
		"a note about earlier pins":    {deployment("confrev.io/held: '"+held+"'", "configmap/app=app-new@4", ""), "Healthy", ""},
		"a note about another source":  {deployment("confrev.io/held: '"+held+"'", "configmap/web=app-x8w2m4k6zq@2", ""), "Healthy", ""},
		"a hold that has ended":        {deployment("confrev.io/held: '"+held+";ended'", "configmap/app=app-x8w2m4k6zq@2", ""), "Healthy", ""},
		"waits for a person":           {deployment("confrev.io/advance: manual", "", ""), "Healthy", "Changes to its configuration wait (confrev.io/advance: manual)."},
		"waits for deploys":            {deployment("confrev.io/advance: on-deploy", "", ""), "Healthy", "on-deploy"},
		"an unknown value":             {deployment("confrev.io/advance: x", "", ""), "Healthy", ""},
		"paused by confrev":            {deployment("confrev.io/paused: configmap/app", "", "paused: true, "), "Suspended", "confrev paused it until there is: configmap/app"},
		"no longer paused":             {deployment("confrev.io/paused: configmap/app", "", ""), "Healthy", ""},
		"what is no note is no reason": {deployment("confrev.io/held: '%s;on=,;;='", "", ""), "Healthy", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := health.GetResourceHealth(object(t, tt.text), all)
			if err != nil || string(got.Status) != tt.status || !strings.Contains(got.Message, tt.message) || tt.message == "" && got.Message != "" {
				t.Errorf("it is %+v, want %s (%s): %v", got, tt.status, tt.message, err)
			}
		})
	}
}

// actions returns the actions that Argo CD offers, those that cannot be used with a minus.
func actions(t *testing.T, vm lua.VM, obj *unstructured.Unstructured) string {
	t.Helper()
	scripts, err := vm.GetResourceActionDiscovery(obj)
	if err != nil {
		t.Fatal(err)
	}
	found, err := vm.ExecuteResourceActionDiscovery(obj, scripts)
	if err != nil {
		t.Fatal(err)
	}
	offered := map[string]string{}
	for _, action := range found {
		var params []string
		for _, param := range action.Params {
			params = append(params, param.Name)
		}
		offered[action.Name] = fmt.Sprint(map[bool]string{true: "-", false: "+"}[action.Disabled], params)
	}
	text, err := json.Marshal(offered)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run runs an action as Argo CD's server does, without open libraries.
func run(vm lua.VM, obj *unstructured.Unstructured, name string, params map[string]string) (*unstructured.Unstructured, error) {
	action, err := vm.GetResourceAction(obj, name)
	if err != nil {
		return nil, err
	}
	var given []*application.ResourceActionParameters
	for name, value := range params {
		given = append(given, &application.ResourceActionParameters{Name: &name, Value: &value})
	}
	changed, err := vm.ExecuteResourceAction(obj, action.ActionLua, given)
	if err != nil {
		return nil, err
	}
	if len(changed) != 1 || changed[0].K8SOperation != lua.PatchOperation {
		return nil, fmt.Errorf("it does %+v", changed)
	}
	return changed[0].UnstructuredObj, nil
}

func TestActionsOfSources(t *testing.T) {
	vm := lua.VM{ResourceOverrides: overrides(t)}
	for _, kind := range []string{"ConfigMap", "Secret"} {
		tracked := object(t, fmt.Sprintf(source(""), kind))
		if got := actions(t, vm, tracked); got != `{"resume":"-[]","stop":"+[revision]"}` {
			t.Errorf("%s: %s", kind, got)
		}
		if got := actions(t, vm, object(t, fmt.Sprintf(revision("u", "3", ""), kind))); got != `{}` {
			t.Errorf("a revision, which no one may change: %s", got)
		}
		if got := actions(t, vm, object(t, "apiVersion: v1\nkind: "+kind+"\nmetadata: {name: other}")); got != `{"resume":"-[]","stop":"-[revision]"}` {
			t.Errorf("one that no workload uses: %s", got)
		}
		stopped, err := run(vm, tracked, "stop", map[string]string{"revision": "app-5f7d8c9b2k"})
		if err != nil || stopped.GetAnnotations()["confrev.io/stop"] != "app-5f7d8c9b2k" {
			t.Fatalf("stopped, it has %v: %v", stopped, err)
		}
		if got := actions(t, vm, stopped); got != `{"resume":"+[]","stop":"-[revision]"}` {
			t.Errorf("stopped: %s", got)
		}
		resumed, err := run(vm, stopped, "resume", nil)
		if _, set := resumed.GetAnnotations()["confrev.io/stop"]; err != nil || set {
			t.Errorf("resumed, it has %v: %v", resumed, err)
		}
		for _, missing := range []map[string]string{nil, {"revision": ""}} {
			if _, err := run(vm, tracked, "stop", missing); err == nil || !strings.Contains(err.Error(), "name the revision") {
				t.Errorf("without a revision: %v", err)
			}
		}
	}
}

func TestActionsOfWorkloads(t *testing.T) {
	vm := lua.VM{ResourceOverrides: overrides(t)}
	for kind, builtIn := range map[string]string{
		"apps/v1 Deployment": "scale", "apps/v1 StatefulSet": "scale", "apps/v1 DaemonSet": "restart", "argoproj.io/v1alpha1 Rollout": "retry",
	} {
		version, name, _ := strings.Cut(kind, " ")
		const spec = "\nspec: {replicas: 1, strategy: {canary: {}}, template: {metadata: {annotations: {%s}}, spec: {containers: []}}}\nstatus: {}"
		head := "apiVersion: " + version + "\nkind: " + name + "\nmetadata: {name: web}"
		pinned := object(t, head+fmt.Sprintf(spec, "confrev.io/pins: configmap/app=app-b@2"))
		got := actions(t, vm, pinned)
		for _, want := range []string{`"confrev-advance":"-[]"`, `"confrev-undo":"+[pins]"`, `"confrev-wait":"+[]"`, `"` + builtIn + `"`} {
			if !strings.Contains(got, want) {
				t.Errorf("%s has %s, want %s", kind, got, want)
			}
		}
		if got := actions(t, vm, object(t, head+fmt.Sprintf(spec, ""))); strings.Contains(got, "confrev") || !strings.Contains(got, builtIn) {
			t.Errorf("without pins, %s has %s", kind, got)
		}
		waiting, err := run(vm, pinned, "confrev-wait", nil)
		if err != nil || waiting.GetAnnotations()["confrev.io/advance"] != "manual" || !strings.Contains(actions(t, vm, waiting), `"confrev-advance":"+[]"`) {
			t.Fatalf("%s, waiting: %v, %v", kind, waiting, err)
		}
		advanced, err := run(vm, waiting, "confrev-advance", nil)
		if _, set := advanced.GetAnnotations()["confrev.io/advance"]; err != nil || set {
			t.Errorf("%s, advanced: %v, %v", kind, advanced, err)
		}
		back, err := run(vm, pinned, "confrev-undo", map[string]string{"pins": "configmap/app=app-a@1"})
		if err != nil {
			t.Fatal(err)
		}
		if pins, _, _ := unstructured.NestedString(back.Object, "spec", "template", "metadata", "annotations", "confrev.io/pins"); pins != "configmap/app=app-a@1" {
			t.Errorf("%s is rolled back to %q", kind, pins)
		}
		if err := unstructured.SetNestedField(back.Object, "configmap/app=app-b@2", "spec", "template", "metadata", "annotations", "confrev.io/pins"); err != nil || fmt.Sprint(back.Object) != fmt.Sprint(pinned.Object) {
			t.Errorf("%s: more than the pins has changed: %v", kind, back.Object)
		}
		if _, err := run(vm, pinned, "confrev-undo", nil); err == nil {
			t.Errorf("%s: an undo without pins", kind)
		}
	}
}
