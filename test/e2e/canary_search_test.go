//go:build e2e

package e2e

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// planting is where a canary was planted, as far as it matters to the user who may repeat it.
type planting string

const (
	inConfigMap planting = "data of a ConfigMap"
	inSecret    planting = "data of a Secret"
	inWorkload  planting = "variables, arguments and annotations of workloads"
	inCustom    planting = "fields of custom resources"
	inFile      planting = "files for the plugin"
	inLiteral   planting = "command lines of the plugin"
	inCause     planting = "the change cause of a source"
	inMetadata  planting = "annotations of others on sources and on the namespace"
	inLabel     planting = "labels of others on sources"
	// inNear is within the first 64 bytes of what was written for confrev, and inFar behind them (rule 19).
	inNear planting = "the beginning of what was written for confrev"
	inFar  planting = "the rest of what was written for confrev"
)

// excuse is a place where canaries of some plantings belong. One that excuses nothing is a fault of this list.
type excuse struct {
	sink  string // how the sink's name begins
	of    []planting
	why   string
	found int
}

var excuses = []excuse{
	{sink: "data of revision", of: []planting{inConfigMap, inSecret}, why: "the copy is there to have the source's data"},
	{sink: "change cause", of: []planting{inCause}, why: "it is copied so that `history` can show it"},
	{sink: "kubectl confrev history", of: []planting{inCause}, why: "its column CHANGE-CAUSE"},
	{sink: "kubectl confrev diff", of: []planting{inConfigMap, inCause}, why: "it is there to show what changed; values of Secrets only with --show-secrets"},
	{sink: "kubectl confrev diff secret/cred --show-secrets", of: []planting{inSecret}, why: "the flag asks for it"},
	{sink: "kubectl confrev create secret generic made --from-literal=k=", of: []planting{inLiteral}, why: "a client dry run prints its own command line"},
	{sink: "kubectl confrev create secret generic made --owner=deployment/loser --from-env-file", of: []planting{inFile},
		why: "kubectl itself names the key that is none, to the one who has the file"},
	{sink: "kubectl confrev create configmap made --owner=deployment/absent --from-literal=", of: []planting{inLiteral}, why: "it names its own argument"},
	{sink: "kubectl confrev track", of: []planting{inWorkload}, why: "-o prints the workload that it wrote, as kubectl does"},
	{sink: "kubectl confrev set owner secret/cred", of: []planting{inLabel}, why: "-o prints the Secret that it wrote, except for its data and annotations"},
	{sink: "kubectl confrev undo deployment/loser secret/cred", of: []planting{inLabel}, why: "-o prints the Secret that it wrote, except for its data and annotations"},
	{sink: "events", of: []planting{inNear}, why: "what was written for confrev is repeated to the user who wrote it, at most 64 bytes"},
	{sink: "warnings", of: []planting{inNear}, why: "what was written for confrev is repeated to the user who wrote it, at most 64 bytes"},
	{sink: "kubectl confrev status", of: []planting{inNear}, why: "the warnings of a workload, to the user who may read it"},
	{sink: "kubectl confrev doctor", of: []planting{inNear}, why: "the warnings of a workload, to the user who may read it"},
}

// canary is a value that appears where it was planted and nowhere else.
type canary struct {
	planting
	where string
	forms []string
}

// aviary is a namespace of canaries, and all places in which they could turn up.
type aviary struct {
	*world
	planted []canary
	driven  []string
	sinks   map[string]string
	// mine are the values of confrev's keys that the test wrote itself: Kubernetes copies them to holders and pods.
	mine map[string]bool
	// door creates objects as a user does, and notes what the API server answers.
	door client.Client
}

// HandleWarningHeader notes a warning of admission.
func (a *aviary) HandleWarningHeader(_ int, _ string, text string) {
	a.sinks["warnings"] += text + "\n"
}

func newAviary(w *world) *aviary {
	a := &aviary{world: w, sinks: map[string]string{}, mine: map[string]bool{}}
	config := rest.CopyConfig(cluster.Config)
	config.WarningHandler = a
	var err error
	a.door, err = client.New(config, client.Options{Scheme: cluster.Client.Scheme()})
	w.Must(err)
	return a
}

// plant makes a canary. The colons are there to be escaped in URLs.
func (a *aviary) plant(in planting, where string) string { return a.plantText(in, where, ":") }

