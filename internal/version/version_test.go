package version

import "testing"

func TestOldKubernetesIsRefused(t *testing.T) {
	for server, supported := range map[string]bool{
		"v1.29.14": false, "v1.29.99-eks-1234567": false, "v1.30.0": true, "v1.30.0-alpha.1": true, "v1.32.4+k3s1": true, "v1.36.3": true,
		"v2.0.0": true, "unknown": false, "": false,
	} {
		if err := Supports(server); (err == nil) != supported {
			t.Errorf("%s: %v", server, err)
		}
	}
}
