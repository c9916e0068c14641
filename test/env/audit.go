package env

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// AuditMark is a place in the audit log.
type AuditMark int64

// AuditNow marks the end of the audit log, once it has all requests that were answered before. The API server writes a
// request's line after its answer, so it is asked for something that does not exist, and the line of that is awaited.
func (c *Cluster) AuditNow() (AuditMark, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	before, err := os.Stat(c.AuditLog)
	if err != nil {
		return 0, err
	}
	name := "audit-mark-" + rand.String(10)
	key := client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}
	if err := c.Client.Get(ctx, key, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("get configmap %s, which does not exist: %w", key, err)
	}
	var mark AuditMark
	err = wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) {
		mark = AuditMark(before.Size())
		err := c.eachLine(mark, func(line string) (bool, error) {
			mark += AuditMark(len(line))
			return strings.Contains(line, name), nil
		})
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		return err == nil, err
	})
	return mark, err
}

// eachLine calls do with each complete line of the audit log since a mark, until do has what it wants or fails. Its error is io.EOF
// when there are no more lines.
func (c *Cluster) eachLine(since AuditMark, do func(line string) (done bool, err error)) error {
	file, err := os.Open(c.AuditLog)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(int64(since), io.SeekStart); err != nil {
		return err
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err
		}
		if done, err := do(line); done || err != nil {
			return err
		}
	}
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
	now, err := c.AuditNow()
	if err != nil {
		return nil, err
	}
	var requests []Request
	at := since
	err = c.eachLine(since, func(line string) (bool, error) {
		var r Request
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return false, fmt.Errorf("line of the audit log: %w", err)
		}
		if r.Stage == "ResponseComplete" && r.Response.Code != http.StatusTooManyRequests && want(r) {
			requests = append(requests, r)
		}
		at += AuditMark(len(line))
		return at >= now, nil
	})
	return requests, err
}
