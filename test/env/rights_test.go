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
	granted := append(RightsOf(rbacv1.PolicyRule{APIGroups: []string{"", "apps"}, Resources: []string{"things"}, Verbs: []string{"get", "patch"}}),
		RightsOf(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"a", "b"}, Verbs: []string{"get"}})...)
	used, unused := Used(granted, []Request{
		request("get", "", "things", "", "x"), request("patch", "apps", "things", "", "x"), request("get", "apps", "things", "status", "x"),
		request("get", "", "secrets", "", "b"), request("get", "", "secrets", "", "c"),
	})
	want := []Right{{"get", "things", ""}, {"patch", "things.apps", ""}, {"get", "secrets", "b"}}
	if diff := cmp.Diff(want, used); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	if len(used)+len(unused) != len(granted) {
		t.Errorf("%d used and %d unused of %d", len(used), len(unused), len(granted))
	}
}
