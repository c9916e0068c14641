package main

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestShellQuotesOnlyWhatNeedsIt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		words []string
		want  string
	}{
		"plain words stay":            {[]string{"get", "cm", "-l", "confrev.io/source=web"}, "get cm -l confrev.io/source=web"},
		"what a shell expands":        {[]string{"a[*]", "$b"}, `'a[*]' '$b'`},
		"an apostrophe":               {[]string{"it's"}, `'it'\''s'`},
		"an empty word":               {[]string{""}, `''`},
		"a backslash of a JSONPath":   {[]string{`a\.b`}, `'a\.b'`},
		"a comma, an equals, a colon": {[]string{"a=b:c,d"}, "a=b:c,d"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := shell(tt.words...); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestReadsNamesEachConfigMapOnce(t *testing.T) {
	t.Parallel()
	volume := func(name string) corev1.Volume {
		source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
		return corev1.Volume{VolumeSource: corev1.VolumeSource{ConfigMap: source}}
	}
	env := func(name string) corev1.Container {
		source := &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
		return corev1.Container{EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: source}}}
	}
	tests := map[string]struct {
		pod  corev1.PodSpec
		want string
	}{
		"a pod without ConfigMaps": {corev1.PodSpec{Volumes: []corev1.Volume{{}}, Containers: []corev1.Container{{}}}, "nothing"},
		"all places agree":         {corev1.PodSpec{Volumes: []corev1.Volume{volume("a")}, Containers: []corev1.Container{env("a")}}, "a"},
		"one place was forgotten":  {corev1.PodSpec{Volumes: []corev1.Volume{volume("b")}, Containers: []corev1.Container{env("a")}}, "a and b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := reads(tt.pod); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// A pid file may name a stranger after a reboot, and the demo ends what it names.
func TestLivePidIsOnlyTheDemosOwnConfrev(t *testing.T) {
	t.Parallel()
	p := place{name: "x", dir: t.TempDir()}
	tests := map[string]struct {
		args []string
		mine bool
	}{
		"a stranger":                 {[]string{"stranger"}, false},
		"the confrev of another one": {[]string{"--kubeconfig", place{dir: "/other"}.confrevKubeconfig(), "x"}, false},
		"its own confrev":            {[]string{"--kubeconfig", p.confrevKubeconfig(), "x"}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			// `read` is of the shell itself, and waits for its standard input to end.
			cmd := exec.Command("sh", append([]string{"-c", "read line", "sh"}, tt.args...)...)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := cmd.Process.Pid
			if err := os.WriteFile(p.pid(), []byte(strconv.Itoa(pid)), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := p.livePid() == pid; got != tt.mine {
				t.Errorf("taken for its own: %v, want %v", got, tt.mine)
			}
			if err := stdin.Close(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // `read` fails at the end of its input
			if p.livePid() != 0 {
				t.Error("a process that ended lives")
			}
		})
	}
}
