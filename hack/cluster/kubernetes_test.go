package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestKubernetesByMinor(t *testing.T) {
	tests := map[string]struct {
		minor   string
		want    module
		wantErr string
	}{
		"the default version is one of the choices": {minor: defaultKubernetes.minor, want: moduleKubernetes},
		"an older version is a module of its own":   {minor: "1.35", want: module{"kubernetes-1.35", "k8s.io/kubernetes"}},
		"of another version, the error names all":   {minor: "1.29", wantErr: "--kubernetes=1.29: choose from 1.36, 1.35, 1.34"},
		"a patch version is not for choice":         {minor: "v1.35.4", wantErr: "choose from"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := kubernetesByMinor(test.minor)
			checkError(t, err, test.wantErr)
			if got.module != test.want {
				t.Errorf("got %v, want %v", got.module, test.want)
			}
		})
	}
}

func TestEveryVersionHasAControlPlane(t *testing.T) {
	l, err := newLayout()
	checkError(t, err, "")
	for _, k := range kubernetesVersions {
		version, err := l.version(k.module)
		checkError(t, err, "")
		if !strings.HasPrefix(version, "v"+k.minor+".") {
			t.Errorf("module %s is of %s, want %s", k.module.dir, version, k.minor)
		}
		for _, name := range k.components() {
			c, err := componentByName(name)
			checkError(t, err, "")
			want := k.module
			if name == "etcd" {
				want = moduleKubernetes
			}
			if c.module != want {
				t.Errorf("%s is of module %s, want %s", name, c.module.dir, want.dir)
			}
		}
	}
}

func TestCheckKubernetes(t *testing.T) {
	l := layout{state: t.TempDir()}
	older, err := kubernetesByMinor("1.35")
	checkError(t, err, "")
	writeFile(t, l.kwokctlConfig("older"), "kind: KwokctlConfiguration\noptions:\n  etcdVersion: 3.6.5\n  kubeVersion: v1.35.4\n")
	writeFile(t, l.kwokctlConfig("odd"), "kind: KwokctlConfiguration\n")
	tests := map[string]struct {
		cluster string
		wanted  kubernetes
		wantErr string
	}{
		"a new cluster can have any version":          {cluster: "new", wanted: older},
		"a cluster is brought up at its version":      {cluster: "older", wanted: older},
		"one of another version is not, and says why": {cluster: "older", wanted: defaultKubernetes, wantErr: `cluster "older" has Kubernetes 1.35, not 1.36: use --kubernetes=1.35`},
		"a cluster whose version is unknown says so":  {cluster: "odd", wanted: older, wantErr: "no options.kubeVersion"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			checkError(t, l.checkKubernetes(test.cluster, test.wanted), test.wantErr)
		})
	}
}

func TestCreateArgsAreOfTheVersion(t *testing.T) {
	l, err := newLayout()
	checkError(t, err, "")
	l.state = t.TempDir()
	for _, k := range kubernetesVersions {
		t.Run(k.minor, func(t *testing.T) {
			args, err := cluster{layout: l, name: "dev"}.createArgs(upOptions{kubernetes: k}, false)
			checkError(t, err, "")
			version, err := l.version(k.module)
			checkError(t, err, "")
			for _, process := range controlPlane {
				at := slices.Index(args, "--"+process+"-binary")
				want, err := l.binary(k.component(process))
				checkError(t, err, "")
				if at < 0 || args[at+1] != want {
					t.Errorf("%s is not %s in %v", process, want, args)
				}
			}
			settings, err := os.ReadFile(filepath.Join(l.state, "kwokctl.yaml"))
			checkError(t, err, "")
			for _, want := range []string{`kubeVersion: "` + version + `"`, l.cluster("dev") + "/pki/ca.crt"} {
				if !strings.Contains(string(settings), want) {
					t.Errorf("%q is missing in\n%s", want, settings)
				}
			}
		})
	}
}
