package workload_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// fleet is a configured kind, with its template in an unusual place.
var fleet = workload.Kind{
	GVK:  schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Fleet"},
	Path: "spec.pods.template", Holder: workload.HolderKind{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "FleetSet"}, Path: "spec.template"},
}

// sample returns a pod template with references and pins.
func sample() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": "web"},
			Annotations: map[string]string{keys.Pins: "configmap/app=app-bbbbbbbbbb@1", keys.Hashes: "secret/db=abc@2"},
		},
		Spec: *gen.PodSpec(gen.EnvFrom("configmap/app"), gen.Volume("secret/db"), gen.InitContainer("init", gen.Env("configmap/web", "k"))),
	}
}

// read reads an object of a kind as a client does, from JSON.
func read(t testing.TB, obj client.Object, text string) client.Object {
	t.Helper()
	if err := json.Unmarshal([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// at puts a value at a path of an object: {"spec":{"template":value}}.
func at(t testing.TB, gvk schema.GroupVersionKind, path string, value any) string {
	t.Helper()
	for _, field := range slices.Backward(strings.Split(path, ".")) {
		value = map[string]any{field: value}
	}
	obj := value.(map[string]any)
	obj["apiVersion"], obj["kind"] = gvk.ToAPIVersionAndKind()
	obj["metadata"] = map[string]any{"name": "web", "namespace": "default", "uid": "1"}
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// every returns every kind, known and configured.
func every() []workload.Kind { return append(workload.Standard(), fleet) }

func TestTheTemplateOfEveryKind(t *testing.T) {
	for _, kind := range every() {
		t.Run(kind.Resource(), func(t *testing.T) {
			obj := read(t, kind.New(), at(t, kind.GVK, kind.Path, sample()))
			if got := workload.GVKOf(obj); got != kind.GVK {
				t.Errorf("GVKOf = %s", got)
			}
			template, err := kind.Template(obj)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sample(), *template); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			uses, err := kind.Uses(obj)
			var texts []string
			for _, use := range uses {
				texts = append(texts, use.String())
			}
			if got := strings.Join(texts, " "); err != nil || got != "configmap/app configmap/web secret/db" {
				t.Errorf("uses %q, %v", got, err)
			}
			if pins, err := kind.Pins(obj); err != nil || pins.String() != kind.PinsText(obj) || pins.String() != "configmap/app=app-bbbbbbbbbb@1" {
				t.Errorf("pins %q, %v", pins, err)
			}
			if want := "/" + strings.ReplaceAll(kind.Path, ".", "/"); kind.TemplatePointer() != want {
				t.Errorf("the pointer is %s, want %s", kind.TemplatePointer(), want)
			}
		})
	}
}

// What a user wrote is what counts, not what injection into the template made of it.
func TestUsesNamesSourcesOfInjectedRevisions(t *testing.T) {
	injected := sample()
	injected.Spec = *gen.PodSpec(gen.EnvFrom("configmap/app-bbbbbbbbbb"), gen.Volume("configmap/app-cccccccccc"))
	for _, kind := range every() {
		obj := read(t, kind.New(), at(t, kind.GVK, kind.Path, injected))
		uses, err := kind.Uses(obj)
		if err != nil || len(uses) != 2 || uses[0].String() != "configmap/app" || uses[1].String() != "configmap/app-cccccccccc" {
			t.Errorf("%s: uses %+v, %v", kind.Resource(), uses, err)
		}
		if facts := kind.Facts(obj); !cmp.Equal(facts.References, []string{"configmap/app-bbbbbbbbbb", "configmap/app-cccccccccc"}) {
			t.Errorf("%s: the template names %q", kind.Resource(), facts.References)
		}
	}
}

// Malformed pins have injected nothing, and are told.
func TestMalformedPinsOfEveryKind(t *testing.T) {
	malformed := sample()
	malformed.Annotations[keys.Pins] = "oops"
	for _, kind := range every() {
		obj := read(t, kind.New(), at(t, kind.GVK, kind.Path, malformed))
		if uses, err := kind.Uses(obj); err != nil || len(uses) != 3 {
			t.Errorf("%s: uses %+v, %v", kind.Resource(), uses, err)
		}
		if pins, err := kind.Pins(obj); err == nil || len(pins) > 0 || kind.PinsText(obj) != "oops" {
			t.Errorf("%s: pins %v, %v", kind.Resource(), pins, err)
		}
	}
}

// Nil lists and missing fields are no templates, or empty ones, and never a crash (kapp).
func TestTemplateMissingOrMalformed(t *testing.T) {
	tests := map[string]struct {
		text string
		bad  bool
	}{
		"nothing":                      {`{}`, false},
		"no spec":                      {`{"spec":null}`, false},
		"an empty spec":                {`{"spec":{}}`, false},
		"null on the way":              {`{"spec":{"pods":null}}`, false},
		"a null template":              {`{"spec":{"pods":{"template":null}}}`, false},
		"an empty template":            {`{"spec":{"pods":{"template":{}}}}`, false},
		"null metadata and spec":       {`{"spec":{"pods":{"template":{"metadata":null,"spec":null}}}}`, false},
		"null lists":                   {`{"spec":{"pods":{"template":{"metadata":{"annotations":null,"labels":null},"spec":{"containers":null,"initContainers":null,"volumes":null}}}}}`, false},
		"lists of null":                {`{"spec":{"pods":{"template":{"spec":{"containers":[null],"volumes":[null]}}}}}`, false},
		"null lists below":             {`{"spec":{"pods":{"template":{"spec":{"containers":[{"env":null,"envFrom":null}],"volumes":[{"projected":{"sources":null}},{"configMap":null}]}}}}}`, false},
		"null references":              {`{"spec":{"pods":{"template":{"spec":{"containers":[{"env":[{"valueFrom":null}],"envFrom":[{"configMapRef":null}]}]}}}}}`, false},
		"fields that pods do not have": {`{"spec":{"pods":{"template":{"spec":{"more":{"x":1}},"other":[]}}}}`, false},
		"a list on the way":            {`{"spec":[]}`, true},
		"a string on the way":          {`{"spec":{"pods":"x"}}`, true},
		"a template that is a list":    {`{"spec":{"pods":{"template":[]}}}`, true},
		"a template that is a string":  {`{"spec":{"pods":{"template":"x"}}}`, true},
		"a template that is false":     {`{"spec":{"pods":{"template":false}}}`, true},
		"containers that are a map":    {`{"spec":{"pods":{"template":{"spec":{"containers":{"a":{}}}}}}}`, true},
		"a container that is a string": {`{"spec":{"pods":{"template":{"spec":{"containers":["x"]}}}}}`, true},
		"annotations that are numbers": {`{"spec":{"pods":{"template":{"metadata":{"annotations":{"a":1}}}}}}`, true},
		"a name that is a number":      {`{"spec":{"pods":{"template":{"spec":{"volumes":[{"configMap":{"name":1}}]}}}}}`, true},
		"a quantity that is none":      {`{"spec":{"pods":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}}}}`, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(test.text), &obj.Object); err != nil {
				t.Fatal(err)
			}
			obj.SetGroupVersionKind(fleet.GVK)
			before := obj.DeepCopy()
			_, err := fleet.Template(obj)
			uses, usesErr := fleet.Uses(obj)
			if (err != nil) != test.bad || (usesErr != nil) != test.bad || len(uses) > 0 {
				t.Errorf("Template: %v; Uses: %v, %v", err, uses, usesErr)
			}
			if err != nil && !strings.Contains(err.Error(), "Fleet") {
				t.Errorf("%q does not say of what", err)
			}
			if pins, err := fleet.Pins(obj); len(pins) > 0 || err != nil || fleet.PinsText(obj) != "" {
				t.Errorf("pins %v, %v", pins, err)
			}
			if diff := cmp.Diff(before, obj); diff != "" {
				t.Errorf("the object was changed (-before +after):\n%s", diff)
			}
		})
	}
	if _, err := fleet.Template(&unstructured.Unstructured{}); err != nil {
		t.Errorf("an object without content: %v", err)
	}
	if _, err := fleet.Template(&corev1.ConfigMap{}); err == nil {
		t.Error("a ConfigMap has a pod template")
	}
}

func TestTypedObjectsWithoutContent(t *testing.T) {
	for _, kind := range workload.Standard() {
		uses, err := kind.Uses(kind.New())
		if err != nil || len(uses) > 0 {
			t.Errorf("%s: %v, %v", kind.Resource(), uses, err)
		}
		kind.Compact(kind.New())
	}
}

// FuzzTemplate puts any JSON where the template should be: it is read, or refused.
func FuzzTemplate(f *testing.F) {
	data, err := json.Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(data), `null`, `[]`, `"x"`, `{"spec":{"containers":[null]}}`, `{"metadata":{"creationTimestamp":null,"annotations":{"confrev.io/pins":"x"}}}`,
		`{"spec":{"containers":[{"resources":{"limits":{"cpu":1}},"ports":[{"containerPort":99999999999}]}]}}`,
		`{"spec":{"volumes":[{"projected":{"sources":[null]}}],"terminationGracePeriodSeconds":1.5}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var value any
		if json.Unmarshal(data, &value) != nil {
			return // no JSON
		}
		for _, kind := range []workload.Kind{fleet, workload.Rollout} {
			obj := &unstructured.Unstructured{}
			if obj.UnmarshalJSON([]byte(at(t, kind.GVK, kind.Path, value))) != nil {
				return // no object of the API
			}
			_, err := kind.Template(obj)
			uses, usesErr := kind.Uses(obj)
			facts := kind.Facts(obj)
			if (err != nil) != (usesErr != nil) || err != nil && len(uses)+len(facts.References) > 0 {
				t.Errorf("Template: %v; Uses: %v, %v; Facts: %+v", err, uses, usesErr, facts)
			}
			kind.WorkloadRef(obj)
			kind.Compact(obj)
		}
		revision := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: data}}
		workload.ControllerRevision.Facts(revision)
		workload.ControllerRevision.Reduce(revision)
	})
}

func TestReferred(t *testing.T) {
	tests := map[string]struct {
		text string
		want string // "" when the template is its own
	}{
		"a Deployment":                 {`{"spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}}}`, "Deployment.apps/web"},
		"with further fields":          {`{"spec":{"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web","scaleDown":"onsuccess"}}}`, "Deployment.apps/web"},
		"another version":              {`{"spec":{"workloadRef":{"apiVersion":"apps/v1beta1","kind":"Deployment","name":"web"}}}`, "Deployment.apps/web"},
		"another kind":                 {`{"spec":{"workloadRef":{"apiVersion":"v1","kind":"PodTemplate","name":"p"}}}`, "PodTemplate/p"},
		"a template of its own":        {`{"spec":{"template":{}}}`, ""},
		"nothing":                      {`{}`, ""},
		"null":                         {`{"spec":{"workloadRef":null}}`, ""},
		"a string, which Argo refuses": {`{"spec":{"workloadRef":"web"}}`, ""},
		"a number in it":               {`{"spec":{"workloadRef":{"name":1}}}`, ""},
		"a spec that is a list":        {`{"spec":[]}`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			obj := &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(test.text), &obj.Object); err != nil {
				t.Fatal(err)
			}
			kind, name, ok := workload.Rollout.WorkloadRef(obj)
			got := ""
			if ok {
				got = kind.String() + "/" + name
			}
			if got != test.want {
				t.Errorf("refers to %q, want %q", got, test.want)
			}
			if _, _, ok := fleet.WorkloadRef(obj); ok {
				t.Error("a kind that has no such field refers to something")
			}
		})
	}
	if _, _, ok := workload.Deployment.WorkloadRef(gen.Deployment("web")); ok {
		t.Error("a Deployment refers to something")
	}
}

func TestSelector(t *testing.T) {
	selector := &metav1.LabelSelector{
		MatchLabels:      map[string]string{"app": "web"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}}},
	}
	const text = "app=web,tier in (a,b)"
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "oops"}}}
	tests := map[string]struct {
		kind workload.Kind
		obj  client.Object
		want string
	}{
		"a Deployment":                  {workload.Deployment, &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: selector}}, text},
		"a StatefulSet":                 {workload.StatefulSet, &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: selector}}, text},
		"a DaemonSet":                   {workload.DaemonSet, &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: selector}}, text},
		"without one":                   {workload.Deployment, &appsv1.Deployment{}, ""},
		"one that is none":              {workload.Deployment, &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: bad}}, ""},
		"a CronJob, which has none":     {workload.CronJob, &batchv1.CronJob{}, ""},
		"a kind of which none is known": {fleet, &unstructured.Unstructured{Object: map[string]any{}}, ""},
	}
	for name, test := range tests {
		if got := test.kind.Selector(test.obj).String(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
