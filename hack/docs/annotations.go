package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
)

// schemaFile is the schema of the annotations, in the reference.
const schemaFile = "annotations.schema.json"

// value is what one annotation or label may be. A pattern accepts everything that confrev accepts, and refuses what it refuses as far as an
// expression can: not, for example, the 30th of February.
type value struct {
	Type        string   `json:"type"`
	Description string   `json:"description,omitempty"`
	Enum        []string `json:"enum,omitempty"`
	Pattern     string   `json:"pattern,omitempty"`
	MinLength   int      `json:"minLength,omitempty"`
	MaxLength   int      `json:"maxLength,omitempty"`
	Examples    []string `json:"examples,omitempty"`
}

func oneOf(description string, values ...string) value {
	return value{Type: "string", Description: description, Enum: values}
}

func like(description, pattern string, examples ...string) value {
	return value{Type: "string", Description: description, Pattern: "^" + pattern + "$", Examples: examples}
}

// The parts of patterns.
const (
	unit     = `(ns|us|µs|μs|ms|s|m|h)`
	positive = `\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)` + unit + `)+`
	zero     = `[-+]?0|-((0+(\.0*)?|\.0+)` + unit + `)+`
	amount   = `\s*(0*[1-9][0-9]?%|0*100%|0*[1-9][0-9]*)\s*`
	count    = `\+?0*[1-9][0-9]*`
	named    = `(configmap|secret)/[a-z0-9][a-z0-9.-]*`
	object   = `[a-z][a-z0-9-]*\.v[a-z0-9]+(\.[a-z0-9.-]*)?/[A-Za-z0-9][A-Za-z0-9._:-]*\s*(\{[^{}]*\}\s*)?`
	trigger  = `\s*(` + named + `|` + object + `)?\s*`
	dns      = `[a-z0-9]([a-z0-9.-]*[a-z0-9])?`
	clock    = `T[0-9]{1,2}:[0-5][0-9]:[0-5][0-9]([.,][0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})`
	window   = `\s*([^\s;]+\s+){5}` + positive + `(\s+[^\s;]+)?\s*`
)

// values returns what annotations may be. Labels may be the same, except for those in labels.
func values() map[string]value {
	modes, policies := names(optin.Modes), append(names(optin.Policies), "")
	return map[string]value{
		keys.Track:  like("What is tracked: all, none, or a list of sources.", `\s*(|all|none|`+named+`(\s*,\s*`+named+`){0,199})\s*`, "all", "none", "configmap/app,secret/db"),
		keys.Owners: oneOf("Whether ownerReferences opt sources in.", "true", "false"), keys.Mode: oneOf("What confrev does for the workload.", modes...),
		keys.Settle:    like("How long changes settle.", `(`+positive+`|`+zero+`)`, "10s", "0s"),
		keys.Injection: oneOf("Where pins are applied.", string(optin.Admission), string(optin.Template)),
		keys.RestartOn: like("Further objects whose changes roll the workload out.", trigger+`(,`+trigger+`)*`, "configmap/app", "persistentvolumeclaims.v1/data{.spec.volumeName}"),
		keys.RotateBy:  oneOf("How an Argo Rollout gets a rotated credential.", "rollout", "restart-at"),
		keys.Wave:      like("Place among the workloads that a change spreads to, lower first.", `[-+]?[0-9]+`, "10"),
		keys.Deadline:  like("How long the workload may take a change without progress.", positive, "5m"),
		keys.Analysis:  like("AnalysisTemplates that say whether it is well with a change.", `\s*`+dns+`(\s*,\s*`+dns+`){0,9}\s*`, "error-rate,latency"),
		keys.Crashes:   like("How many crashes of a container are a failure.", count, "2"),

		keys.Advance:     oneOf("When a pin may move to another revision.", "auto", "on-deploy", "manual"),
		keys.FreezeUntil: like("Time or date before which no pin moves.", `[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])(`+clock+`)?`, "2027-01-04", "2026-12-27T00:00:00Z"),
		keys.Window:      like("Hours outside of which no pin moves: cron, duration, time zone.", window+`(;`+window+`){0,15}`, "0 9 * * 1-5 8h Europe/Berlin"),
		keys.Deploys:     oneOf("Whether deploys take changes through the freeze and the window.", "wait", "include"),

		keys.Safety:     oneOf("A preset of the settings of spreading.", "careful", "none"),
		keys.Steps:      like("How many workloads a change has reached after each wave.", amount+`(,`+amount+`){0,19}`, "1,10%,50%"),
		keys.MaxRolling: like("How many workloads may be in the middle of a change.", amount, "5", "10%"),
		keys.Bake:       like("How long a workload must stay healthy before it vouches for the change.", positive, "10m"),
		keys.OnFailure:  oneOf("What happens when workloads fail with a change.", "none", "stop", "undo", "undo-all"),
		keys.StopAfter:  like("How many failures it takes.", count, "1"),
		keys.After:      oneOf("Whether the source waits for another namespace.", "none"),
		keys.Version:    {Type: "string", Description: "Names a change in several namespaces.", Pattern: `^\S([\s\S]*\S)?$`, MinLength: 1, MaxLength: 128, Examples: []string{"42"}},

		keys.Policy: oneOf("What may be done with the source.", policies...),
		keys.Attach: oneOf("Whether mode attach may make holders own the source.", "true", "false"), keys.Protect: oneOf("Whether an attached source stays readable until no holder uses it.", "true", "false"),
		keys.Stop:   {Type: "string", Description: "Name of the revision that goes no further.", Examples: []string{"app-5f7d8c9b2k"}},
		keys.Passed: like("Waves that count as passed.", `[^@]+@[0-9]+;wave=\+?[0-9]+`, "app-5f7d8c9b2k@3;wave=2"),
		keys.Resume: like("A stopped change that continues.", `[^@]+@[0-9]+;stop=`+count, "app-5f7d8c9b2k@3;stop=1"),
	}
}

