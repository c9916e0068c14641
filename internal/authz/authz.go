// Package authz serves HTTP only to clients that the API server authorizes. Each client presents a token. A TokenReview returns
// the token's user, and a SubjectAccessReview returns whether that user may get the path. controller-runtime's own filter does the
// same, but it links the API server's libraries.
package authz

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// remembered is the number of cached answers, and valid is how long each of them is used. A client that asks every few seconds
	// costs two reviews per valid, and a client that has lost its right is still served for that long.
	remembered = 100
	valid      = 30 * time.Second
	// patience limits the time for the reviews of one request.
	patience = 10 * time.Second
)

// Guard serves only clients that the API server authorizes.
type Guard struct {
	// API creates the reviews.
	API client.Writer
	Now func() time.Time

	once    sync.Once
	answers *lru.Cache
	// reviewing is held during reviews: only one runs at a time, so that unauthorized clients cannot make confrev flood the API
	// server.
	reviewing sync.Mutex
}

// answer is the HTTP status for a token and a path: http.StatusOK if the client is authorized.
type answer struct {
	status int
	until  time.Time
}

// question identifies a request. The token itself is not kept.
type question struct {
	token [sha256.Size]byte
	path  string
}

// Handler returns a handler that passes the requests of authorized clients to next.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch status := g.status(r); status {
		case http.StatusOK:
			next.ServeHTTP(w, r)
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
			fallthrough
		default:
			http.Error(w, http.StatusText(status), status)
		}
	})
}

// maxToken is longer than any token that the API server issues.
const maxToken = 16 << 10

func (g *Guard) status(r *http.Request) int {
	if r.Method != http.MethodGet {
		return http.StatusMethodNotAllowed
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return http.StatusUnauthorized
	}
	asked := question{sha256.Sum256([]byte(token)), r.URL.Path}
	if status, known := g.known(asked); known {
		return status
	}
	g.reviewing.Lock()
	defer g.reviewing.Unlock()
	if status, known := g.known(asked); known {
		return status
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	status, err := g.review(ctx, token, asked.path)
	if err != nil {
		log.Log.WithName("authz").Error(err, "cannot review a client's token and rights", "path", asked.path)
		return http.StatusInternalServerError
	}
	if status != http.StatusUnauthorized {
		// Clients without a valid token could send any number of tokens, which must not evict the other answers.
		g.answers.Add(asked, answer{status, g.Now().Add(valid)})
	}
	return status
}

func (g *Guard) known(asked question) (status int, known bool) {
	g.once.Do(func() { g.answers = lru.New(remembered) })
	kept, ok := g.answers.Get(asked)
	if !ok || !g.Now().Before(kept.(answer).until) {
		return 0, false
	}
	return kept.(answer).status, true
}

// review asks the API server whose token it is and whether that user may get the path, and returns the HTTP status.
func (g *Guard) review(ctx context.Context, token, path string) (status int, err error) {
	identity := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := g.API.Create(ctx, identity); err != nil {
		return 0, err
	}
	if !identity.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user, extra := identity.Status.User, map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	access := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}}
	if err := g.API.Create(ctx, access); err != nil {
		return 0, err
	}
	if !access.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
