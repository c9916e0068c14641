// Package content hashes, names and compares the content of sources (rule 8). It has no client and no clock.
package content

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
)

// hashVersion names the encoding and the hash. A new version must still recognize revisions of the old ones by their content, so
// that it never causes a rollout (rule 8).
const hashVersion = "v1"

// Content is what a revision freezes of its source: everything that a pod can read of it.
type Content struct {
	Kind pin.Kind
	// Type is a Secret's type; empty for a ConfigMap.
	Type string
	// Data holds a ConfigMap's data, or a Secret's.
	Data map[string][]byte
	// BinaryData holds a ConfigMap's binaryData; empty for a Secret.
	BinaryData map[string][]byte
}

// FromConfigMap returns the content of a ConfigMap. It shares binaryData with the ConfigMap.
func FromConfigMap(cm *corev1.ConfigMap) Content {
	data := make(map[string][]byte, len(cm.Data))
	for key, value := range cm.Data {
		data[key] = []byte(value)
	}
	return Content{Kind: pin.ConfigMap, Data: data, BinaryData: cm.BinaryData}
}

// FromSecret returns the content of a Secret. It shares data with the Secret. The API server has already moved stringData to data
// when it returns a Secret.
func FromSecret(secret *corev1.Secret) Content {
	return Content{Kind: pin.Secret, Type: string(secret.Type), Data: secret.Data}
}

// Hash is the version of the hash followed by the hash of a content, in the form of a label value.
type Hash string

// encoding uses only characters that a label may contain.
var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Hash returns the content's hash. Nil and empty maps are alike, and the order of keys does not matter.
func (c Content) Hash() Hash {
	sum := sha256.New()
	c.encode(sum)
	return Hash(hashVersion + "-" + encoding.EncodeToString(sum.Sum(nil)))
}

// encode writes a form that no two different contents share: every string follows its length, and every section follows its
// count, so no key or value can be mistaken for the end of another.
func (c Content) encode(w io.Writer) {
	writeString(w, hashVersion)
	writeString(w, string(c.Kind))
	writeString(w, c.Type)
	for _, section := range []map[string][]byte{c.Data, c.BinaryData} {
		writeLength(w, len(section))
		for _, key := range slices.Sorted(maps.Keys(section)) {
			writeString(w, key)
			writeBytes(w, section[key])
		}
	}
}

func writeString(w io.Writer, text string) { writeBytes(w, []byte(text)) }

func writeBytes(w io.Writer, value []byte) {
	writeLength(w, len(value))
	mustWrite(w, value)
}

func writeLength(w io.Writer, length int) {
	mustWrite(w, binary.AppendUvarint(nil, uint64(length)))
}

// mustWrite writes to a hash or a buffer, neither of which returns errors.
func mustWrite(w io.Writer, value []byte) {
	if _, err := w.Write(value); err != nil {
		panic("content: a hash refused a write: " + err.Error())
	}
}

// RevisionName returns the name of a source's revision with the given hash. salt is 0, unless another object has that name; then
// 1, 2, … produce other names.
func RevisionName(source string, hash Hash, salt int) string {
	sum := sha256.New()
	writeString(sum, string(hash))
	base := pin.Base(source)
	if base != source {
		// Two long names may differ only beyond the cut.
		writeString(sum, source)
	}
	if salt > 0 {
		writeLength(sum, salt)
	}
	return base + "-" + suffix(sum)
}

// MaxSalts is the number of names that a revision may have. The first is used unless another object has it, either because of a
// collision of hashes or because a user created it.
const MaxSalts = 16

// RevisionNames returns the names that a source's revision with the given hash may have, in the order in which they are tried.
func RevisionNames(source string, hash Hash) iter.Seq[string] {
	return func(yield func(string) bool) {
		for salt := range MaxSalts {
			if !yield(RevisionName(source, hash, salt)) {
				return
			}
		}
	}
}

// Names reports whether name is among the RevisionNames of a source and a hash.
func Names(source string, hash Hash, name string) bool {
	for possible := range RevisionNames(source, hash) {
		if possible == name {
			return true
		}
	}
	return false
}