func (a *aviary) plantText(in planting, where, separator string) string {
	value := fmt.Sprintf("canary%s%03d%s%s", separator, len(a.planted), separator, strings.TrimPrefix(a.NS, "e2e-"))
	a.planted = append(a.planted, canary{in, where, formsOf(value)})
	return value
}

// item returns text for one of confrev's keys: a canary that may be repeated to the user who wrote it, and one that is too far behind.
func (a *aviary) item(key, where string) string {
	text := a.plant(inNear, where+" "+key) + " " + strings.Repeat("-", 80) + a.plant(inFar, where+" "+key)
	a.mine[text] = true
	return text
}

// formsOf returns the forms in which a value may turn up. In base64 it may be part of something longer, at any of three offsets.
func formsOf(value string) []string {
	forms := []string{value, url.QueryEscape(value), hex.EncodeToString([]byte(value)), strings.ToUpper(hex.EncodeToString([]byte(value)))}
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			encoded := encoding.EncodeToString([]byte(strings.Repeat("x", before) + value))
			// The characters at both ends have bits of what is before and behind.
			forms = append(forms, encoded[(before*8+5)/6:len(encoded)-1])
		}
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// in returns the form of the canary that a text has, or none.
func (c canary) in(text string) string {
	for _, form := range c.forms {
		if strings.Contains(text, form) {
			return form
		}
	}
	return ""
}

// search looks for every canary in every sink.
func (a *aviary) search() (hits int) {
	a.Helper()
	allowed := slices.Clone(excuses)
	for sink, text := range a.sinks {
		for _, c := range a.planted {
			form := c.in(text)
			if form == "" || excused(allowed, sink, c.planting) {
				continue
			}
			hits++
			at := strings.Index(text, form)
			a.Errorf("%s has a canary of %s (%s):\n%s", sink, c.planting, c.where, text[max(0, at-300):min(len(text), at+len(form)+100)])
		}
	}
	for _, e := range allowed {
		if e.found == 0 {
			a.Errorf("%q excuses nothing; either it is needless, or this test does not see what it should: %s", e.sink, e.why)
		}
	}
	return hits
}

func excused(allowed []excuse, sink string, in planting) bool {
	for i, e := range allowed {
		if strings.HasPrefix(sink, e.sink) && slices.Contains(e.of, in) {
			allowed[i].found++
			return true
		}
	}
	return false
}

// collect reads all that confrev wrote since a mark. The audit log has no bodies; what they wrote is read from the objects.
func (a *aviary) collect(logged int, since env.AuditMark) {
	a.Helper()
	log, err := os.ReadFile(confrev.Log)
	a.Must(err)
	a.sinks["log"] = string(log[logged:])
	var requests strings.Builder
	a.Must(cluster.AuditLines(since, func(line string) error {
		if !strings.Contains(line, "system:serviceaccount:"+env.Namespace+":confrev") {
			return nil
		}
		// What the server answered is not confrev's: it has the words of the policy that refused.
		var request map[string]any
		if err := json.Unmarshal([]byte(line), &request); err != nil {
			return err
		}
		delete(request, "responseStatus")
		requests.WriteString(textOf(request) + "\n")
		return nil
	}))
	a.sinks["requests"] = requests.String()
	response, err := http.Get(confrev.Metrics)
	a.Must(err)
	metrics, err := io.ReadAll(response.Body)
	a.Must(err)
	a.Must(response.Body.Close())
	a.sinks["metrics"] = string(metrics)
	a.sinks["events"] = a.Kubectl("get", "events.events.k8s.io", "-o", "json")
	a.sinks["events of confrev's own namespace"] = a.Kubectl("get", "events.events.k8s.io", "--namespace", env.Namespace, "-o", "json")
	for sink, must := range map[string]string{"log": a.NS, "requests": a.NS, "metrics": "confrev_warnings_total", "events": "reportingController\": \"confrev"} {
		if !strings.Contains(a.sinks[sink], must) {
			a.Fatalf("%s says nothing of all this", sink)
		}
	}
	a.collectObjects()
}

