package revision

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/runtime"

	"confrev.io/confrev/test/gen"
)

// expression renders one of the chart's templates as Helm does.
func expression(t *testing.T, name string, data any) string {
	t.Helper()
	text, err := os.ReadFile("../../charts/confrev/templates/_helpers.tpl")
	if err != nil {
		t.Fatal(err)
	}
	// Others use functions that only Helm has.
	text = bytes.Join(regexp.MustCompile(`(?s)\{\{- define "confrev\.revision(Form|Name)" -\}\}.*?\{\{- end -\}\}`).FindAll(text, -1), nil)
	all := template.New("helpers")
	functions := template.FuncMap{"list": func(items ...any) []any { return items }}
	functions["include"] = func(name string, data any) (string, error) {
		var b strings.Builder
		err := all.ExecuteTemplate(&b, name, data)
		return b.String(), err
	}
	if _, err := all.Funcs(functions).Parse(string(text)); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := all.ExecuteTemplate(&b, name, data); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// find is the function of the API server's own library: what of a text a regular expression matches first.
var find = cel.Function("find", cel.MemberOverload("string_find_string", []*cel.Type{cel.StringType, cel.StringType}, cel.StringType,
	cel.BinaryBinding(func(text, expression ref.Val) ref.Val {
		return types.String(regexp.MustCompile(string(expression.(types.String))).FindString(string(text.(types.String))))
	})))

// Rules 17 and 20: the guards' policy and IsRevision know the same objects by their form.
func TestThePolicyKnowsTheFormOfARevision(t *testing.T) {
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.OptionalTypes(), ext.Strings(ext.StringsVersion(2)), find)
	if err != nil {
		t.Fatal(err)
	}
	ast, issues := env.Compile(expression(t, "confrev.revisionForm", "object"))
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range gen.RevisionForms() {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(form.ConfigMap)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := program.Eval(map[string]any{"object": object})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Value() != IsRevision(form.ConfigMap) {
			t.Errorf("%s: the policy says %v, IsRevision %v", name, got.Value(), IsRevision(form.ConfigMap))
		}
	}
}
