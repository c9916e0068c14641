package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// forbiddenReader lets no one read anything.
func forbiddenReader(t *testing.T) client.WithWatch {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(workload.Deployment.GVK, meta.RESTScopeNamespace)
	return fake.NewClientBuilder().WithRESTMapper(mapper).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "web", nil)
		},
	}).Build()
}

// A right that was removed is looked for again.
func TestATriggerThatMayNotBeReadAnyMore(t *testing.T) {
	triggers, err := optin.ParseRestartOn("deployments.v1.apps/web")
	if err != nil {
		t.Fatal(err)
	}
	seen := forbiddenReader(t)
	trigger := triggers[0]
	tr := New(Limits{Any: true}, seen, seen)
	tr.permitted[trigger.Resource] = true
	prepared, err := tr.Prepare(t.Context(), trigger)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tr.Read(t.Context(), gen.Namespace, prepared)
	terminal, ok := errors.AsType[*notice.TerminalError](err)
	if !ok || terminal.Reason != notice.RestartOnForbidden || !strings.Contains(terminal.Text, "may not get deployments.apps") || tr.permitted[trigger.Resource] {
		t.Errorf("%v, still permitted: %v", err, tr.permitted[trigger.Resource])
	}
}

// A kind whose objects cannot be listed is not followed: its watch would never catch up, and confrev would not be ready for as long.
func TestATriggerThatCannotBeListed(t *testing.T) {
	triggers, err := optin.ParseRestartOn("deployments.v1.apps/web")
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, test := range map[string]struct {
		refusal error
		reason  string // of the terminal error, if it is one
	}{
		"it can":                     {nil, ""},
		"its conversion fails":       {apierrors.NewInternalError(errors.New("conversion webhook")), ""},
		"the right to list has gone": {apierrors.NewForbidden(resource, "", nil), notice.RestartOnForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			c := interceptor.NewClient(forbiddenReader(t), interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
					obj.(*authorizationv1.SelfSubjectAccessReview).Status.Allowed = true
					return nil
				},
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
					return test.refusal
				},
			})
			tr := New(Limits{Any: true}, c, c)
			_, err := tr.Prepare(t.Context(), triggers[0])
			terminal, _ := errors.AsType[*notice.TerminalError](err)
			if (err == nil) != (test.refusal == nil) || (terminal != nil) != (test.reason != "") || terminal != nil && terminal.Reason != test.reason {
				t.Errorf("%v", err)
			}
			if permitted := tr.permitted[triggers[0].Resource]; permitted != (test.refusal == nil) {
				t.Errorf("permitted: %v", permitted)
			}
		})
	}
}

// The API knows a resource by its singular too; its rights and events go by the plural.
func TestATriggerIsCalledAsTheAPICallsIt(t *testing.T) {
	triggers, err := optin.ParseRestartOn("deployment.v1.apps/web")
	if err != nil {
		t.Fatal(err)
	}
	seen := forbiddenReader(t)
	_, err = New(Limits{Any: true}, seen, seen).Prepare(t.Context(), triggers[0])
	terminal, ok := errors.AsType[*notice.TerminalError](err)
	if !ok || terminal.Reason != optin.InvalidRestartOn || !strings.Contains(terminal.Text, "write deployments") {
		t.Errorf("%v", err)
	}
}

// What the chart does not list is not read, whatever else confrev may read (rule 19).
func TestRestartOnReadsOnlyWhatIsListed(t *testing.T) {
	triggers, err := optin.ParseRestartOn("namespaces.v1/tenant-b{.status.phase}")
	if err != nil {
		t.Fatal(err)
	}
	limits := Limits{Listed: []schema.GroupResource{{Resource: "persistentvolumeclaims"}}}
	// Nothing is asked of any reader.
	_, err = New(limits, nil, nil).Prepare(t.Context(), triggers[0])
	terminal, ok := errors.AsType[*notice.TerminalError](err)
	if !ok || terminal.Reason != notice.RestartOnForbidden || !strings.Contains(terminal.Text, `may not follow namespaces;`) {
		t.Errorf("%v", err)
	}
}

