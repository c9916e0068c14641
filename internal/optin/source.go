package optin

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
)

// neverCopiedTypes are the types of Secrets that other components create and renew, with the reason for not copying them (rule
// 10).
var neverCopiedTypes = map[corev1.SecretType]string{
	corev1.SecretTypeServiceAccountToken: "it is the token of a service account",
	corev1.SecretTypeBootstrapToken:      "it is a bootstrap token",
	"helm.sh/release.v1":                 "it is Helm's record of a release",
	KeyType:                              "it is the key of confrev's hashes",
}

// KeyType is the type of the Secret that holds the key of a namespace's hashes (rule 22).
const KeyType corev1.SecretType = "confrev.io/key"

// NeverCopiedType returns the reason why Secrets of a type are never copied (rule 10). It is empty if they may be copied.
func NeverCopiedType(secretType corev1.SecretType) string { return neverCopiedTypes[secretType] }

// The annotations and labels of objects that other components keep writing (rule 10).
const (
	leaderAnnotation         = "control-plane.alpha.kubernetes.io/leader"
	serviceAccountAnnotation = "kubernetes.io/service-account.name"
	injectCABundle           = "service.beta.openshift.io/inject-cabundle"
	injectTrustedCABundle    = "config.openshift.io/inject-trusted-cabundle"
)

// csiManaged labels Secrets that the Secrets Store CSI driver creates. It makes the owners of each pod that mounts them
// their owners, without controller: true, so those references say nothing about what a user wants.
const csiManaged = "secrets-store.csi.k8s.io/managed"

// SourceKeys are the labels and annotations of sources that this package reads, so a cache must keep them.
var SourceKeys = slices.Concat([]string{
	keys.Policy, keys.Attach, keys.Attached, keys.Protect, revisionManaged, reloaderMatch, reloaderIgnore,
	leaderAnnotation, serviceAccountAnnotation, injectCABundle, injectTrustedCABundle, csiManaged, keys.Stop, keys.Passed, keys.Resume, keys.After, keys.Version,
}, GateKeys, spreadKeys, rotatingKeys)

// revisionManaged is the annotation by which Pulumi's recipe marks ConfigMaps that should be attached.
const revisionManaged = "configmap.kubernetes.io/revision-managed"

// Describe returns the traits of a source for a workload, and what is wrong with the source's annotations. workloads are the UIDs
// of the workload and of the objects that refer to it (workload.Kind.Refers).
//
// An ownerReference counts only if a user may have written it (Owners). That excludes references from objects that a controller
// manages, those that confrev adds in mode attach, and those that the Secrets Store CSI driver adds. Whether a reference opts the source in
// depends on the workload (Track).
func (c Compat) Describe(source pin.Source, meta metav1.Object, workloads ...types.UID) (Traits, []notice.Notice) {
	traits := Traits{Policy: PolicyRevision, Never: WhyNeverCopied(source, meta)}
	annotations := meta.GetAnnotations()
	var problems []notice.Notice
	traits.Gates, problems = Gates(annotations, meta.GetLabels(), " of "+source.String())
	settings, invalid, wrong := Spreading(annotations, " of "+source.String())
	traits.Spreading, traits.Gates, problems = settings, append(traits.Gates, invalid...), append(problems, wrong...)
	problems = append(problems, unknown(onSource, " of "+source.String(), annotations, meta.GetLabels())...)
	if name := annotations[keys.Policy]; name != "" {
		policy, known := policyNamed(name)
		if traits.Policy = policy; !known {
			problems = append(problems, notice.Warning(InvalidMode, pin.Source{},
				"annotation %s of %s: %s is not a policy: want revision, rotate, live or ignore; using revision", keys.Policy, source, quote.Text(name)))
		}
	}
	if c.Reloader {
		traits.Marked = annotations[reloaderMatch] == "true"
		if annotations[reloaderIgnore] == "true" {
			traits.Policy = PolicyIgnore
		}
	}
	traits.Owned = slices.ContainsFunc(Owners(meta), func(owner types.UID) bool { return slices.Contains(workloads, owner) })
	return traits, problems
}

// Owners returns the UIDs of those owners of a source whose ownerReference a user may have written.
func Owners(meta metav1.Object) []types.UID {
	if Attachable(meta) || meta.GetAnnotations()[keys.Attached] != "" || meta.GetLabels()[csiManaged] != "" {
		return nil
	}
	var owners []types.UID
	for _, o := range meta.GetOwnerReferences() {
		if o.Controller == nil || !*o.Controller {
			owners = append(owners, o.UID)
		}
	}
	return owners
}

// WhyNeverCopied returns the reason why a source is never copied, as far as its metadata shows (rule 10). Reading a Secret may show
// another reason: its type.
func WhyNeverCopied(source pin.Source, meta metav1.Object) string {
	annotations, labels := meta.GetAnnotations(), meta.GetLabels()
	switch {
	case source.OfCluster():
		return "the cluster itself keeps writing it"
	case source == pin.Source{Kind: pin.Secret, Name: keys.KeySecret}:
		return neverCopiedTypes[KeyType]
	case annotations[leaderAnnotation] != "":
		return "it is the lock of a leader election"
	case source.Kind == pin.Secret && annotations[serviceAccountAnnotation] != "":
		return "it is the token of a service account"
	case annotations[injectCABundle] != "" || labels[injectCABundle] != "" || labels[injectTrustedCABundle] != "":
		return "a CA bundle is injected into it"
	}
	return ""
}

// Attachable reports whether a source's annotations say that it may be attached, which means that it is deleted with its last
// holder.
func Attachable(meta metav1.Object) bool {
	annotations := meta.GetAnnotations()
	return annotations[keys.Attach] == "true" || annotations[revisionManaged] == "true"
}

// Protected reports whether an attachable source should outlive its deletion while a holder uses it.
func Protected(meta metav1.Object) bool {
	return Attachable(meta) && meta.GetAnnotations()[keys.Protect] == "true"
}

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
