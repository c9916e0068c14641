package env

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request is one that the API server completed, as its audit log has it.
type Request struct {
	Verb      string `json:"verb"`
	Stage     string `json:"stage"`
	UserAgent string `json:"userAgent"`
	// Received is when the API server received it.
	Received metav1.MicroTime `json:"requestReceivedTimestamp"`
	URI      string           `json:"requestURI"`
	// User sent the request, with the rights of Impersonated if that is set.
	User         authenticationv1.UserInfo `json:"user"`
	Impersonated authenticationv1.UserInfo `json:"impersonatedUser"`
	Object       struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response metav1.Status `json:"responseStatus"`
	// Annotations are what the API server itself noted.
	Annotations map[string]string `json:"annotations"`
}

// Webhooks returns the names of the mutating webhooks that the API server called, in order.
func (r Request) Webhooks() ([]string, error) {
	var names []string
	for _, key := range slices.Sorted(maps.Keys(r.Annotations)) {
		if !strings.HasPrefix(key, "mutation.webhook.admission.k8s.io/") {
			continue
		}
		called := struct{ Webhook string }{}
		if err := json.Unmarshal([]byte(r.Annotations[key]), &called); err != nil {
			return nil, fmt.Errorf("audit annotation %s: %w", key, err)
		}
		names = append(names, called.Webhook)
	}
	return names, nil
}

// String returns the request in the form "patch deployments ns/web → 200".
func (r Request) String() string {
	return fmt.Sprintf("%s %s %s/%s → %d", r.Verb, r.Object.Resource, r.Object.Namespace, r.Object.Name, r.Response.Code)
}

// Writes reports whether the request may have changed something.
func (r Request) Writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// ConfrevRequests returns the requests that confrev completed since a mark, except for those of its lease.
func (c *Cluster) ConfrevRequests(since AuditMark) ([]Request, error) {
	return c.Requests(since, func(r Request) bool { return isConfrev(r) && r.Object.Resource != "leases" })
}

func isConfrev(r Request) bool {
	return r.User.Username == "system:serviceaccount:"+Namespace+":"+serviceAccount
}

// Requests returns the requests that want accepts, of those that the API server dealt with between a mark and now. One that it
// answers with 429 (it has too much to do, or its storage for a new kind is not up yet) is asked again by the client.
func (c *Cluster) Requests(since AuditMark, want func(Request) bool) ([]Request, error) {
	var requests []Request
	err := c.AuditLines(since, func(line string) error {
		var r Request
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return fmt.Errorf("line of the audit log: %w", err)
		}
		if r.Stage == "ResponseComplete" && r.Response.Code != http.StatusTooManyRequests && want(r) {
			requests = append(requests, r)
		}
		return nil
	})
	return requests, err
}