func TestFingerprint(t *testing.T) {
	object := func(text string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &obj.Object); err != nil {
			t.Fatal(err)
		}
		return obj
	}
	const base = `{"kind":"W","metadata":{"name":"w","resourceVersion":"1"},"spec":{"a":"1","b":{"c":[1,2]}},"status":{"phase":"x"}}`
	tests := map[string]struct {
		other  string
		fields []optin.Field
		same   bool
	}{
		"nothing changed":                   {base, nil, true},
		"metadata changed":                  {strings.Replace(base, `"resourceVersion":"1"`, `"resourceVersion":"2","labels":{"x":"y"}`, 1), nil, true},
		"status changed":                    {strings.Replace(base, `"x"`, `"y"`, 1), nil, true},
		"status went":                       {strings.Replace(base, `,"status":{"phase":"x"}`, ``, 1), nil, true},
		"spec changed":                      {strings.Replace(base, `"a":"1"`, `"a":"2"`, 1), nil, false},
		"another field came":                {strings.Replace(base, `"status"`, `"data":{},"status"`, 1), nil, false},
		"a list in another order":           {strings.Replace(base, `[1,2]`, `[2,1]`, 1), nil, false},
		"a string in the place of a number": {strings.Replace(base, `[1,2]`, `["1","2"]`, 1), nil, false},
		"the field changed":                 {strings.Replace(base, `"a":"1"`, `"a":"2"`, 1), []optin.Field{"{.spec.a}"}, false},
		"another field changed":             {strings.Replace(base, `"a":"1"`, `"a":"2"`, 1), []optin.Field{"{.spec.b.c[0]}"}, true},
		"one of two fields changed":         {strings.Replace(base, `"a":"1"`, `"a":"2"`, 1), []optin.Field{"{.spec.a}", "{.spec.b}"}, false},
		"the field went":                    {strings.Replace(base, `"a":"1",`, ``, 1), []optin.Field{"{.spec.a}"}, false},
		"a field that neither has":          {strings.Replace(base, `"a":"1"`, `"a":"2"`, 1), []optin.Field{"{.spec.zzz}"}, true},
		"a field below what is not there":   {base, []optin.Field{"{.zzz.yyy[0].xxx}"}, true},
		"a field of the status":             {strings.Replace(base, `"x"`, `"y"`, 1), []optin.Field{"{.status.phase}"}, false},
		"null is not the same as not there": {strings.Replace(base, `"a":"1"`, `"a":null`, 1), []optin.Field{"{.spec.a}"}, false},
		"below null":                        {strings.Replace(base, `"b":{"c":[1,2]}`, `"b":null`, 1), []optin.Field{"{.spec.b.c}"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			one, err := fingerprint(object(base), test.fields)
			if err != nil {
				t.Fatal(err)
			}
			other, err := fingerprint(object(test.other), test.fields)
			if err != nil {
				t.Fatal(err)
			}
			if (one == other) != test.same {
				t.Errorf("%s and %s", one, other)
			}
			if _, err := pin.ParseHashes("w.v1.example.com/w=" + one + "@1"); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("golden", func(t *testing.T) {
		for want, fields := range map[string][]optin.Field{"2veh6dpxrurtclxm": nil, "dllh3l2t6x5a5gz2": {"{.spec.a}"}, "qpvoivflfqunjf3p": {"{.spec.a}", "{.spec.b}"}} {
			if got, err := fingerprint(object(base), fields); got != want || err != nil {
				t.Errorf("of %q: %s, %v; was %s. It must never change: every workload that restarts on something would restart", fields, got, err, want)
			}
		}
	})
	t.Run("which field is part of it", func(t *testing.T) {
		same := object(`{"spec":{"a":"1","b":"1"}}`)
		a, _ := fingerprint(same, []optin.Field{"{.spec.a}"})
		if b, _ := fingerprint(same, []optin.Field{"{.spec.b}"}); a == b {
			t.Error("two fields of one value are alike")
		}
	})
	t.Run("what is too much is not hashed", func(t *testing.T) {
		big := object(`{"kind":"Widget","metadata":{"name":"w"},"spec":{"a":"` + strings.Repeat("canary", 200_000) + `"}}`)
		if _, err := fingerprint(big, nil); err != nil {
			t.Error(err)
		}
		_, err := fingerprint(big, []optin.Field{"{.spec}", "{.spec.a}"})
		terminal, ok := errors.AsType[*notice.TerminalError](err)
		if !ok || terminal.Reason != optin.InvalidRestartOn || terminal.Text !=
			"annotation confrev.io/restart-on: what it names of Widget w is more than 2097152 bytes; name fields that matter" {
			t.Errorf("%v", err)
		}
	})
}

// A fingerprint that differs from look to look makes the workload roll forever.
func TestFingerprintIsStable(t *testing.T) {
	const text = `{"spec":{"a":"1","b":"2","c":"3","d":"4","e":{"name":"x"},"f":{"name":"y"},"g":{"name":"z"}}}`
	for name, fields := range map[string][]optin.Field{
		"all of it": nil, "a map": {"{.spec}"},
	} {
		t.Run(name, func(t *testing.T) {
			first := ""
			for range 100 {
				obj := &unstructured.Unstructured{}
				if err := json.Unmarshal([]byte(text), &obj.Object); err != nil {
					t.Fatal(err)
				}
				got, err := fingerprint(obj, fields)
				if err != nil {
					t.Fatal(err)
				}
				if first == "" {
					first = got
				}
				if got != first {
					t.Fatalf("now %s, now %s", first, got)
				}
			}
		})
	}
}
