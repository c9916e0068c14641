package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestUpOptionsValidate(t *testing.T) {
	good := upOptions{name: "dev", nodes: 3, kubernetes: defaultKubernetes}
	tests := map[string]struct {
		change  func(*upOptions)
		wantErr string
	}{
		"the defaults are good":             {change: func(*upOptions) {}},
		"a port of one's own is good":       {change: func(o *upOptions) { o.port = 6443 }},
		"a privileged port is refused":      {change: func(o *upOptions) { o.port = 443 }, wantErr: "--port=443: use 1024 to 65535"},
		"a port beyond the last is refused": {change: func(o *upOptions) { o.port = 65536 }, wantErr: "--port=65536"},
		"a cluster has nodes":               {change: func(o *upOptions) { o.nodes = 0 }, wantErr: "--nodes=0: use 1 to 1000"},
		"a bad name is refused":             {change: func(o *upOptions) { o.name = "a b" }, wantErr: "cannot name a cluster"},
		"a real node has one version only": {
			change:  func(o *upOptions) { o.realNode, o.kubernetes = true, kubernetesVersions[1] },
			wantErr: "--real-node: its kubelet is of Kubernetes 1.36",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := good
			test.change(&options)
			checkError(t, options.validate(), test.wantErr)
		})
	}
}

func TestLinkFlags(t *testing.T) {
	tests := map[string]struct {
		module  module
		version string
		want    string
	}{
		"Kubernetes' binaries know their version, or clients refuse the server": {
			module: moduleKubernetes, version: "v1.36.3",
			want: "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3" +
				" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36",
		},
		"an older Kubernetes knows its own version": {
			module: older("1.35").module, version: "v1.35.4",
			want: "-s -w -X k8s.io/component-base/version.gitVersion=v1.35.4" +
				" -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=35",
		},
		"helm knows its version": {
			module: moduleHelm, version: "v4.3.1", want: "-s -w -X helm.sh/helm/v4/internal/version.version=v4.3.1",
		},
		"so does helm 3": {
			module: moduleHelm3, version: "v3.22.0", want: "-s -w -X helm.sh/helm/v3/internal/version.version=v3.22.0",
		},
		"others need none": {module: moduleKwok, version: "v0.8.0", want: "-s -w"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := linkFlags(test.module, test.version); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestTail(t *testing.T) {
	tests := map[string]struct {
		text string
		want string
	}{
		"a short text is whole":            {text: "a\nb\n", want: "    a\n    b"},
		"of a long text the end is shown":  {text: "a\nb\nc\nd\n", want: "    b\n    c\n    d"},
		"a very long line is cut":          {text: strings.Repeat("x", 500), want: "    " + strings.Repeat("x", 400) + "…"},
		"a text without lines is harmless": {text: "", want: "    "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tail(test.text, 3); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestLivePid(t *testing.T) {
	l := layout{state: t.TempDir()}
	// A process of this cluster has a file of its directory among the arguments; a stranger has not.
	ours := startIdle(t, filepath.Join(l.cluster("dev"), "bin", "x"))
	stranger := startIdle(t, filepath.Join(l.cluster("dev2"), "bin", "x"))
	ended := startIdle(t, filepath.Join(l.cluster("dev"), "bin", "x"))
	if err := ended.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = ended.Wait()

	tests := map[string]struct {
		content string
		want    int
	}{
		"a process of the cluster lives":               {content: strconv.Itoa(ours.Process.Pid), want: ours.Process.Pid},
		"a newline after the pid does not matter":      {content: strconv.Itoa(ours.Process.Pid) + "\n", want: ours.Process.Pid},
		"a stranger with the pid of old is not ours":   {content: strconv.Itoa(stranger.Process.Pid)},
		"a process that ended does not live":           {content: strconv.Itoa(ended.Process.Pid)},
		"a file that is just being written has no pid": {content: ""},
		"minus one, which means everyone, is no pid":   {content: "-1"},
		"the first process of the machine is not ours": {content: "1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			writeFile(t, l.pid("dev", "x"), test.content)
			if got := livePid(l, "dev", "x"); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
			if err := dropStalePids(l, "dev"); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(l.pid("dev", "x")); (err == nil) != (test.want != 0) {
				t.Errorf("after dropping stale pid files: %v", err)
			}
		})
	}
}

// startIdle starts a shell that waits for input that never comes, with one more argument.
func startIdle(t *testing.T, argument string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read line", "sh", argument)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func TestLockLetsOneInAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "x.lock")
	unlock, err := lock(t.Context(), path, "a test has it")
	checkError(t, err, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lock(ctx, path, "a test has it")
	checkError(t, err, "wait: a test has it")
	unlock()
	unlock, err = lock(t.Context(), path, "no one has it")
	checkError(t, err, "")
	unlock()
}
