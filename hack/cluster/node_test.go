package main

import (
	"regexp"
	"strings"
	"testing"

	"confrev.io/confrev/hack/cluster/network"
)

func TestKubeletSettings(t *testing.T) {
	got := nodeSettings{Network: network.Nth(0), KubeletPort: 1111}.kubelet("dev")
	for _, want := range []string{
		"\naddress: 198.18.2.2\n", "\nport: 1111\n", "\ncgroupRoot: /confrev-dev\n", " /run/confrev/node/kubelet.crt\n",
		"\nclusterDNS: [198.18.0.10]\n",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

func TestSettingsAreFilledIn(t *testing.T) {
	left := regexp.MustCompile(`{{[a-z]+}}`)
	settings, err := cluster{name: "dev"}.nodeFiles(nodeSettings{Network: network.Nth(0)})
	checkError(t, err, "")
	settings["stages.yaml"] = []byte(stages)
	for name, settings := range settings {
		if found := left.Find(settings); found != nil {
			t.Errorf("%s still has %s", name, found)
		}
	}
	if !strings.Contains(stages, `.metadata.annotations["`+project.pins+`"]`) {
		t.Error("the stages do not read the annotation of pins")
	}
}