// collectObjects reads what confrev wrote into objects.
func (a *aviary) collectObjects() {
	a.Helper()
	var list unstructured.UnstructuredList
	a.Must(json.Unmarshal([]byte(a.Kubectl("get", "configmaps,secrets,deployments,replicasets,statefulsets,controllerrevisions,cronjobs,jobs,pods,"+
		"rollouts.argoproj.io,webapps.e2e.confrev.io,prunedapps.e2e.confrev.io", "-o", "json", "--show-managed-fields")), &list))
	for _, o := range list.Items {
		name := o.GetKind() + "/" + o.GetName()
		var text strings.Builder
		for _, entry := range o.GetManagedFields() {
			var fields map[string]any
			if entry.Manager != keys.FieldManager || entry.FieldsV1 == nil {
				continue
			}
			a.Must(json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields))
			written := o.DeepCopy().Object
			if _, isRevision := o.GetLabels()[keys.Content]; isRevision {
				a.sinks["data of revision "+name] = textOf(written["data"], written["binaryData"])
				a.sinks["change cause of revision "+name] = o.GetAnnotations()[keys.ChangeCause]
				unstructured.RemoveNestedField(written, "metadata", "annotations", keys.ChangeCause)
				delete(written, "data")
				delete(written, "binaryData")
			}
			collectFields(fields, written, &text)
		}
		a.collectKeys(o.Object, &text)
		if text.Len() > 0 {
			a.sinks["what confrev wrote into "+name] = text.String()
		}
	}
}

// textOf returns values as JSON.
func textOf(values ...any) string {
	text, err := json.Marshal(values)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// collectFields writes the values of the fields that an entry of managedFields lists.
func collectFields(fields map[string]any, value any, text *strings.Builder) {
	for field, within := range fields {
		below, _ := within.(map[string]any)
		inner := value
		switch sort, name, _ := strings.Cut(field, ":"); {
		case field == ".":
			continue
		case sort == "f":
			object, _ := value.(map[string]any)
			inner = object[name]
		case sort == "k":
			inner = itemOf(value, name)
		}
		if len(below) == 0 {
			text.WriteString(field + " " + textOf(inner) + "\n")
			continue
		}
		collectFields(below, inner, text)
	}
}

// itemOf returns the item of a list that has all these keys.
func itemOf(list any, selector string) any {
	var want map[string]any
	if json.Unmarshal([]byte(selector), &want) != nil {
		return list
	}
	items, _ := list.([]any)
	for _, item := range items {
		object, _ := item.(map[string]any)
		matches := object != nil
		for key, value := range want {
			matches = matches && fmt.Sprint(object[key]) == fmt.Sprint(value)
		}
		if matches {
			return item
		}
	}
	return list
}

// collectKeys writes the values of confrev's keys, wherever in an object they are: what the webhook wrote belongs to the manager
// of the request. What the test wrote itself is no find where it stands unchanged.
func (a *aviary) collectKeys(value any, text *strings.Builder) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if key == "managedFields" {
				continue
			}
			if said, ok := inner.(string); ok && strings.HasPrefix(key, keys.Prefix) && !a.mine[said] {
				text.WriteString(key + " " + said + "\n")
			}
			a.collectKeys(inner, text)
		}
	case []any:
		for _, inner := range value {
			a.collectKeys(inner, text)
		}
	}
}

// canaried puts a canary wherever a workload takes text.
func canaried(value string) deploymentOption {
	return func(d *appsv1.Deployment) {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: "PASSWORD", Value: value})
		c.Args = append(c.Args, value)
		d.Annotations["example.com/note"] = value
		d.Spec.Template.Annotations = map[string]string{"example.com/note": value}
	}
}

// logs waits until a confrev has logged a text, and returns all of its log: events come before their lines at times.
func (w *world) logs(c *env.Confrev, text string) (log string) {
	w.Helper()
	w.Eventually("confrev logs "+text+", see "+c.Log, func() string {
		all, err := os.ReadFile(c.Log)
		w.Must(err)
		if log = string(all); !strings.Contains(log, text) {
			return "it has not"
		}
		return ""
	})
	return log
}

// tellsNothing checks that a canary is nowhere in what a confrev logged, nor in any event, of which one must have this reason.
func (w *world) tellsNothing(c *env.Confrev, reason, value string) {
	w.Helper()
	log := w.logs(c, reason)
	planted := canary{forms: formsOf(value)}
	for sink, text := range map[string]string{"the log": log, "an event": w.Kubectl("get", "events.events.k8s.io", "-o", "json")} {
		if !strings.Contains(text, reason) {
			w.Errorf("%s does not have %s: this test shows nothing", sink, reason)
		}
		if form := planted.in(text); form != "" {
			at := strings.Index(text, form)
			w.Errorf("%s has a value:\n%s", sink, text[max(0, at-300):min(len(text), at+len(form)+100)])
		}
	}
}