func suffix(sum hash.Hash) string {
	out := sum.Sum(nil)[:pin.SuffixLength]
	for i, b := range out {
		out[i] = pin.Alphabet[int(b)%len(pin.Alphabet)]
	}
	return string(out)
}

// maxLabel is the longest value of a label.
const maxLabel = 63

// SourceLabel returns the value of the label that groups a source with its revisions: the source's name or, if that is too long
// for a label, its beginning and a hash of it.
func SourceLabel(source string) string {
	if len(source) <= maxLabel {
		return source
	}
	sum := sha256.New()
	writeString(sum, source)
	return strings.TrimRight(source[:maxLabel-1-pin.SuffixLength], "-.") + "-" + suffix(sum)
}

// form is the form of a hash of this version, keyed or not. The guards' policy demands it of a revision's label.
var form = regexp.MustCompile(`^(` + hashVersion + `|` + keyVersion + `-[a-z2-7]{7})-[a-z2-7]{52}$`)

// IsHash reports whether a text has the form of a hash. It does not show what the hash is of.
func IsHash(text string) bool { return form.MatchString(text) }

// Digests maps each key of a content to a digest of its value, which shows which keys changed without reading the content (rule 3).
// A key may be in data of one content and in binaryData of another, but never in both sections of one.
type Digests map[string]string

// digestLength is the number of characters of a digest: 80 bits, so that no two contents share one by chance.
const digestLength = 16

// MaxDigests limits the text form, in bytes. It is far below the 256 KiB that all annotations of an object may have together.
const MaxDigests = 64 << 10

// Digests returns the digest of every key.
func (c Content) Digests() Digests {
	digests := make(Digests, len(c.Data)+len(c.BinaryData))
	for key, value := range c.Data {
		digests[key] = digest("data", value)
	}
	for key, value := range c.BinaryData {
		digests[key] = digest("binaryData", value)
	}
	return digests
}

func digest(section string, value []byte) string {
	sum := sha256.New()
	writeString(sum, section)
	writeBytes(sum, value)
	return Short(sum)
}

// Short returns the beginning of a hash, as long as a digest: 80 bits, in characters that names and labels may contain.
func Short(sum hash.Hash) string { return encoding.EncodeToString(sum.Sum(nil)[:digestLength*5/8]) }

// Text returns the text form, sorted: key=digest,key=digest. ok is false if it would be too long for an annotation; then the
// content must be read instead.
func (d Digests) Text() (text string, ok bool) {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(d)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(key + "=" + d[key])
	}
	return b.String(), b.Len() <= MaxDigests
}

// ParseDigests reads the text form. Keys of ConfigMaps and Secrets contain neither "=" nor ",". What is longer than any text that Text returns is
// forged, and takes no memory.
func ParseDigests(text string) (Digests, error) {
	if len(text) > MaxDigests {
		return nil, fmt.Errorf("digests of keys take %d bytes: want at most %d", len(text), MaxDigests)
	}
	digests := Digests{}
	if text == "" {
		return digests, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(item, "=")
		if !ok || key == "" || len(value) != digestLength {
			return nil, fmt.Errorf("%s is not a digest of a key: want KEY=DIGEST", quote.Text(item))
		}
		digests[key] = value
	}
	return digests, nil
}

// SameKeys reports whether all the given keys have the same value, or are absent, in both contents.
func (d Digests) SameKeys(other Digests, keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return d[key] != other[key] })
}

// Sum returns one hash over the keys that are used, or over all keys if all is true. An absent key is not the same as an empty
// one. It is for templates that restart when content changes, and for the note of a hold, where it shows that the source still has
// what was rolled back, even after the revision is deleted (rule 4). Its form must never change, since a new form would restart
// every workload.
func (d Digests) Sum(all bool, keys []string) string {
	if all {
		keys = slices.Sorted(maps.Keys(d))
	}
	sum := sha256.New()
	for _, key := range keys {
		if value, present := d[key]; present {
			writeString(sum, key)
			writeString(sum, value)
		}
	}
	return Short(sum)
}
