package env

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	var granted []Right
	for _, role := range clusterRoles.Items {
		granted = append(granted, RightsOf(role.Rules...)...)
	}
	for _, role := range roles.Items {
		granted = append(granted, RightsOf(role.Rules...)...)
	}
	return granted, nil
}

// RightsOf returns the rights that rules of RBAC give.
func RightsOf(rules ...rbacv1.PolicyRule) []Right {
	var all []Right
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				kind := schema.GroupResource{Group: group, Resource: resource}
				for _, verb := range rule.Verbs {
					for _, name := range names {
						all = append(all, Right{verb, kind.String(), name})
					}
				}
			}
		}
	}
	return all
}

// uses reports whether a request needed this right.
func (r Right) uses(request Request) bool {
	kind := schema.GroupResource{Group: request.Object.Group, Resource: request.Object.Resource}
	if request.Object.Subresource != "" {
		kind.Resource += "/" + request.Object.Subresource
	}
	return r.Verb == request.Verb && r.Resource == kind.String() && (r.Name == "" || r.Name == request.Object.Name)
}

// unused returns the rights that none of the requests needed.
func unused(granted []Right, requests []Request) []Right {
	return slices.DeleteFunc(slices.Clone(granted), func(r Right) bool { return slices.ContainsFunc(requests, r.uses) })
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
	unused := unused(granted, requests)
	return fmt.Sprintf("rights granted: %d, used: %d; unused: %q", len(granted), len(granted)-len(unused), unused), nil
}
