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

// KeySize is how many bytes the secret of a Key has.
const KeySize = 32

const (
	// keyVersion names how hashes are keyed, as hashVersion names how they are made without a key.
	keyVersion = "k1"
	// idLength is how many characters tell keys apart: as many as a label has room for.
	idLength = 7
)

// Key keys the hashes of Secrets, and of all else that not everyone may read who may read workloads, so that no one can test
// guesses of their content. There is one for each namespace: with one for the cluster, whoever puts a guess into a Secret of his
// own could compare the hashes. A nil Key keys nothing, and is that of ConfigMaps.
//
// A hash that is keyed begins with the version and the id of its key, so that it is never compared under another one.
type Key struct {
	secret []byte
	id     string
}

// NewKey makes a Key of a random secret.
func NewKey(secret []byte) (*Key, error) {
	if len(secret) != KeySize {
		return nil, fmt.Errorf("a key has %d bytes, not %d", KeySize, len(secret))
	}
	k := &Key{secret: secret}
	k.id = encoding.EncodeToString(k.mac("id", pin.Source{}, "").Sum(nil))[:idLength]
	return k, nil
}

// Scheme is what hashes of this key begin with; empty without a key.
func (k *Key) Scheme() string {
	if k == nil {
		return ""
	}
	return keyVersion + "-" + k.id + "-"
}

// String keeps the secret out of logs and of messages of tests.
func (k *Key) String() string { return "key " + k.Scheme() }

// GoString is String.
func (k *Key) GoString() string { return k.String() }

// mac is a keyed hash of a text that has one meaning only: the purpose, and the object that it is about, enter it. So the same
// content has other hashes in another object, and a hash for one purpose says nothing about those for others.
func (k *Key) mac(purpose string, object pin.Source, text string) hash.Hash {
	sum := hmac.New(sha256.New, k.secret)
	for _, part := range []string{keyVersion, purpose, string(object.Kind), object.Name, text} {
		writeString(sum, part)
	}
	return sum
}

// Hash keys the hash of a source's content.
func (k *Key) Hash(source pin.Source, plain Hash) Hash {
	if k == nil {
		return plain
	}
	return Hash(k.Scheme() + encoding.EncodeToString(k.mac("content", source, string(plain)).Sum(nil)))
}

// Digests keys the digests of a source's keys.
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

// Sum keys the hash that makes a workload restart, of a source (Digests.Sum) or any other object.
func (k *Key) Sum(object pin.Source, plain string) string {
	if k == nil {
		return plain
	}
	return k.Scheme() + Short(k.mac("restart", object, plain))
}

// Made reports whether a hash was made the way that this key makes them now. Others cannot be compared with it.
func (k *Key) Made(hash Hash) bool {
	if k == nil {
		return strings.HasPrefix(string(hash), hashVersion+"-")
	}
	return strings.HasPrefix(string(hash), k.Scheme())
}

var scheme = regexp.MustCompile(`^` + keyVersion + `-[a-z2-7]{7}-`)

// SchemeOf returns what a hash says of the key that it was made with; empty where it was made without one.
func SchemeOf(hash string) string { return scheme.FindString(hash) }
