package audit

import (
	"regexp"
	"strings"
)

// style is how a tool makes the name of a copy.
type style string

const (
	// hashed names end in ten characters of a hash, as kustomize and kubectl's --append-hash make them
	// (k8s.io/kubectl/pkg/util/hash): hexadecimal digits, of which 0, 1, 3, a and e are replaced.
	hashed style = "a hash"
	// random names end in seven or eight characters, as Pulumi makes them.
	random style = "a random end"
)

var (
	hashForm = regexp.MustCompile(`^(.+)-[2456789bcdfghkmt]{10}$`)
	// markedForm is that of names which their annotation says to be Pulumi's.
	markedForm = regexp.MustCompile(`^(.+)-[0-9a-z]{7,8}$`)
	// hexForm is that of names of which nothing but the form is known. With a digit, it is no word.
	hexForm = regexp.MustCompile(`^(.+)-[0-9a-f]{7,8}$`)
)

// baseOf returns the name of a copy without its end, and how that was made; no style if it is not a copy. certain is false if only
// other copies with the same base can tell.
func baseOf(name string, marked bool) (base string, made style, certain bool) {
	if match := hashForm.FindStringSubmatch(name); match != nil {
		return match[1], hashed, true
	}
	if match := markedForm.FindStringSubmatch(name); marked && match != nil {
		return match[1], random, true
	}
	if match := hexForm.FindStringSubmatch(name); match != nil && strings.ContainsAny(name[len(match[1]):], "0123456789") {
		return match[1], random, false
	}
	return "", "", false
}

// isChecksum reports whether an annotation of a pod template is there to restart the pods when configuration changes: Helm's
// "checksum/config", and the like.
func isChecksum(key string) bool {
	key = strings.ToLower(key)
	if strings.HasPrefix(key, "confrev.io/") || isReloader(key) || isWave(key) {
		return false
	}
	_, name, _ := strings.Cut("/"+key, "/")
	return strings.Contains(key, "checksum") || strings.HasSuffix(key, "sha256") || name == "rollme" || strings.HasSuffix(key, "/rollme") ||
		strings.HasSuffix(key, "config-hash") || strings.HasSuffix(key, "confighash") || strings.HasSuffix(key, "secret-hash")
}

func isReloader(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return strings.HasSuffix(prefix, "reloader.stakater.com")
}

func isWave(key string) bool { return strings.HasPrefix(key, "wave.pusher.com/") }
