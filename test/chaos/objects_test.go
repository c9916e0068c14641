//go:build chaos

package chaos

import (
	"encoding/base64"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"confrev.io/confrev/internal/keys"
)

// sources are those of every history.
var sources = []ref{"configmap/one", "configmap/two", "secret/cred"}

// use is how a workload uses a source.
type use struct {
	source ref
	// key is the one that it uses; "" means all of them.
	key      string
	optional bool
}

// cast are the workloads that histories choose from, with what they use.
var cast = map[ref][]use{
	"deployment/web":   {{source: "configmap/one"}, {source: "secret/cred"}},
	"deployment/api":   {{source: "configmap/one", key: "k"}, {source: "configmap/two", optional: true}},
	"statefulset/db":   {{source: "configmap/two"}, {source: "secret/cred", key: "k"}},
	"daemonset/agent":  {{source: "configmap/one", key: "k"}},
	"cronjob/tick":     {{source: "configmap/two", key: "k"}},
	"rollout/canary":   {{source: "configmap/one"}, {source: "secret/cred"}},
	"deployment/alone": {{source: "configmap/one"}, {source: "configmap/two"}},
}

// Those of bystanders, which confrev has to leave alone. The forged object has the form of a revision, and a content that is not that
// of its hash, so that it is neither used nor deleted (rule 20).
const (
	bystander = ref("deployment/bystander")
	unrelated = ref("configmap/unrelated")
	private   = ref("secret/unrelated")
	forged    = ref("configmap/one-bcdfghjklm")
)

var bystanders = []ref{bystander, unrelated, private, forged}

// noPin names a revision that no source ever has.
const noPin = "configmap/one=one-zzzzzzzzzz@9"

// source returns a source with a value.
func source(r ref, value, other string) *unstructured.Unstructured {
	obj := r.object()
	if r.kind() == "secret" {
		value, other = base64.StdEncoding.EncodeToString([]byte(value)), base64.StdEncoding.EncodeToString([]byte(other))
		obj.Object["type"] = "Opaque"
	}
	obj.Object["data"] = map[string]any{"k": value, "other": other}
	return obj
}

// forgery returns an object that has the form of a revision of configmap/one, and the hash of nothing.
func forgery(r ref) *unstructured.Unstructured {
	obj := source(r, "forged", "forged")
	obj.Object["immutable"] = true
	obj.SetLabels(map[string]string{keys.Content: "v1-" + strings.Repeat("a2", 26), keys.Source: "one"})
	obj.SetAnnotations(map[string]string{keys.SourceName: "one", keys.Number: "7"})
	return obj
}

// workload returns a tracked workload as its manifest has it.
func workload(r ref) *unstructured.Unstructured {
	obj := r.object()
	obj.SetAnnotations(map[string]string{keys.Track: "all"})
	obj.Object["spec"] = spec(r, template(r.name(), cast[r]))
	return obj
}

func spec(r ref, template map[string]any) map[string]any {
	spec := map[string]any{"template": template, "revisionHistoryLimit": int64(3)}
	if r.kind() != "cronjob" {
		spec["selector"] = map[string]any{"matchLabels": map[string]any{"app": r.name()}}
	}
	switch r.kind() {
	case "deployment":
		// A change that fails is one of a history that takes seconds.
		spec["replicas"], spec["progressDeadlineSeconds"] = int64(2), int64(5)
	case "statefulset":
		spec["replicas"], spec["serviceName"] = int64(2), "none"
	case "rollout":
		spec["replicas"] = int64(2)
		spec["strategy"] = map[string]any{"canary": map[string]any{"maxSurge": int64(1), "maxUnavailable": int64(0)}}
	case "cronjob":
		template["spec"].(map[string]any)["restartPolicy"] = "Never"
		return map[string]any{"schedule": "0 0 1 1 *", "suspend": true, "successfulJobsHistoryLimit": int64(2),
			"jobTemplate": map[string]any{"spec": map[string]any{"template": template}}}
	}
	return spec
}

// template returns a pod template that takes a whole source as its environment and as a volume, and single keys as variables.
func template(app string, uses []use) map[string]any {
	// Argo Rollouts' controller adds the resources to a template that lacks them.
	container := map[string]any{"name": "app", "image": "app:1", "resources": map[string]any{}}
	var env, envFrom, volumes []any
	for _, use := range uses {
		name := use.source.name()
		reference := map[string]any{"name": name}
		if use.optional {
			reference["optional"] = true
		}
		kind := map[string]string{"configmap": "configMap", "secret": "secret"}[use.source.kind()]
		if use.key != "" {
			reference["key"] = use.key
			env = append(env, map[string]any{"name": strings.ToUpper(name), "valueFrom": map[string]any{kind + "KeyRef": reference}})
			continue
		}
		envFrom = append(envFrom, map[string]any{kind + "Ref": reference})
		volume := map[string]any{map[string]string{"configmap": "name", "secret": "secretName"}[use.source.kind()]: name}
		if use.optional {
			volume["optional"] = true
		}
		volumes = append(volumes, map[string]any{"name": name, kind: volume})
	}
	for field, value := range map[string][]any{"env": env, "envFrom": envFrom} {
		if len(value) > 0 {
			container[field] = value
		}
	}
	spec := map[string]any{"containers": []any{container}, "terminationGracePeriodSeconds": int64(0)}
	if len(volumes) > 0 {
		spec["volumes"] = volumes
	}
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": app}}, "spec": spec}
}

// bystanderObjects returns what exists in every history and has nothing to do with confrev.
func bystanderObjects() []*unstructured.Unstructured {
	untracked := bystander.object()
	untracked.Object["spec"] = spec(bystander, template(bystander.name(), []use{{source: "configmap/one"}, {source: "secret/cred"}}))
	untracked.Object["spec"].(map[string]any)["replicas"] = int64(0)
	return []*unstructured.Unstructured{source(unrelated, "a", "a"), source(private, "a", "a"), forgery(forged), untracked}
}
