package pin

import (
	"slices"
	"strings"
)

const (
	// MaxName is the length of the longest name of a ConfigMap or Secret.
	MaxName = 253
	// SuffixLength is the number of characters of a hash at the end of a revision's name: about 47 bits.
	SuffixLength = 10
	// Alphabet has the characters of Kubernetes' generated names (k8s.io/apimachinery/pkg/util/rand). It has no vowels, so that names
	// spell no words, and no characters that look alike.
	Alphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// Base returns the beginning of the names of a source's revisions, before "-" and the characters of the hash: the source's name,
// shortened if a revision's name would be longer than MaxName.
func Base(source string) string {
	if longest := MaxName - 1 - SuffixLength; len(source) > longest {
		return strings.TrimRight(source[:longest], "-.")
	}
	return source
}

// Names reports whether name has the form of a name of the source's revisions. The admission policies check the same in CEL, and a
// test compares the two.
func Names(source, name string) bool {
	suffix, ok := strings.CutPrefix(name, Base(source)+"-")
	return ok && len(suffix) == SuffixLength && strings.Trim(suffix, Alphabet) == ""
}

// ofCluster are ConfigMaps that the cluster itself writes to namespaces and renews (rule 10). The admission policies list them
// too.
var ofCluster = []string{"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"}

// OfCluster reports whether a source is a ConfigMap that the cluster itself writes to namespaces.
func (s Source) OfCluster() bool { return s.Kind == ConfigMap && slices.Contains(ofCluster, s.Name) }
