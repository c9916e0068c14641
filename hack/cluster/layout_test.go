package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRequiredVersion(t *testing.T) {
	const module = "k8s.io/kubernetes"
	tests := map[string]struct {
		gomod   string
		want    string
		wantErr string
	}{
		"a requirement in a block is found": {
			gomod: "module x\n\nrequire (\n\tk8s.io/api v0.36.3\n\tk8s.io/kubernetes v1.36.3\n)\n",
			want:  "v1.36.3",
		},
		"a comment after the version does not matter": {
			gomod: "require (\n\tk8s.io/kubernetes v1.36.3 // indirect\n)\n",
			want:  "v1.36.3",
		},
		"a requirement on a line of its own is found": {
			gomod: "module x\nrequire k8s.io/kubernetes v1.36.3\n",
			want:  "v1.36.3",
		},
		"tools and replaces that come first are not requirements": {
			gomod: "tool (\n\tk8s.io/kubernetes v0\n)\nreplace k8s.io/kubernetes => ../k v0.0.1\n" +
				"replace (\n\tk8s.io/kubernetes v1.0.0 => ../k\n)\nrequire (\n\tk8s.io/kubernetes v1.36.3\n)\n",
			want: "v1.36.3",
		},
		"a line that is a comment does not count": {
			gomod:   "require (\n\t// k8s.io/kubernetes v1.0.0\n)\n",
			wantErr: "no requirement of k8s.io/kubernetes",
		},
		"a longer path of the same start is another module": {
			gomod:   "require (\n\tk8s.io/kubernetes/v2 v2.0.0\n)\n",
			wantErr: "go get -tool",
		},
		"an empty file says what to do": {
			wantErr: "go get -tool",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := requiredVersion(test.gomod, module)
			checkError(t, err, test.wantErr)
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestValidateName(t *testing.T) {
	tests := map[string]struct {
		name    string
		wantErr string
	}{
		"a word is a name":                      {name: "dev"},
		"one letter is a name":                  {name: "a"},
		"digits and inner hyphens are allowed":  {name: "2-nodes"},
		"forty characters are the most":         {name: strings.Repeat("a", 40)},
		"forty-one characters are too many":     {name: strings.Repeat("a", 41), wantErr: "1 to 40"},
		"nothing is not a name":                 {name: "", wantErr: "1 to 40"},
		"a path cannot leave the directory":     {name: "../x", wantErr: `"../x" cannot name a cluster`},
		"a slash would be a directory within":   {name: "a/b", wantErr: "cannot name a cluster"},
		"a name that looks like a flag is none": {name: "-a", wantErr: "inner hyphens"},
		"a hyphen at the end is refused":        {name: "a-", wantErr: "inner hyphens"},
		"capitals are refused":                  {name: "Dev", wantErr: "lower-case"},
		"a second line is refused":              {name: "dev\n", wantErr: "cannot name a cluster"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			checkError(t, validateName(test.name), test.wantErr)
		})
	}
}

func TestStateDir(t *testing.T) {
	tests := map[string]struct {
		env     map[string]string
		want    string
		wantErr string
	}{
		"XDG_STATE_HOME wins":                   {env: map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/h"}, want: "/s"},
		"without it, the default is below HOME": {env: map[string]string{"HOME": "/h"}, want: "/h/.local/state"},
		"a relative XDG_STATE_HOME is ignored":  {env: map[string]string{"XDG_STATE_HOME": "s", "HOME": "/h"}, want: "/h/.local/state"},
		"without both, the error names both":    {wantErr: "set HOME or XDG_STATE_HOME"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := stateDir(func(key string) string { return test.env[key] })
			checkError(t, err, test.wantErr)
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestLayoutPaths(t *testing.T) {
	l := layout{modules: t.TempDir(), cache: "/cache/confrev", state: "/state/confrev"}
	writeFile(t, filepath.Join(l.modules, "kubernetes", "go.mod"), "require k8s.io/kubernetes v1.36.3\n")
	kubectl, err := l.binary("kubectl")
	checkError(t, err, "")
	writeFile(t, filepath.Join(l.modules, "kubernetes-1.35", "go.mod"), "require k8s.io/kubernetes v1.35.4\n")
	oldServer, err := l.binary("kube-apiserver-1.35")
	checkError(t, err, "")
	_, err = l.binary("helm")
	checkError(t, err, "find the version of helm")
	_, err = l.binary("nope")
	checkError(t, err, `no component "nope": choose from etcd,`)

	tests := map[string]struct{ got, want string }{
		"binaries lie below their module's version":   {kubectl, "/cache/confrev/bin/kubernetes-v1.36.3/kubectl"},
		"an older Kubernetes' binaries lie apart":     {oldServer, "/cache/confrev/bin/kubernetes-1.35-v1.35.4/kube-apiserver-1.35"},
		"a cluster has a directory of its own":        {l.cluster("dev"), "/state/confrev/clusters/dev"},
		"the kubeconfig is kwokctl's":                 {l.kubeconfig("dev"), "/state/confrev/clusters/dev/kubeconfig.yaml"},
		"the audit log is among the logs":             {l.auditLog("dev"), "/state/confrev/clusters/dev/logs/audit.log"},
		"a pid file is where kwokctl puts its own":    {l.pid("dev", "etcd"), "/state/confrev/clusters/dev/pids/etcd.pid"},
		"a verb's log is not lost with the cluster":   {l.verbLog("up", "dev"), "/state/confrev/logs/up-dev.log"},
		"the mark of a prepared cluster goes with it": {l.prepared("dev"), "/state/confrev/clusters/dev/prepared"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.got != test.want {
				t.Errorf("got %s, want %s", test.got, test.want)
			}
		})
	}
}

func TestBinariesOfOwnSource(t *testing.T) {
	l := layout{modules: t.TempDir(), cache: "/cache/confrev"}
	dir := filepath.Join(l.modules, "flux-ssa")
	writeFile(t, filepath.Join(dir, "go.mod"), "require github.com/fluxcd/pkg/ssa v0.78.0\n")
	writeFile(t, filepath.Join(dir, "go.sum"), "")
	seen := map[string]string{}
	for _, step := range []struct{ name, file, content string }{
		{name: "without source"},
		{"with source", "main.go", "package main\n"},
		{"after a change to the source", "main.go", "package main\n\nfunc main() {}\n"},
		{"with a second file", "more.go", "package main\n"},
		{"after a change to a dependency", "go.sum", "h1:\n"},
	} {
		if step.file != "" {
			writeFile(t, filepath.Join(dir, step.file), step.content)
		}
		got, err := l.binaries(moduleFluxSSA)
		checkError(t, err, "")
		if !strings.HasPrefix(got, "/cache/confrev/bin/flux-ssa-v0.78.0") {
			t.Errorf("%s: got %s", step.name, got)
		}
		if before, ok := seen[got]; ok {
			t.Errorf("%s, the binaries are where they were %s: %s", step.name, before, got)
		}
		seen[got] = step.name
	}
}

func TestSourceRoot(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "go.mod"), "module confrev.io/confrev/hack/cluster\n")
	writeFile(t, filepath.Join(root, "inner", "go.mod"), "module confrev.io/confrev/hack/cluster/inner\n")
	tests := map[string]struct {
		dir     string
		wantErr string
	}{
		"the root is itself":                         {dir: root},
		"a directory of another module is below it":  {dir: filepath.Join(root, "inner")},
		"elsewhere the error says where to run this": {dir: t.TempDir(), wantErr: "not inside the source of confrev.io/confrev/hack/cluster: use 'go run -C hack/cluster .'"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := sourceRoot(test.dir)
			checkError(t, err, test.wantErr)
			if err == nil && got != root {
				t.Errorf("got %s, want %s", got, root)
			}
		})
	}
}

// checkError wants an error with the given text, or none.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got error %v, want one with %q", err, want)
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