// exceptions returns values that differ from those of the annotation elsewhere.
func exceptions() map[string]value {
	return map[string]value{
		"workload labels " + keys.Track:        oneOf("Whether the workload is tracked.", "all", "none"),
		"namespace labels " + keys.Track:       oneOf("Whether the workloads of the namespace are tracked that say nothing else.", "all", "none", ""),
		"namespace annotations " + keys.After:  like("Namespace that has to vouch for changes first.", `[a-z0-9]([a-z0-9-]*[a-z0-9])?`, "staging"),
		"namespace annotations " + keys.Owners: oneOf("Whether ownerReferences opt sources in, for all workloads.", "true", "false"),
	}
}

func names[T fmt.Stringer](all []T) []string {
	var texts []string
	for _, one := range all {
		texts = append(texts, one.String())
	}
	return texts
}

// annotationsSchema returns the schema: a definition for the annotations, and one for the labels, of each kind of object.
func annotationsSchema() ([]byte, error) {
	definitions := map[string]any{}
	for _, place := range optin.Places() {
		for form, known := range map[string][]string{"annotations": place.Annotations, "labels": place.Labels} {
			properties := map[string]value{}
			for _, key := range known {
				one, ok := exceptions()[place.Name+" "+form+" "+key]
				if !ok {
					one, ok = values()[key]
				}
				if !ok {
					return nil, fmt.Errorf("no value is known for %s: add it to values", key)
				}
				properties[key] = one
			}
			allowed := slices.Concat(known, optin.Written())
			slices.Sort(allowed)
			definitions[place.Name+"-"+form] = map[string]any{
				"description": fmt.Sprintf("metadata.%s of a %s.", form, place.Name), "type": "object", "properties": properties,
				"propertyNames": map[string]any{"anyOf": []any{
					map[string]any{"not": map[string]any{"pattern": "^" + strings.ReplaceAll(keys.Prefix, ".", `\.`)}}, map[string]any{"enum": slices.Compact(allowed)},
				}},
			}
		}
	}
	schema := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Annotations and labels of confrev",
		"description": "Refer to the definition that fits, such as #/$defs/workload-annotations for metadata.annotations of a Deployment.", "$defs": definitions,
	}
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}
