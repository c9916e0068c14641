package render_test

import (
	"fmt"
	"strings"
	"testing"

	"confrev.io/confrev/internal/render"
)

const web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: web
        envFrom:
        - configMapRef: {name: app}
        - secretRef: {name: db}
---
`

// An error is one line that names the file, the line and the object.
func TestErrors(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"no YAML":                           {"a: b\n---\na: b: c\n", "in.yaml:3: mapping values are not allowed in this context"},
		"no YAML, far down":                 {web + "kind: ConfigMap\ndata:\n\tx: y\n", "in.yaml:15: found character that cannot start any token"},
		"a document that ends early":        {"a: b\n...\nc: d\n", "in.yaml:1: want a line --- between documents"},
		"another encoding":                  {"\xff\xfea\x00", "in.yaml:1: it is not UTF-8"},
		"a key twice in a source":           {web + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata:\n  color: blue\n  color: red\n", `in.yaml:18: configmap/app: key "color" is defined twice`},
		"a key twice in a workload":         {strings.Replace(web, "spec:\n", "spec:\n  replicas: 1\n  replicas: 2\n", 1), `in.yaml:6: deployment/web: key "replicas" is defined twice`},
		"data that is no text":              {web + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {size: 10}\n", "in.yaml:13: configmap/app: json: cannot unmarshal number"},
		"data that YAML 1.1 takes for true": {web + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {enabled: yes}\n", "in.yaml:13: configmap/app: json: cannot unmarshal bool"},
		"a Secret that is not in base64":    {web + "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\ndata: {password: '!'}\n", "in.yaml:13: secret/db: illegal base64 data"},
		"two sources of one name": {web + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {a: b}\n",
			"in.yaml:17: configmap/app: it is defined twice, with different content in in.yaml:13"},
		"a revision that was changed": {web + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app, annotations: {confrev.io/source-name: web}}\n",
			"in.yaml:13: configmap/app: it was changed after it was rendered: change configmap/web instead, and render again"},
		"a template that is none":       {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {volumes: yes}}}\n", "in.yaml:1: deployment/web: spec.template is not a pod template: json: cannot unmarshal bool into Go struct field PodSpec.spec.volumes of type []v1.Volume"},
		"an alias of what it is in":     {"a: &a [*a]\n", "in.yaml:1: anchor … value contains itself"},
		"an alias of nothing":           {"a: *b\n", "in.yaml:1: unknown anchor … referenced"},
		"aliases of aliases of aliases": {bomb(), "in.yaml:1: document contains excessive aliasing"},
		"an unknown option":             {resourceList("{kind: Render, spec: {mod: checksum}}"), `in.yaml:4: functionConfig: error unmarshaling JSON: while decoding JSON: json: unknown field "mod"`},
		"an unknown mode":               {resourceList("{kind: Render, spec: {mode: hash}}"), `functionConfig: "hash" is not a mode: want revision or checksum`},
		"an unknown tool":               {resourceList("{kind: Render, spec: {keepFor: [argo]}}"), `functionConfig: "argo" is not a tool that confrev knows: want helm, argocd or flux`},
		"another function's options":    {resourceList("{kind: StarlarkRun}"), `in.yaml:4: functionConfig: kind "StarlarkRun": want Render or ConfigMap`},
		"an unknown option of kpt's":    {resourceList("{apiVersion: v1, kind: ConfigMap, data: {mod: checksum}}"), `in.yaml:4: functionConfig: error unmarshaling JSON: while decoding JSON: json: unknown field "mod"`},
		"an unknown tool of kpt's":      {resourceList("{apiVersion: v1, kind: ConfigMap, data: {keepFor: 'helm,argo'}}"), `functionConfig: "argo" is not a tool that confrev knows`},
		"data that is no mapping":       {resourceList("{apiVersion: v1, kind: ConfigMap, data: checksum}"), "functionConfig: json: cannot unmarshal string"},
		"options that are none":         {resourceList("[]"), `in.yaml:4: functionConfig: kind "": want Render or ConfigMap`},
		"a malformed kind":              {resourceList("{kind: Render, spec: {workloads: [{kind: web}]}}"), `functionConfig: workloads[0]: kind "web"`},
		"a reference without a path":    {resourceList("{kind: Render, spec: {nameReference: [{kind: ConfigMap, fieldSpecs: [{kind: A}]}]}}"), "functionConfig: nameReference[0].fieldSpecs[0]: it has no path"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := render.Render([]render.File{{Name: "in.yaml", Data: []byte(tt.in)}}, render.Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
			function := strings.Contains(tt.in, "kind: ResourceList")
			if strings.Contains(err.Error(), "\n") || len(out.Text) > 0 && !function {
				t.Errorf("the error is not one line, or something came out: %q", err)
			}
		})
	}
}

func resourceList(functionConfig string) string {
	return "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\nfunctionConfig: " + functionConfig + "\n"
}

// bomb returns a small document that is huge when its aliases are resolved.
func bomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return text
}

func TestWarnings(t *testing.T) {
	in := `apiVersion: v1
