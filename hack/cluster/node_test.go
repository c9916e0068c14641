package main

import (
	"regexp"
	"strings"
	"testing"
)

func TestKubeletSettings(t *testing.T) {
	got, err := kubeletSettings{Port: 1111, Cgroup: "/confrev-dev"}.yaml()
	checkError(t, err, "")
	for _, want := range []string{"\nport: 1111\n", "\ncgroupRoot: /confrev-dev\n", " /run/confrev/node/kubelet.crt\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

func TestSettingsAreFilledIn(t *testing.T) {
	left := regexp.MustCompile(`{{[a-z]+}}`)
	for name, settings := range map[string]string{"containerd.toml": fill(containerdSettings), "stages.yaml": stages} {
		if found := left.FindString(settings); found != "" {
			t.Errorf("%s still has %s", name, found)
		}
	}
	if !strings.Contains(stages, `.metadata.annotations["`+project.pins+`"]`) {
		t.Error("the stages do not read the annotation of pins")
	}
}
