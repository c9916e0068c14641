package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What runs with rights in other people's clusters links what it needs, and nothing of the plugin's or of a certificate manager's.
func TestTheControllerLinksNothingOfThePlugins(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, "confrev.io/confrev/internal/reconcile") {
		t.Fatalf("the list of %d packages is not that of the controller", len(linked))
	}
	for _, path := range linked {
		for _, unwanted := range []string{
			"ldap", "ntlm", "asn1-ber", "github.com/cert-manager", "k8s.io/kubectl", "k8s.io/cli-runtime", "kustomize", "kyaml",
			"sigs.k8s.io/gateway-api", "confrev.io/confrev/internal/plugin", "confrev.io/confrev/internal/render",
		} {
			if strings.Contains(path, unwanted) {
				t.Errorf("links %s", path)
			}
		}
	}
}
