// Package pin reads and writes pins: "this source resolves to that revision", kept on a workload's pod template. It must not
// import a client, a clock or a context.
//
// The text form is a sorted list of source=revision@number:
//
//	configmap/app=app-5f7d8c9b2k@3,configmap/web=web-9xk2l5c7dz@1
//
// The admission policies of charts/confrev parse the same form in CEL, and a test compares the two.
package pin

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"confrev.io/confrev/internal/quote"
)

// Kind is the kind of a source, in the form that kubectl accepts: lower case and singular.
type Kind string

// The kinds of sources.
const (
	ConfigMap Kind = "configmap"
	Secret    Kind = "secret"
)

// Kinds lists the kinds of sources.
var Kinds = []Kind{ConfigMap, Secret}

// Source names a ConfigMap or Secret in a namespace that the context determines.
type Source struct {
	Kind Kind
	Name string
}

// String returns the form that kubectl accepts: "configmap/app".
func (s Source) String() string { return string(s.Kind) + "/" + s.Name }

// Compare orders sources by kind, then by name. It returns a negative number, 0 or a positive number, as cmp.Compare does.
func (s Source) Compare(other Source) int {
	return cmp.Or(cmp.Compare(s.Kind, other.Kind), cmp.Compare(s.Name, other.Name))
}

var sourceForm = regexp.MustCompile(`^(configmap|secret)/[a-z0-9][a-z0-9.-]*$`)

// ParseSource reads "configmap/app" or "secret/db".
func ParseSource(text string) (Source, error) {
	kind, name, _ := strings.Cut(text, "/")
	source := Source{Kind: Kind(kind), Name: name}
	if !source.IsValid() {
		return Source{}, fmt.Errorf("%s is not a source: write configmap/NAME or secret/NAME", quote.Text(text))
	}
	return source, nil
}

// IsValid reports whether a source has the form of one. References in pod specs may have any text for a name. A valid one has nothing that
// a path or a shell interprets.
func (s Source) IsValid() bool { return sourceForm.MatchString(s.String()) && len(s.Name) <= MaxName }

// Pin is the revision that a source resolves to, and the number that the revision had when it was pinned.
type Pin struct {
	Revision string
	Number   int64
}

// String returns "revision@number".
func (p Pin) String() string { return p.Revision + "@" + strconv.FormatInt(p.Number, 10) }

// Set holds the pins of one pod template. A nil Set reads as empty.
type Set map[Source]Pin

// MaxNumber is the highest number that a pin can hold: 15 digits, so that raising it never overflows.
const MaxNumber = 999_999_999_999_999

// form is one pin. The admission policies contain the same expression.
var form = regexp.MustCompile(`^((?:configmap|secret)/[a-z0-9][a-z0-9.-]*)=([a-z0-9][a-z0-9.-]*)@([1-9][0-9]{0,14})$`)

// MaxPins is the number of pins that a template may have. The admission policies check each pin against all others, and the API
// server limits the cost of their CEL. It would allow more than twice as many, with names of any length (Kubernetes 1.36).
const MaxPins = 200

// Parse reads the text form. The empty text is the empty set. Parse returns an error, which quotes the faulty pin, if a pin is
// malformed, if there are more than MaxPins, if a source has two pins, if a name is not that of a revision of the source, or if a revision is itself a pinned
// source. No part of such a text is trusted.
func Parse(text string) (Set, error) {
	// Anyone who writes an annotation must not be able to make confrev look for thousands of revisions.
	if n := strings.Count(text, ",") + 1; n > MaxPins {
		return nil, fmt.Errorf("there are %d pins, and a template has at most %d", n, MaxPins)
	}
	set, err := parse(text, form, "pin", "SOURCE=REVISION@NUMBER, such as configmap/app=app-5f7d8c9b2k@3")
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(set.checkNames(), set.checkNoChains()); err != nil {
		return nil, err
	}
	return set, nil
}

