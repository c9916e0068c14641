//go:build chaos

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// recorder knows which of the writes to a namespace are its users': all others are those of confrev and of Kubernetes' controllers.
type recorder struct {
	mu sync.Mutex
	// steps has the step of each write, by the resourceVersion that the write resulted in.
	own map[int64]int
	at  func() int
	rt  http.RoundTripper
}

func (r *recorder) wrap(rt http.RoundTripper) http.RoundTripper {
	r.rt, r.own = rt, map[int64]int{}
	return r
}

// RoundTrip notes the resourceVersions of what it writes.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.rt.RoundTrip(request)
	if err != nil || request.Method == http.MethodGet || request.Method == http.MethodDelete || response.StatusCode >= http.StatusMultipleChoices {
		return response, err
	}
	if kind := response.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		return nil, fmt.Errorf("the response to %s %s is %s, which the test cannot read", request.Method, request.URL, kind)
	}
	body, err := io.ReadAll(response.Body)
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	var written struct{ Metadata metav1.ObjectMeta }
	if err := json.Unmarshal(body, &written); err != nil {
		return nil, err
	}
	version, err := strconv.ParseInt(written.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the response to %s %s has no resourceVersion: %w", request.Method, request.URL, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own[version] = r.at()
	return response, nil
}

// byUser returns the step that made a version of an object, if a user made it.
func (r *recorder) byUser(version int64) (step int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	step, ok = r.own[version]
	return step, ok
}

// clientFor makes clients of one play share their connections.
func clientFor(config *rest.Config) (*http.Client, error) {
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	return rest.HTTPClientFor(config)
}
