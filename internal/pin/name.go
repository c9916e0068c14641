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
	// Alphabet is the one of Kubernetes' generated names: no vowels, so no words, and nothing that reads like another
	// character (k8s.io/apimachinery/pkg/util/rand).
	Alphabet = "bcdfghjklmnpqrstvwxz2456789"
)

// Base returns what the names of a source's revisions begin with, before "-" and the characters of the hash: the source's
// name, cut where the whole would be too long.
func Base(source string) string {
	if longest := MaxName - 1 - SuffixLength; len(source) > longest {
		return strings.TrimRight(source[:longest], "-.")
	}
	return source
}

// Names reports whether a name has the form that revisions of a source have. The admission policies say the same in
// CEL, and a test holds the two to the same answers.
func Names(source, name string) bool {
	suffix, ok := strings.CutPrefix(name, Base(source)+"-")
	return ok && len(suffix) == SuffixLength && strings.Trim(suffix, Alphabet) == ""
}

// ofCluster are ConfigMaps that the cluster itself puts into namespaces and renews (rule 10). The admission policies list them too.
var ofCluster = []string{"kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"}

// OfCluster reports whether a source is a ConfigMap that the cluster itself puts into namespaces.
func (s Source) OfCluster() bool { return s.Kind == ConfigMap && slices.Contains(ofCluster, s.Name) }
