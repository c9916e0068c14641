package content

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"regexp"
	"strings"

	"confrev.io/confrev/internal/pin"
)

// KeySize is the number of bytes of a Key's secret.
const KeySize = 32

const (
	// keyVersion names how hashes are keyed, as hashVersion names how they are computed without a key.
	keyVersion = "k1"
	// idLength is the number of characters of a key's id: as many as fit into a label together with the hash.
	idLength = 7
)

// Key keys the hashes of Secrets, and of everything else that not all readers of workloads may read, so that no one can test
// guesses of their content. Each namespace has its own. With a single key for the cluster, anyone could put a guess into a Secret
// of their own and compare the hashes. A nil Key leaves hashes as they are, and is the key of ConfigMaps.
//
// A keyed hash begins with the version and the id of its key, so that it is never compared with a hash of another key.
type Key struct {
	secret []byte
	id     string
}

// NewKey returns the Key with the given secret, which must be KeySize random bytes.
func NewKey(secret []byte) (*Key, error) {
	if len(secret) != KeySize {
		return nil, fmt.Errorf("a key has %d bytes, not %d", KeySize, len(secret))
	}
	k := &Key{secret: secret}
	k.id = encoding.EncodeToString(k.mac("id", pin.Source{}, "").Sum(nil))[:idLength]
	return k, nil
}

// Scheme returns the prefix of all hashes that are made with this key, "k1-<id>-". It is empty for a nil Key.
func (k *Key) Scheme() string {
	if k == nil {
		return ""
	}
	return keyVersion + "-" + k.id + "-"
}

// String keeps the secret out of logs and test output.
func (k *Key) String() string { return "key " + k.Scheme() }

// GoString returns the same as String.
func (k *Key) GoString() string { return k.String() }

// mac returns a keyed hash of a text that has only one meaning, because the purpose and the object are hashed with it. So the
// same content has another hash in another object, and a hash for one purpose says nothing about those for others.
func (k *Key) mac(purpose string, object pin.Source, text string) hash.Hash {
	sum := hmac.New(sha256.New, k.secret)
	for _, part := range []string{keyVersion, purpose, string(object.Kind), object.Name, text} {
		writeString(sum, part)
	}
	return sum
}

// Hash returns the keyed form of the hash of a source's content.
func (k *Key) Hash(source pin.Source, plain Hash) Hash {
	if k == nil {
		return plain
	}
	return Hash(k.Scheme() + encoding.EncodeToString(k.mac("content", source, string(plain)).Sum(nil)))
}

// Digests returns the keyed form of the digests of a source's keys.
func (k *Key) Digests(source pin.Source, plain Digests) Digests {
	if k == nil || plain == nil {
		return plain
	}
	keyed := make(Digests, len(plain))
	for name, digest := range plain {
		keyed[name] = Short(k.mac("key "+name, source, digest))
	}
	return keyed
}

// Sum returns the keyed form of the hash that makes a workload restart, of a source (Digests.Sum) or of any other object.
func (k *Key) Sum(object pin.Source, plain string) string {
	if k == nil {
		return plain
	}
	return k.Scheme() + Short(k.mac("restart", object, plain))
}

// Made reports whether a hash was made with this key. Only then can it be compared with other hashes of the key.
func (k *Key) Made(hash Hash) bool {
	if k == nil {
		return strings.HasPrefix(string(hash), hashVersion+"-")
	}
	return strings.HasPrefix(string(hash), k.Scheme())
}

var scheme = regexp.MustCompile(`^` + keyVersion + `-[a-z2-7]{7}-`)

// SchemeOf returns the Scheme of the key that a hash was made with. It is empty if the hash was made without a key.
func SchemeOf(hash string) string { return scheme.FindString(hash) }
