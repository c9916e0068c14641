package env

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Request is one that the API server completed, as its audit log has it.
type Request struct {
	Verb      string `json:"verb"`
	Stage     string `json:"stage"`
	UserAgent string `json:"userAgent"`
	URI       string `json:"requestURI"`
	User      struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// String gives the request in the form "patch deployments ns/web → 200".
func (r Request) String() string {
	return fmt.Sprintf("%s %s %s/%s → %d", r.Verb, r.Object.Resource, r.Object.Namespace, r.Object.Name, r.Response.Code)
}

// Writes tells whether the request may have changed something.
func (r Request) Writes() bool {
	return slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Verb)
}

// AuditMark is a place in the audit log.
type AuditMark int64

// AuditNow marks the end of the audit log as it is now.
func (c *Cluster) AuditNow() (AuditMark, error) {
	info, err := os.Stat(c.AuditLog)
	if err != nil {
		return 0, err
	}
	return AuditMark(info.Size()), nil
}

// ConfrevRequests gives the requests that confrev completed since a mark, but for those of its lease.
func (c *Cluster) ConfrevRequests(since AuditMark) ([]Request, error) {
	return c.Requests(since, func(r Request) bool { return isConfrev(r) && r.Object.Resource != "leases" })
}

func isConfrev(r Request) bool {
	return r.User.Username == "system:serviceaccount:"+Namespace+":"+serviceAccount
}

// Requests gives the completed requests since a mark that want accepts.
func (c *Cluster) Requests(since AuditMark, want func(Request) bool) ([]Request, error) {
	file, err := os.Open(c.AuditLog)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(int64(since), io.SeekStart); err != nil {
		return nil, err
	}
	var requests []Request
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return requests, nil
		}
		if err != nil {
			return nil, err
		}
		var r Request
		if err := json.NewDecoder(strings.NewReader(line)).Decode(&r); err != nil {
			return nil, fmt.Errorf("line of the audit log: %w", err)
		}
		if r.Stage == "ResponseComplete" && want(r) {
			requests = append(requests, r)
		}
	}
}
