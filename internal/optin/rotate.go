package optin

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
)

// Rotating is the list of classes whose sources rotate by default, in addition to those that always do.
type Rotating []RotatingClass

// RotatingClass is such a class of sources, named after the tool that creates them.
type RotatingClass string

// The classes that a flag enables. Only users know whether these objects hold credentials or configuration.
const (
	RotatesExternalSecrets RotatingClass = "external-secrets"
	RotatesVault           RotatingClass = "vault"
	RotatesReflected       RotatingClass = "reflected"
	RotatesTrustManager    RotatingClass = "trust-manager"
)

// RotatingClasses lists all classes.
var RotatingClasses = []RotatingClass{RotatesExternalSecrets, RotatesVault, RotatesReflected, RotatesTrustManager}

// ParseRotating reads the names of classes. It returns an error if a name is unknown.
func ParseRotating(texts []string) (Rotating, error) {
	var classes Rotating
	for _, text := range texts {
		class := RotatingClass(text)
		if !slices.Contains(RotatingClasses, class) {
			return nil, fmt.Errorf("%s is not a class of sources that rotate: want some of %v", quote.Text(text), RotatingClasses)
		}
		classes = append(classes, class)
	}
	return classes, nil
}

// The annotations, labels and owners of objects that rotate.
const (
	certificateName  = "cert-manager.io/certificate-name"
	externalSecrets  = "reconcile.external-secrets.io/managed"
	vaultOwner       = "secrets.hashicorp.com/vso-ownerRefUID"
	reflects         = "reflector.v1.k8s.emberstack.com/reflects"
	replicateFrom    = "replicator.v1.mittwald.de/replicate-from"
	replicatedFrom   = "replicator.v1.mittwald.de/replicated-from-version"
	bundle           = "trust.cert-manager.io/bundle"
	vaultGroup       = "secrets.hashicorp.com"
	sealedGroup      = "bitnami.com"
	sealedSecret     = "SealedSecret"
	vaultDynamic     = "VaultDynamicSecret"
	vaultCertificate = "VaultPKISecret"
)

// rotatingKeys are the labels and annotations among them.
var rotatingKeys = []string{certificateName, externalSecrets, vaultOwner, reflects, replicateFrom, replicatedFrom, bundle}

// Class is what a source's metadata shows about whether the source rotates.
type Class int

// The classes.
const (
	// Still means that it does not rotate, or that its own annotation sets another policy.
	Still Class = iota
	// Rotated means that its policy is rotate.
	Rotated
	// ByType means that it depends on the type of the Secret.
	ByType
)

// Classify returns what a source's metadata shows about whether the source rotates. Its policy annotation always takes precedence.
func (r Rotating) Classify(source pin.Source, meta metav1.Object) Class {
	annotations, labels := meta.GetAnnotations(), meta.GetLabels()
	if name := annotations[keys.Policy]; name != "" {
		if policy, _ := policyNamed(name); policy.Rotates {
			return Rotated
		}
		return Still
	}
	has := func(class RotatingClass, marks ...string) bool {
		return slices.Contains(r, class) && slices.ContainsFunc(marks, func(key string) bool { return annotations[key] != "" || labels[key] != "" })
	}
	secret := source.Kind == pin.Secret
	switch {
	case secret && ownedBy(meta, sealedGroup, sealedSecret):
		// A SealedSecret is in Git, encrypted, so it is rolled back like any other configuration.
		return Still
	case secret && (annotations[certificateName] != "" || labels[csiManaged] == "true"),
		secret && ownedBy(meta, vaultGroup, vaultDynamic, vaultCertificate),
		secret && has(RotatesExternalSecrets, externalSecrets), secret && has(RotatesVault, vaultOwner),
		has(RotatesReflected, reflects, replicateFrom, replicatedFrom), has(RotatesTrustManager, bundle):
		return Rotated
	case secret:
		return ByType
	}
	return Still
}

func ownedBy(meta metav1.Object, group string, kinds ...string) bool {
	return slices.ContainsFunc(meta.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
		found, _, _ := strings.Cut(o.APIVersion, "/")
		return found == group && slices.Contains(kinds, o.Kind)
	})
}

// RotatesByType reports whether Secrets of a type rotate by default.
func RotatesByType(secretType corev1.SecretType) bool { return secretType == corev1.SecretTypeTLS }