// hashForm is one hash. Unlike a pin, it may be of an object of any kind that confrev.io/restart-on may name: "persistentvolumeclaims.v1/data".
var hashForm = regexp.MustCompile(`^([a-z][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._:-]*)=([a-z0-9][a-z0-9.-]*)@([1-9][0-9]{0,14})$`)

// ParseHashes reads the text form of hashes. It is like that of pins, but has a hash of the object's content instead of a
// revision's name, and objects of any kind. Every text of pins is also a text of hashes.
func ParseHashes(text string) (Set, error) {
	return parse(text, hashForm, "hash", "OBJECT=HASH@NUMBER, such as configmap/app=5f7d8c9b2k@3")
}

func parse(text string, form *regexp.Regexp, what, want string) (Set, error) {
	set := Set{}
	if text == "" {
		return set, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		match := form.FindStringSubmatch(item)
		if match == nil {
			return nil, fmt.Errorf("%s is not a %s: want %s", quote.Text(item), what, want)
		}
		kind, name, _ := strings.Cut(match[1], "/")
		source := Source{Kind: Kind(kind), Name: name}
		if _, twice := set[source]; twice {
			return nil, fmt.Errorf("%s has more than one %s", quote.Text(source.String()), what)
		}
		number, err := strconv.ParseInt(match[3], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s has an invalid number", quote.Text(item))
		}
		set[source] = Pin{Revision: match[2], Number: number}
	}
	return set, nil
}

// checkNames refuses pins that confrev never writes. A user may be allowed to write an annotation but not a reference, and if a
// pin could name any object, that user could mount any object.
func (s Set) checkNames() error {
	for _, source := range s.Sources() {
		if source.OfCluster() {
			return fmt.Errorf("%s is pinned, but the cluster itself keeps writing it", quote.Text(source.String()))
		}
		if revision := s[source].Revision; !Names(source.Name, revision) {
			return fmt.Errorf("%s is pinned to %s, which cannot be the name of one of its revisions", quote.Text(source.String()), quote.Text(revision))
		}
	}
	return nil
}

// checkNoChains refuses pins that lead to pins: what they resolve to would depend on how often they are resolved.
func (s Set) checkNoChains() error {
	for source, p := range s {
		if next := (Source{Kind: source.Kind, Name: p.Revision}); s[next] != (Pin{}) {
			return fmt.Errorf("%s is pinned to %s, which is itself pinned", quote.Text(source.String()), quote.Text(p.Revision))
		}
	}
	return nil
}

// Sources returns the pinned sources, sorted.
func (s Set) Sources() []Source {
	sources := make([]Source, 0, len(s))
	for source := range s {
		sources = append(sources, source)
	}
	slices.SortFunc(sources, Source.Compare)
	return sources
}

// String returns the text form, sorted, so that equal sets have equal texts.
func (s Set) String() string {
	items := make([]string, 0, len(s))
	for _, source := range s.Sources() {
		items = append(items, source.String()+"="+s[source].String())
	}
	return strings.Join(items, ",")
}

// Resolve returns the name of the revision that a source is pinned to, and whether it is pinned.
func (s Set) Resolve(source Source) (revision string, pinned bool) {
	p, ok := s[source]
	return p.Revision, ok
}

// MayDerive reports whether a name has the form of a revision of a source that is pinned.
func (s Set) MayDerive(named Source) bool {
	for source := range s {
		if source.Kind == named.Kind && Names(source.Name, named.Name) {
			return true
		}
	}
	return false
}

// Inverse returns the source of each revision that is pinned in any of the sets. If several sources are pinned to one revision,
// which confrev never does, it returns the first.
func Inverse(sets ...Set) map[Source]Source {
	sources := map[Source]Source{}
	for _, set := range sets {
		for _, source := range set.Sources() {
			revision := Source{Kind: source.Kind, Name: set[source].Revision}
			if _, known := sources[revision]; !known {
				sources[revision] = source
			}
		}
	}
	return sources
}

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
