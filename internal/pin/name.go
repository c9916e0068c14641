package pin

import (
	"slices"
	"strings"
)

const (
	// MaxName is the longest name of a ConfigMap or Secret.
	MaxName = 253
	// SuffixLength is how many characters of a hash a revision's name ends with: about 47 bits.
	SuffixLength = 10
	// Alphabet is that of Kubernetes' generated names. It has no vowels, so it spells no words, and no characters that look alike
	// (k8s.io/apimachinery/pkg/util/rand).
	Alphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// Base returns what the names of a source's revisions begin with, before "-" and the characters of the hash: the source's name,
// shortened if the whole would be too long.
func Base(source string) string {
	if longest := MaxName - 1 - SuffixLength; len(source) > longest {
		return strings.TrimRight(source[:longest], "-.")
	}
	return source
}

// Names reports whether a name has the form of the names of a source's revisions. The admission policies check the same in CEL,
// and a test compares the two.
func Names(source, name string) bool {
	suffix, ok := strings.CutPrefix(name, Base(source)+"-")
	return ok && len(suffix) == SuffixLength && strings.Trim(suffix, Alphabet) == ""
}

// ofCluster are ConfigMaps that the cluster itself writes to namespaces and renews (rule 10). The admission policies list them
// too.
var ofCluster = []string{"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"}

// OfCluster reports whether a source is a ConfigMap that the cluster itself writes to namespaces.
func (s Source) OfCluster() bool { return s.Kind == ConfigMap && slices.Contains(ofCluster, s.Name) }
