package session

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/test/gen"
)

func TestParseArguments(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion, corev1.SchemeGroupVersion})
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	for args, want := range map[string]string{
		"":                             "",
		"deployment/web":               "deployments.apps/web",
		"deployments.v1.apps/web":      "deployments.apps/web",
		"deployment/web configmap/app": "deployments.apps/web configmaps/app",
		"deployment web api":           "deployments.apps/web deployments.apps/api",
		"deployment,statefulset":       "deployments.apps/ statefulsets.apps/",
		"deployment":                   "deployments.apps/",
		"deployment/web api":           `error: "api" is not a TYPE/NAME, such as deployment/web`,
		"deployment/":                  `error: "deployment/" is not a TYPE/NAME, such as deployment/web`,
		"deployment deployment/web":    "error: there is no need to name a resource type again: write deployment/web, or deployment NAME",
		"web":                          `error: the server doesn't have a resource type "web"`,
	} {
		got, err := ParseObjects(mapper, strings.Fields(args))
		var texts []string
		for _, a := range got {
			texts = append(texts, a.Resource.String()+"/"+a.Name)
		}
		text := strings.Join(texts, " ")
		if err != nil {
			text = "error: " + err.Error()
		}
		if text != want {
			t.Errorf("%q: %s, want %s", args, text, want)
		}
	}
}

func TestSplitArgsTakesWhatKubectlTakes(t *testing.T) {
	tests := map[string]struct {
		args     []string
		workload string
		rest     []string
		err      string
	}{
		"type and name in one":       {[]string{"deployment/web", "configmap/app"}, "deployment/web", []string{"configmap/app"}, ""},
		"type and name in two":       {[]string{"deploy", "web", "configmap/app"}, "deploy/web", []string{"configmap/app"}, ""},
		"nothing":                    {nil, "", nil, "no workload given"},
		"a name alone":               {[]string{"web"}, "", nil, `"web" is not a workload`},
		"a name alone with a source": {[]string{"web", "configmap/app"}, "", nil, `"web" is not a workload`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			workload, rest, err := SplitArgs(tt.args)
			if workload != tt.workload || !slices.Equal(rest, tt.rest) || !says(err, tt.err) {
				t.Errorf("got %q, %q, %v", workload, rest, err)
			}
		})
	}
}

func says(err error, want string) bool {
	if want == "" || err == nil {
		return want == "" && err == nil
	}
	return strings.Contains(err.Error(), want)
}

// Rule 5: two writers may have given one number to two contents.
func TestNumbered(t *testing.T) {
	revisions := []plan.Revision{{Name: "app-x", Number: 3}, {Name: "app-a", Number: 1}, {Name: "app-c", Number: 3}}
	for name, test := range map[string]struct {
		revisions []plan.Revision
		number    int64
		want      pin.Pin
		err       string
	}{
		"one has it":           {revisions, 1, pin.Pin{Revision: "app-a", Number: 1}, ""},
		"none has it":          {revisions, 2, pin.Pin{}, "configmap/app has no revision 2: there is 1, 3"},
		"two have it":          {revisions, 3, pin.Pin{}, "configmap/app has several revisions 3: app-c, app-x"},
		"there is none at all": {nil, 1, pin.Pin{}, "configmap/app has no revision 1: there is none"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Numbered(gen.Source("configmap/app"), test.revisions, test.number)
			if got != test.want || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
