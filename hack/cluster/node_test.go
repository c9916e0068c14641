package main

import (
	"strings"
	"testing"
)

func TestKubeletSettings(t *testing.T) {
	got, err := kubeletSettings{Port: 1111, Cgroup: "/confrev-dev"}.yaml()
	checkError(t, err, "")
	for _, want := range []string{"\nport: 1111\n", "\ncgroupRoot: /confrev-dev\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
