package authz

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// api is an API server that knows the tokens "prometheus" and "other", of which only the first may get /metrics.
type api struct {
	client.Writer
	reviews int
	broken  bool
}

func (a *api) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	a.reviews++
	if a.broken {
		return errors.New("no API server")
	}
	switch review := obj.(type) {
	case *authenticationv1.TokenReview:
		review.Status.Authenticated = review.Spec.Token == "prometheus" || review.Spec.Token == "other"
		review.Status.User = authenticationv1.UserInfo{Username: "user-" + review.Spec.Token, UID: "7", Groups: []string{"g"},
			Extra: map[string]authenticationv1.ExtraValue{"e": {"v"}}}
	case *authorizationv1.SubjectAccessReview:
		s := review.Spec
		review.Status.Allowed = s.User == "user-prometheus" && s.UID == "7" && s.Groups[0] == "g" && s.Extra["e"][0] == "v" &&
			s.ResourceAttributes == nil && *s.NonResourceAttributes == authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
	}
	return nil
}

func TestGuard(t *testing.T) {
	tests := map[string]struct {
		method, path, authorization string
		broken                      bool
		status, reviews             int
	}{
		"with the right":         {authorization: "Bearer prometheus", status: http.StatusOK, reviews: 2},
		"in lower case":          {authorization: "bearer prometheus", status: http.StatusOK, reviews: 2},
		"without the right":      {authorization: "Bearer other", status: http.StatusForbidden, reviews: 2},
		"a right to other paths": {path: "/debug", authorization: "Bearer prometheus", status: http.StatusForbidden, reviews: 2},
		"a token of no one":      {authorization: "Bearer forged", status: http.StatusUnauthorized, reviews: 1},
		"no token":               {status: http.StatusUnauthorized},
		"an empty token":         {authorization: "Bearer ", status: http.StatusUnauthorized},
		"a password":             {authorization: "Basic prometheus", status: http.StatusUnauthorized},
		"a very long token":      {authorization: "Bearer " + strings.Repeat("x", maxToken+1), status: http.StatusUnauthorized},
		"another method":         {method: http.MethodPost, authorization: "Bearer prometheus", status: http.StatusMethodNotAllowed},
		"no API server":          {authorization: "Bearer prometheus", broken: true, status: http.StatusInternalServerError, reviews: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := &api{broken: test.broken}
			now := time.Unix(1_800_000_000, 0)
			guard := &Guard{API: server, Now: func() time.Time { return now }}
			handler := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("confrev_secrets 1")) }))
			ask := func() *httptest.ResponseRecorder {
				method, path := test.method, test.path
				if method == "" {
					method = http.MethodGet
				}
				if path == "" {
					path = "/metrics"
				}
				r, w := httptest.NewRequest(method, path, http.NoBody), httptest.NewRecorder()
				if test.authorization != "" {
					r.Header.Set("Authorization", test.authorization)
				}
				handler.ServeHTTP(w, r)
				return w
			}
			for range 3 {
				w := ask()
				if w.Code != test.status || strings.Contains(w.Body.String(), "confrev_secrets") != (test.status == http.StatusOK) {
					t.Fatalf("%d %q, want %d", w.Code, w.Body, test.status)
				}
				if got := w.Header().Get("WWW-Authenticate") != ""; got != (test.status == http.StatusUnauthorized) {
					t.Errorf("asks for a token: %t", got)
				}
			}
			// The API server is asked again where it did not answer or does not know the token, else only after a while.
			want := test.reviews
			if test.broken || test.status == http.StatusUnauthorized {
				want *= 3
			}
			if server.reviews != want {
				t.Errorf("%d reviews, want %d", server.reviews, want)
			}
			now = now.Add(valid)
			if ask(); server.reviews != want+test.reviews {
				t.Errorf("after a while, %d reviews, want %d", server.reviews, want+test.reviews)
			}
		})
	}
}
