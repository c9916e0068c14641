package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
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

func TestOptions(t *testing.T) {
	good := Options{
		Options: rollout.Options{Settle: time.Second, Namespace: "confrev"}, Grace: time.Minute, RevisionsPerHour: 1, RolloutsPerHour: 1, Workers: 1,
	}
	tests := map[string]struct {
		change func(*Options)
		want   string // part of the problem; "" for none
	}{
		"good ones":               {func(*Options) {}, ""},
		"no settling":             {func(o *Options) { o.Settle = 0 }, ""},
		"a negative settle time":  {func(o *Options) { o.Settle = -1 }, "--settle"},
		"a grace time too short":  {func(o *Options) { o.Grace = leastGrace - 1 }, "--grace"},
		"the least grace time":    {func(o *Options) { o.Grace = leastGrace }, ""},
		"no workers":              {func(o *Options) { o.Workers = 0 }, "--workers"},
		"no revisions at all":     {func(o *Options) { o.RevisionsPerHour = 0 }, "--revisions-per-hour"},
		"no rollouts at all":      {func(o *Options) { o.RolloutsPerHour = 0 }, "--rollouts-per-hour"},
		"a leader, and no place":  {func(o *Options) { o.LeaderElect, o.Namespace = true, "" }, "--namespace"},
		"no namespace of its own": {func(o *Options) { o.Namespace = "" }, ""},
		"single namespaces":       {namespaced(func(*Options) {}), ""},
		"not even a name":         {namespaced(func(o *Options) { o.WatchNamespaces = []string{"a", ""} }), "--watch-namespaces=a,"},
		"the system's namespace":  {namespaced(func(o *Options) { o.WatchNamespaces = []string{"kube-system"} }), "--watch-namespaces=kube-system"},
		"pins without a resolver": {namespaced(func(o *Options) { o.Injection = optin.Admission }), "--injection=template"},
		"a webhook without calls": {namespaced(func(o *Options) { o.Webhook.Address = ":9443" }), "--webhook-bind-address=0"},
		"reviews without rights":  {namespaced(func(o *Options) { o.MetricsSecure = true }), "--metrics-secure"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := good
			test.change(&options)
			err := options.Validate()
			if (err != nil) != (test.want != "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("Validate: %v, want %q", err, test.want)
			}
		})
	}
	// Rule 23.
	limited := good
	namespaced(func(*Options) {})(&limited)
	for namespace, want := range map[string]bool{"kube-system": true, "confrev": false, "a": false, "default": true} {
		if got := limited.Excluded(namespace); got != want {
			t.Errorf("limited to %q, excluded(%s) = %v", limited.WatchNamespaces, namespace, got)
		}
	}
	if whole, single := good.Lease(), limited.Lease(); whole != "confrev" || single != "release-namespaced" {
		t.Errorf("leases %q and %q", whole, single)
	}
	// Rule 18.
	for namespace, want := range map[string]bool{"kube-system": true, "confrev": true, "default": false, "kube-public": false} {
		if got := good.Excluded(namespace); got != want {
			t.Errorf("excluded(%s) = %v", namespace, got)
		}
	}
}

// namespaced returns a change to options that limits them to namespaces.
func namespaced(change func(*Options)) func(*Options) {
	return func(o *Options) {
		o.WatchNamespaces, o.Injection, o.PolicyPrefix = []string{"a", "confrev"}, optin.Template, "release"
		change(o)
	}
}

func TestSourceKindsAreThoseThatAreEnabled(t *testing.T) {
	for secrets, want := range map[bool][]pin.Kind{false: {pin.ConfigMap}, true: {pin.ConfigMap, pin.Secret}} {
		o := rollout.Options{Secrets: secrets}
		if diff := cmp.Diff(want, o.SourceKinds()); diff != "" {
			t.Errorf("secrets %v (-want +got):\n%s", secrets, diff)
		}
		if !o.Enabled(pin.ConfigMap) || o.Enabled(pin.Secret) != secrets || o.Enabled("persistentvolumeclaims.v1") {
			t.Errorf("secrets %v: the wrong kinds are enabled", secrets)
		}
	}
}
