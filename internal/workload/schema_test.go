package workload_test

import (
	"encoding/json"
	"testing"

	"confrev.io/confrev/internal/workload"
)

// What a structural schema specifies, preserves and prunes, as the API server does it (test/e2e/prune_test.go).
func TestKeeps(t *testing.T) {
	const preserve = `"x-kubernetes-preserve-unknown-fields": true`
	under := func(template string) string {
		return `{"type":"object","properties":{"spec":{"type":"object","properties":{"template":` + template + `}}}}`
	}
	tests := map[string]struct {
		schema string
		want   bool
	}{
		"annotations are specified": {under(`{"type":"object","properties":{"metadata":{"type":"object","properties":{
			"annotations":{"type":"object","additionalProperties":{"type":"string"}}}}}}`), true},
		"metadata is an object without properties, as generators have it": {under(`{"type":"object","properties":{"metadata":{"type":"object"}}}`), false},
		"and that although unknown fields are preserved around it":        {under(`{"type":"object",` + preserve + `,"properties":{"metadata":{"type":"object"}}}`), false},
		"metadata preserves unknown fields":                               {under(`{"type":"object","properties":{"metadata":{"type":"object",` + preserve + `}}}`), true},
		"metadata has labels only":                                        {under(`{"type":"object","properties":{"metadata":{"type":"object","properties":{"labels":{"type":"object"}}}}}`), false},
		"the template preserves unknown fields":                           {under(`{"type":"object",` + preserve + `}`), true},
		"the template has no metadata":                                    {under(`{"type":"object","properties":{"spec":{"type":"object"}}}`), false},
		"annotations are an object of nothing":                            {under(`{"type":"object","properties":{"metadata":{"type":"object","properties":{"annotations":{"type":"object"}}}}}`), false},
		"all of spec is preserved":                                        {`{"type":"object","properties":{"spec":{"type":"object",` + preserve + `}}}`, true},
		"an embedded object":                                              {under(`{"type":"object","x-kubernetes-embedded-resource":true,"properties":{}}`), true},
		"no schema at all":                                                {`{}`, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var schema map[string]any
			if err := json.Unmarshal([]byte(test.schema), &schema); err != nil {
				t.Fatal(err)
			}
			if got := (workload.Kind{Path: "spec.template"}).KeepsAnnotations(schema); got != test.want {
				t.Errorf("keeps: %v", got)
			}
		})
	}
}
