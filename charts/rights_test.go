package charts_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"confrev.io/confrev/test/env"
)

// everyRight enables all that takes rights.
const everyRight = `secrets: {enabled: true}, workloads: [` + webApp + `], restartOn: [{apiGroups: [''], resources: [persistentvolumeclaims]}], failFast: {enabled: true, evictStuckPods: true}, analysis: {enabled: true}`

// rightsIn returns the rights that Roles or ClusterRoles grant.
func rightsIn(t *testing.T, objects map[string]*unstructured.Unstructured, ids ...string) []env.Right {
	t.Helper()
	var all []env.Right
	for _, id := range ids {
		if objects[id] == nil {
			t.Fatalf("there is no %s", id)
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[id].Object, role); err != nil {
			t.Fatal(err)
		}
		all = append(all, env.RightsOf(role.Rules...)...)
	}
	return all
}

// ofTheCluster are the resources that are in no namespace; the core events are those of the leader election.
var ofTheCluster = []string{
	"namespaces", "events", "mutatingadmissionpolicies.admissionregistration.k8s.io", "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
	"validatingadmissionpolicies.admissionregistration.k8s.io", "validatingadmissionpolicybindings.admissionregistration.k8s.io",
	"mutatingwebhookconfigurations.admissionregistration.k8s.io",
}

// A Role in a watched namespace grants what the ClusterRole grants on what is in namespaces, and nothing else. Rollouts are a matter of
// what the API server serves, which Helm does not know here.
func TestRoleGrantsWhatTheClusterRoleDoes(t *testing.T) {
	t.Parallel()
	for _, values := range []string{everyRight, "secrets: {enabled: false}", "restartOn: [{apiGroups: [''], resources: [persistentvolumeclaims]}]"} {
		whole, err := render(t, "{"+values+"}")
		if err != nil {
			t.Fatal(err)
		}
		limited, err := render(t, "{"+values+", watchNamespaces: [a]}")
		if err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(rightsIn(t, whole, "ClusterRole/confrev"), func(r env.Right) bool {
			return slices.Contains(ofTheCluster, r.Resource) || r.Resource == "rollouts.argoproj.io"
		})
		if got := rightsIn(t, limited, "Role/confrev"); !slices.Equal(got, want) {
			t.Errorf("%s: the Role grants %v, the ClusterRole %v", values, got, want)
		}
	}
}

// documentedAs is how docs/components.md names resources where it does not by their plural.
var documentedAs = map[string]string{
	"mutatingadmissionpolicies": "the chart's admission policies and bindings", "mutatingadmissionpolicybindings": "the chart's admission policies and bindings",
	"validatingadmissionpolicies": "the chart's admission policies and bindings", "validatingadmissionpolicybindings": "the chart's admission policies and bindings",
	"mutatingwebhookconfigurations": "the chart's webhook configurations", "webapps": "each kind", "persistentvolumeclaims": "what it lists",
}

// Each right is in the tables of docs/components.md, and each row there is about one.
func TestRightsAreDocumented(t *testing.T) {
	t.Parallel()
	objects, err := render(t, "{"+everyRight+", metrics: {secure: true}}")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "docs", "components.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Rights\n")
	used := map[string]bool{}
	documented := func(right env.Right) bool {
		plural, _, _ := strings.Cut(right.Resource, ".")
		found := false
		for row := range strings.SplitSeq(section, "\n") {
			cells := strings.Split(row, "|")
			if len(cells) < 5 {
				continue
			}
			resource, verbs := cells[len(cells)-4], cells[len(cells)-3]
			named := strings.Contains(resource, plural) || documentedAs[plural] != "" && strings.Contains(resource, documentedAs[plural]) ||
				right.Name != "" && plural == "secrets" && strings.Contains(resource, strings.TrimPrefix(right.Name, "confrev"))
			if named && slices.Contains(strings.FieldsFunc(verbs, func(r rune) bool { return strings.ContainsRune(" ,;", r) }), right.Verb) {
				found, used[row] = true, true
			}
		}
		return found
	}
	rights := rightsIn(t, objects, "ClusterRole/confrev", "Role/confrev-leader-election", "Role/confrev-webhook-ca")
	for _, right := range rights {
		if !documented(right) {
			t.Errorf("docs/components.md does not list the right to %s", right)
		}
	}
	for row := range strings.SplitSeq(section, "\n") {
		// The Secret of a key is in the whole of Secrets here.
		if strings.Contains(row, "get, list") && !used[row] && !strings.Contains(row, "holders") {
			t.Errorf("the chart does not grant what this row says: %s", row)
		}
	}
	if len(rights) < 60 {
		t.Errorf("found only %d rights: the test reads the chart wrongly", len(rights))
	}
}
