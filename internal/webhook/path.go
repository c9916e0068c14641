package webhook

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The keys of the shared Secret for the secret part of the workload webhook's path: the present one, the previous one, and since
// when the present one has been valid.
const (
	pathKey       = "path"
	pathBeforeKey = "path-before"
	pathSinceKey  = "path-since"
)

const (
	// pathStays is how long the previous path works after a change, because an API server may learn of the change late.
	pathStays = time.Hour
	// pathSpreads is how long it takes until every replica accepts a new path, so that the configurations may contain it.
	pathSpreads = 3 * lookEvery
)

// paths are the valid secret parts of the workload webhook's path. They keep out clients that can connect to the port but cannot
// read the webhook configurations: the API server presents no credentials that would identify its requests.
type paths struct {
	present, before string
	since           time.Time
}

func readPaths(data map[string][]byte) paths {
	// A time that cannot be read counts as long ago.
	since, _ := time.Parse(time.RFC3339, string(data[pathSinceKey]))
	return paths{string(data[pathKey]), string(data[pathBeforeKey]), since}
}

// renew creates a new path, and keeps the present one as the previous one unless it is distrusted.
func (p paths) renew(now time.Time, distrusted bool) paths {
	next := paths{present: strings.ToLower(rand.Text() + rand.Text()), before: p.present, since: now}
	if distrusted {
		next.before = ""
	}
	return next
}

// usable reports whether there is a present path, and the API server accepts it as that of a Service: its parts must be lower-case, unlike
// those of a URL.
func (p paths) usable() bool { return len(validation.IsDNS1123Subdomain(p.present)) == 0 }

func (p paths) write(data map[string][]byte) {
	data[pathKey], data[pathBeforeKey] = []byte(p.present), []byte(p.before)
	data[pathSinceKey] = []byte(p.since.UTC().Format(time.RFC3339))
}

// accepts reports whether a request for a path should be answered at a time.
func (p paths) accepts(path string, now time.Time) bool {
	return same(path, p.present) || same(path, p.before) && now.Sub(p.since) < pathStays
}

func same(path, secret string) bool {
	return secret != "" && subtle.ConstantTimeCompare([]byte(path), []byte(secret)) == 1
}

// written returns the secret part of the path to write to the configurations, given the present one.
func (p paths) written(now string, at time.Time) string {
	if p.before != "" && now == p.before && at.Sub(p.since) < pathSpreads {
		return p.before
	}
	return p.present
}

// secretOf returns the secret part of the path in a webhook's configuration; empty if there is none.
func secretOf(told admissionregistrationv1.WebhookClientConfig, prefix string) string {
	path := ""
	switch {
	case told.Service != nil && told.Service.Path != nil:
		path = *told.Service.Path
	case told.URL != nil:
		if address, err := url.Parse(*told.URL); err == nil {
			path = address.Path
		}
	}
	secret, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return ""
	}
	return secret
}

func pathOperation(told admissionregistrationv1.WebhookClientConfig, pointer, path string) jsonpatch.Operation {
	if told.URL == nil {
		return jsonpatch.NewOperation("add", pointer+"/service/path", path)
	}
	address, err := url.Parse(*told.URL)
	if err != nil {
		// The API server checked it.
		address = &url.URL{}
	}
	address.Path, address.RawPath = path, ""
	return jsonpatch.NewOperation("replace", pointer+"/url", address.String())
}

// Guard returns a handler that passes requests to next if the secret part of their path is right, and answers all others with 404.
func (c *Certificates) Guard(prefix string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret, ok := strings.CutPrefix(r.URL.Path, prefix)
		if !ok || !c.accepts(secret) {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
