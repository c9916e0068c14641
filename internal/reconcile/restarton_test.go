package reconcile

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/rollout"
)

func TestOptionsListResources(t *testing.T) {
	for text, valid := range map[string]bool{
		"persistentvolumeclaims": true, "certificates.cert-manager.io": true, "secrets.example.com": true,
		"secrets": false, "configmaps": false, "*": false, "*.example.com": false, "pods/log": false, "": false,
	} {
		err := Options{Options: rollout.Options{RestartOn: []schema.GroupResource{schema.ParseGroupResource(text)}}}.validateRestartOn()
		if (err == nil) != valid {
			t.Errorf("--restart-on=%s: %v", text, err)
		}
	}
}