kind: ConfigMap
metadata: {name: app, annotations: {confrev.io/policy: frozen}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-root-ca.crt}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {confrev.io/track: "configmap/app,configmap/kube-root-ca.crt,app", confrev.io/settle: soon}
spec:
  template:
    spec:
      containers:
      - envFrom: [configMapRef: {name: app}, configMapRef: {name: app}, configMapRef: {name: kube-root-ca.crt}]
`
	out, err := render.Render([]render.File{{Name: "in.yaml", Data: []byte(in)}}, render.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wants := []string{
		`in.yaml:9: deployment/web: annotation confrev.io/track: want "all", "none" or a list of sources`,
		`in.yaml:9: deployment/web: annotation confrev.io/settle: "soon" is not a duration`,
		"in.yaml:1: configmap/app: annotation confrev.io/policy of configmap/app: \"frozen\" is not a policy",
		"in.yaml:9: deployment/web: configmap/kube-root-ca.crt is left as it is: the cluster itself keeps writing it",
	}
	for i, want := range wants {
		if len(out.Warnings) != len(wants) || !strings.HasPrefix(out.Warnings[i], want) {
			t.Fatalf("got %q, want %q", out.Warnings, wants)
		}
	}
}

// A reference that only seems to lead to another namespace, since one of the two does not say its own, is told.
func TestHalfNamedNamespacesAreWarnedOf(t *testing.T) {
	in := func(sourceIn, workloadIn string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app" + sourceIn + "}\n---\n" + strings.Replace(web, "{name: web}", "{name: web"+workloadIn+"}", 1)
	}
	const note = "in.yaml:5: deployment/web: configmap/app is left as it is: only one of the two names its namespace; use --namespace"
	tests := map[string]struct{ in, namespace, want string }{
		"the source names it":            {in(", namespace: prod", ""), "", note},
		"the workload is not rendered":   {strings.Replace(in("", ", namespace: prod"), "prod}", "prod, annotations: {confrev.io/track: none}}", 1), "", ""},
		"the workload names it":          {in("", ", namespace: prod"), "", note},
		"another one without a flag":     {in(", namespace: prod", ", namespace: test"), "", ""},
		"another one, and the flag":      {in("", ", namespace: prod"), "test", ""},
		"the same, and the flag":         {in("", ", namespace: prod"), "prod", ""},
		"another, in a stream with both": {in("", "") + "---\n" + in(", namespace: prod", ", namespace: prod"), "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := render.Render([]render.File{{Name: "in.yaml", Data: []byte(tt.in)}}, render.Options{Namespace: tt.namespace})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(out.Warnings, "\n"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// What is wrong with a Secret is told without telling the secret.
func TestErrorsTellNoSecrets(t *testing.T) {
	for _, value := range []string{
		"{password: [hunter2]}", "{password: {hunter2: hunter2}}", "{password: hunter2!}", "hunter2", "[hunter2]", "{password: *hunter2}",
		"{password: !!int hunter2}", "{password: !!binary hunter2!}", "{password: !!timestamp hunter2}", "{password: \"\\hunter2\"}", "{password: hunter2", "{password: hunter2: x}",
		"{password: 'hunter2}", "{? [hunter2] : hunter2}", "{password: {{hunter2}}}", "{password: @hunter2}",
		"{password: %hunter2}", "{password: &hunter2 [*hunter2]}", "{password: !hunter2! x}", "\n  a: hunter2\n b: hunter2", "{<<: hunter2}", "{<<: [hunter2]}",
	} {
		for _, field := range []string{"data", "stringData"} {
			in := web + "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\n" + field + ": " + value + "\n"
			out, err := render.Render([]render.File{{Name: "in.yaml", Data: []byte(in)}}, render.Options{})
			if err != nil && strings.Contains(err.Error(), "hunter2") || strings.Contains(strings.Join(out.Warnings, " "), "hunter2") {
				t.Errorf("%s: %s tells it: %v", field, value, err)
			}
		}
	}
}
