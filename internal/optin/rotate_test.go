package optin_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/test/gen"
)

// Policy rotate: what rotates by default, what where it is listed, and that a source's own word wins.
func TestClassify(t *testing.T) {
	owned := func(apiVersion, kind string) metav1.ObjectMeta {
		return metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind}}}
	}
	note := func(pairs ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Annotations: annotated(pairs[0], pairs[1])}
	}
	label := func(key, value string) metav1.ObjectMeta { return metav1.ObjectMeta{Labels: annotated(key, value)} }
	said := func(meta metav1.ObjectMeta, policy string) metav1.ObjectMeta {
		notes := annotated(keys.Policy, policy)
		maps.Copy(notes, meta.Annotations)
		meta.Annotations = notes
		return meta
	}
	tests := map[string]struct {
		source  string // secret/db when it is not given
		meta    metav1.ObjectMeta
		listed  optin.RotatingClass
		want    optin.Class // unless it is listed
		rotates bool        // where it is
	}{
		"a Secret":                             {want: optin.ByType},
		"a ConfigMap":                          {source: "configmap/app", want: optin.Still},
		"rotate":                               {meta: note(keys.Policy, "rotate"), want: optin.Rotated},
		"rotate, a ConfigMap":                  {source: "configmap/app", meta: note(keys.Policy, "rotate"), want: optin.Rotated},
		"a policy that is none":                {meta: note(keys.Policy, "Rotate"), want: optin.Still},
		"cert-manager's":                       {meta: note("cert-manager.io/certificate-name", "web"), want: optin.Rotated},
		"cert-manager's, frozen":               {meta: said(note("cert-manager.io/certificate-name", "web"), "revision"), want: optin.Still},
		"cert-manager's, live":                 {meta: said(note("cert-manager.io/certificate-name", "web"), "live"), want: optin.Still},
		"cert-manager's annotation as a label": {meta: label("cert-manager.io/certificate-name", "web"), want: optin.ByType},
		"a ConfigMap with its annotation":      {source: "configmap/app", meta: note("cert-manager.io/certificate-name", "web"), want: optin.Still},
		"the CSI driver's":                     {meta: label("secrets-store.csi.k8s.io/managed", "true"), want: optin.Rotated},
		"not the CSI driver's":                 {meta: label("secrets-store.csi.k8s.io/managed", "false"), want: optin.ByType},
		"a lease of Vault":                     {meta: owned("secrets.hashicorp.com/v1beta1", "VaultDynamicSecret"), want: optin.Rotated},
		"a certificate of Vault":               {meta: owned("secrets.hashicorp.com/v1", "VaultPKISecret"), want: optin.Rotated},
		"the kind of another group":            {meta: owned("example.com/v1", "VaultPKISecret"), want: optin.ByType},
		"another kind of Vault":                {meta: owned("secrets.hashicorp.com/v1beta1", "VaultStaticSecret"), want: optin.ByType},
		"sealed":                               {meta: owned("bitnami.com/v1alpha1", "SealedSecret"), want: optin.Still},
		"External Secrets'":                    {meta: label("reconcile.external-secrets.io/managed", "true"), listed: optin.RotatesExternalSecrets, want: optin.ByType, rotates: true},
		"Vault's static":                       {meta: label("secrets.hashicorp.com/vso-ownerRefUID", "x"), listed: optin.RotatesVault, want: optin.ByType, rotates: true},
		"reflected":                            {meta: note("reflector.v1.k8s.emberstack.com/reflects", "a/b"), listed: optin.RotatesReflected, want: optin.ByType, rotates: true},
		"reflected, a ConfigMap":               {source: "configmap/app", meta: note("reflector.v1.k8s.emberstack.com/reflects", "a/b"), listed: optin.RotatesReflected, rotates: true},
		"replicated, pulled":                   {meta: note("replicator.v1.mittwald.de/replicate-from", "a/b"), listed: optin.RotatesReflected, want: optin.ByType, rotates: true},
		"replicated, pushed":                   {meta: note("replicator.v1.mittwald.de/replicated-from-version", "7"), listed: optin.RotatesReflected, want: optin.ByType, rotates: true},
		"a bundle":                             {source: "configmap/ca", meta: label("trust.cert-manager.io/bundle", "ca"), listed: optin.RotatesTrustManager, rotates: true},
		"a bundle, listed as something else":   {source: "configmap/ca", meta: label("trust.cert-manager.io/bundle", "ca"), listed: optin.RotatesVault},
		"External Secrets' ConfigMap":          {source: "configmap/app", meta: label("reconcile.external-secrets.io/managed", "true"), listed: optin.RotatesExternalSecrets},
		"External Secrets', listed and frozen": {meta: said(label("reconcile.external-secrets.io/managed", "true"), "revision"), listed: optin.RotatesExternalSecrets},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			source := gen.Source("secret/db")
			if test.source != "" {
				source = gen.Source(test.source)
			}
			if got := (optin.Rotating{}).Classify(source, &test.meta); got != test.want {
				t.Errorf("not listed: %v, want %v", got, test.want)
			}
			if test.listed == "" {
				every := optin.Rotating{optin.RotatesExternalSecrets, optin.RotatesVault, optin.RotatesReflected, optin.RotatesTrustManager}
				if got := every.Classify(source, &test.meta); got != test.want {
					t.Errorf("without a mark of any class, with all of them listed: %v, want %v", got, test.want)
				}
				return
			}
			if got := (optin.Rotating{test.listed}).Classify(source, &test.meta); (got == optin.Rotated) != test.rotates {
				t.Errorf("listed: %v", got)
			}
		})
	}
	if !optin.RotatesByType(corev1.SecretTypeTLS) || optin.RotatesByType(corev1.SecretTypeOpaque) || optin.RotatesByType("") {
		t.Error("only TLS Secrets rotate by their type")
	}
	if classes, err := optin.ParseRotating([]string{"vault", "reflected"}); err != nil || len(classes) != 2 {
		t.Errorf("%v, %v", classes, err)
	}
	if _, err := optin.ParseRotating([]string{"vault", "etcd"}); err == nil {
		t.Error("took a class that is none")
	}
}

func TestReadRotateBy(t *testing.T) {
	for text, test := range map[string]struct {
		restarts bool
		problems int
	}{"rollout": {}, "restart-at": {restarts: true}, "restartAt": {problems: 1}, "": {problems: 1}} {
		config := optin.Read(optin.Metadata{Annotations: annotated(keys.RotateBy, text)}, optin.Defaults{})
		if config.RestartAt != test.restarts || len(config.Problems) != test.problems {
			t.Errorf("%q: %v, %v", text, config.RestartAt, config.Problems)
		}
	}
}
