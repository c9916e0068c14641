package pipeline

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/view"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// What others wrote stays in its line, as plain text.
func TestReasonsArePlainText(t *testing.T) {
	var out bytes.Buffer
	streams := printer.Screened(genericiooptions.IOStreams{Out: &out})
	o := printer.Output{Flags: genericclioptions.NewPrintFlags("")}
	list := &view.PreviewList{Workloads: []view.Preview{{WorkloadRef: view.WorkloadRef{Workload: "deployment/web"}, Sources: []view.SourceChange{{Source: "configmap/app", Because: gen.Hostile}}}}}
	if err := o.Print(streams.Out, list, previewTable(list), true); err != nil || !gen.Harmless(out.String()) {
		t.Errorf("%v, it shows %q", err, out.String())
	}
}

// Only the API server can convert between the versions of a kind.
func TestAnObjectOfAnotherVersionIsLeftOut(t *testing.T) {
	for kind, want := range map[string]int{"Deployment": 1, "Service": 0} {
		gvk := schema.GroupVersionKind{Group: "apps", Version: "v1beta2", Kind: kind}
		info := &resource.Info{Name: "web", Mapping: &meta.RESTMapping{GroupVersionKind: gvk}}
		if notes := otherVersion(info, workload.Standard()); len(notes) != want {
			t.Errorf("%s: %q", kind, notes)
		}
	}
}

// Rule 19: pipelines keep what they print, so only what the API server says itself about a Secret is repeated.
func TestNoErrorQuotesTheDataOfASecret(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	tests := map[string]struct {
		kind, text string
		shown      bool
	}{
		"a missing right":             {"Secret", `User "jane" cannot patch resource "secrets"`, true},
		"a policy":                    {"Secret", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: canary", false},
		"a policy about another kind": {"ConfigMap", "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: too long", true},
	}
	for name, test := range tests {
		err := withoutData(schema.GroupVersionKind{Version: "v1", Kind: test.kind}, apierrors.NewForbidden(secrets, "app", errors.New(test.text)))
		if shown := strings.Contains(err.Error(), test.text); shown != test.shown {
			t.Errorf("%s: %v", name, err)
		}
	}
}
