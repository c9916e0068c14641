package main

import (
	"strings"
	"testing"
)

func TestKubeletSettings(t *testing.T) {
	got, err := kubeletSettings{Port: 1111, HealthPort: 2222, Cgroup: "/confrev-dev"}.yaml()
	checkError(t, err, "")
	for _, want := range []string{"\nport: 1111\n", "\nhealthzPort: 2222\n", "\ncgroupRoot: /confrev-dev\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}
