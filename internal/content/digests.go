package content

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	"confrev.io/confrev/internal/quote"
)

// Digests maps each key of a content to a digest of its value, which shows which keys changed without reading the content (rule 3).
// A key may be in data of one content and in binaryData of another, but never in both sections of one.
type Digests map[string]string

// digestLength is the number of characters of a digest: 80 bits, so that no two contents share one by chance.
const digestLength = 16

// maxDigests limits the text form, in bytes. It is far below the 256 KiB that all annotations of an object may have together.
const maxDigests = 64 << 10

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
func Short(sum hash.Hash) string { return encoding.EncodeToString(sum.Sum(nil))[:digestLength] }

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
	return b.String(), b.Len() <= maxDigests
}

// ParseDigests reads the text form. Keys of ConfigMaps and Secrets contain neither "=" nor ",".
func ParseDigests(text string) (Digests, error) {
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

// Used returns a digest of the keys that are used, or of all keys if all is true, for the note of a hold. It shows that the
// source still has what was rolled back, even after the revision is deleted (rule 4).
func (d Digests) Used(all bool, keys []string) string { return d.Sum(all, keys) }

// Sum returns one hash over the keys that are used, or over all keys if all is true. An absent key is not the same as an empty
// one. It is for templates that restart when content changes. Its form must never change, since a new form would restart every
// workload.
func (d Digests) Sum(all bool, keys []string) string {
	if all {
		keys = slices.Sorted(maps.Keys(d))
	}
	sum := sha256.New()
	for _, key := range keys {
		value, present := d[key]
		if !present {
			continue
		}
		writeString(sum, key)
		writeString(sum, value)
	}
	return Short(sum)
}
