package analysis

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

var subject = Subject{
	Owner: metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "uid-1"}, Namespace: "shop",
	Pins: "configmap/app=app-bbbbbbbbbb@2", At: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC),
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestParseNames(t *testing.T) {
	for text, want := range map[string]string{
		"error-rate": "error-rate", "error-rate, latency,error-rate": "error-rate latency", "": "!", "a,,b": "!", "A": "!", "a/b": "!",
		"a,b,c,d,e,f,g,h,i,j,k": "!it names 11", "a,b,c,d,e,f,g,h,i,j": "a b c d e f g h i j", "a,a,a,a,a,a,a,a,a,a,a": "!it names 11",
	} {
		got, err := ParseNames(text)
		if complaint, bad := strings.CutPrefix(want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), complaint) {
				t.Errorf("%q: %v, %v", text, got, err)
			}
		} else if strings.Join(got, " ") != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// Rule 43: any process comes to the same name, and another change gets another run.
func TestName(t *testing.T) {
	const golden = "web-error-rate-"
	name := subject.Name("error-rate")
	if !strings.HasPrefix(name, golden) || name != subject.Name("error-rate") {
		t.Errorf("the name is %s", name)
	}
	later, other, repinned, long := subject, subject, subject, subject
	later.At = later.At.Add(time.Second)
	other.Owner.UID = "uid-2"
	repinned.Pins = "configmap/app=app-cccccccccc@3"
	for what, s := range map[string]Subject{"a later change": later, "another workload": other, "other pins": repinned} {
		if s.Name("error-rate") == name {
			t.Errorf("%s has the same run", what)
		}
	}
	if subject.Name("latency") == name {
		t.Error("another template has the same run")
	}
	long.Owner.Name = strings.Repeat("a.", 126)
	if problems := validation.IsDNS1123Subdomain(long.Name(strings.Repeat("b", 253))); len(problems) > 0 {
		t.Errorf("%v", problems)
	}
}

// Rule 43: what an AnalysisRun has, and which templates cannot have one.
func TestRun(t *testing.T) {
	run, why := subject.Run(object(t, `
metadata: {name: error-rate, labels: {a: b}, annotations: {c: d}}
spec:
  args: [{name: workload}, {name: namespace, value: theirs}, {name: limit, value: "5"}, {name: token, valueFrom: {secretKeyRef: {name: t, key: k}}}]
  metrics: [{name: rate, count: 3, interval: 10s, provider: {job: {}}}, {name: once, provider: {job: {}}}]
  dryRun: [{metricName: once}]
`))
	if why != "" {
		t.Fatal(why)
	}
	want := object(t, `
apiVersion: argoproj.io/v1alpha1
kind: AnalysisRun
metadata: {namespace: shop, labels: {confrev.io/analysis-of: uid-1}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: uid-1}]}
spec:
  args: [{name: workload, value: web}, {name: namespace, value: shop}, {name: limit, value: "5"}, {name: token, valueFrom: {secretKeyRef: {name: t, key: k}}}]
  metrics: [{name: rate, count: 3, interval: 10s, provider: {job: {}}}, {name: once, provider: {job: {}}}]
  dryRun: [{metricName: once}]
`)
	run.SetName("")
	got, err := yaml.Marshal(run.Object)
	if err != nil {
		t.Fatal(err)
	}
	expected, err := yaml.Marshal(want.Object)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(expected), strings.Replace(string(got), "  name: \"\"\n", "", 1)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for text, complaint := range map[string]string{
		"spec: {}": "it has no metrics",
		"spec: {metrics: [{name: rate, interval: 10s}]}":     `its metric 1 of 1 never ends: set count`,
		"spec: {metrics: [{name: once}], args: [{name: x}]}": `its argument 1 of 1 has no value`,
		"spec: x": "its spec cannot be read",
	} {
		if _, why := subject.Run(object(t, text)); !strings.Contains(why, complaint) {
			t.Errorf("%s: %q", text, why)
		}
	}
}

// Rule 43: which outcomes count, and whose.
func TestRead(t *testing.T) {
	for phase, want := range map[string]Outcome{
		"": Unknown, "Pending": Unknown, "Running": Unknown, "Successful": Successful, "Failed": Failed, "Error": Undecided, "Inconclusive": Undecided,
	} {
		run := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"phase": phase}}}
		for owner, want := range map[types.UID]Outcome{"uid-1": want, "uid-2": Undecided} {
			run.SetOwnerReferences([]metav1.OwnerReference{{UID: owner}})
			if got := subject.Read(run); got != want {
				t.Errorf("%q of %s: %q, want %q", phase, owner, got, want)
			}
		}
	}
}

// Rule 43: the last three that have ended are kept, and all that run.
func TestSuperfluous(t *testing.T) {
	var runs []unstructured.Unstructured
	for i, phase := range []string{"Successful", "Failed", "Running", "Error", "Inconclusive", "Successful", ""} {
		run := unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"phase": phase}}}
		run.SetName(string(rune('a' + i)))
		run.SetCreationTimestamp(metav1.NewTime(subject.At.Add(-time.Duration(i) * time.Minute)))
		runs = append(runs, run)
	}
	// Those of the present change are kept, however many they are.
	for together, want := range map[int]string{1: "fe", 3: "fe", 4: "f", 5: ""} {
		var names string
		for _, run := range Superfluous(runs, together) {
			names += run.GetName()
		}
		if names != want {
			t.Errorf("with %d at a time, superfluous are %q, want %q", together, names, want)
		}
	}
}
