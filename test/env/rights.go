package env

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Right is a verb on a resource, and on one name of it where RBAC says so.
type Right struct{ Verb, Resource, Name string }

// String returns the right in the form "patch deployments" or "get leases confrev".
func (r Right) String() string {
	return strings.TrimSpace(r.Verb + " " + r.Resource + " " + r.Name)
}

// Granted returns the rights that the chart gives confrev's ServiceAccount, as the cluster has them.
func (c *Cluster) Granted(ctx context.Context) ([]Right, error) {
	ours := client.MatchingLabels{"app.kubernetes.io/name": "confrev"}
	clusterRoles, roles := &rbacv1.ClusterRoleList{}, &rbacv1.RoleList{}
	if err := c.Client.List(ctx, clusterRoles, ours); err != nil {
		return nil, err
	}
	if err := c.Client.List(ctx, roles, ours, client.InNamespace(Namespace)); err != nil {
		return nil, err
	}
	var rules []rbacv1.PolicyRule
	for _, role := range clusterRoles.Items {
		rules = append(rules, role.Rules...)
	}
	for _, role := range roles.Items {
		rules = append(rules, role.Rules...)
	}
	var granted []Right
	for _, rule := range rules {
		granted = append(granted, RightsOf(rule)...)
	}
	return granted, nil
}

// RightsOf returns the rights that a rule of RBAC gives.
func RightsOf(rule rbacv1.PolicyRule) []Right {
	var all []Right
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			if group != "" {
				resource += "." + group
			}
			for _, verb := range rule.Verbs {
				for _, name := range names {
					all = append(all, Right{verb, resource, name})
				}
			}
		}
	}
	return all
}

// uses reports whether a request needed this right.
func (r Right) uses(request Request) bool {
	resource := request.Object.Resource
	if request.Object.Subresource != "" {
		resource += "/" + request.Object.Subresource
	}
	if request.Object.Group != "" {
		resource += "." + request.Object.Group
	}
	return r.Verb == request.Verb && r.Resource == resource && (r.Name == "" || r.Name == request.Object.Name)
}

// Used parts rights in those that some of the requests needed and those that none did.
func Used(granted []Right, requests []Request) (used, unused []Right) {
	for _, right := range granted {
		if slices.ContainsFunc(requests, right.uses) {
			used = append(used, right)
			continue
		}
		unused = append(unused, right)
	}
	return used, unused
}

// ReportRights returns how many of the rights that the chart gives confrev were used since a mark, and which were not.
func (c *Cluster) ReportRights(ctx context.Context, since AuditMark) (string, error) {
	granted, err := c.Granted(ctx)
	if err != nil {
		return "", err
	}
	requests, err := c.Requests(since, isConfrev)
	if err != nil {
		return "", err
	}
	used, unused := Used(granted, requests)
	texts := make([]string, 0, len(unused))
	for _, right := range unused {
		texts = append(texts, right.String())
	}
	return fmt.Sprintf("rights granted: %d, used: %d; unused: %s", len(granted), len(used), strings.Join(texts, ", ")), nil
}
