package env

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

func TestUsedRights(t *testing.T) {
	request := func(verb, group, resource, subresource, name string) Request {
		r := Request{Verb: verb}
		r.Object.Group, r.Object.Resource, r.Object.Subresource, r.Object.Name = group, resource, subresource, name
		return r
	}
	granted := RightsOf(rbacv1.PolicyRule{APIGroups: []string{"", "apps"}, Resources: []string{"things"}, Verbs: []string{"get", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a", "b"}, Verbs: []string{"get"}})
	got := unused(granted, []Request{
		request("get", "", "things", "", "x"), request("patch", "apps", "things", "", "x"), request("get", "apps", "things", "status", "x"),
		request("get", "", "secrets", "", "b"), request("get", "", "secrets", "", "c"),
	})
	want := []Right{{"patch", "things", ""}, {"get", "things.apps", ""}, {"get", "secrets", "a"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unused (-want +got):\n%s", diff)
	}
}
