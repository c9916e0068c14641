package main

import (
	"strings"

	"confrev.io/confrev/test/env"
)

// The contents of index.html in the order in which the user writes them. The first is that of web/configmap.yaml.
const (
	pageFirst  = "<h1>Hello, version 1</h1>"
	pageGood   = "<h1>Hello, version 2</h1>"
	pageFaulty = "<h1>Hello, {{ .Version"
	pageFixed  = "<h1>Hello, version 3</h1>"
	pageFourth = "<h1>Hello, version 4</h1>"
	pageFifth  = "<h1>Hello, version 5</h1>"
)

var (
	webPods   = get("pods", "-l app=web")
	webSets   = get("replicasets", "-l app=web --sort-by=.metadata.creationTimestamp")
	webPins   = get("deployments", "web")
	revisions = get("configmaps", "-l confrev.io/source=web")
	halfWay   = pods("web", "2 false <none> {{faulty}} <none>", "2 true <none> {{good}} <none>")
	setCount  = "kubectl get replicasets -l app=web -o name | wc -l"
)

// allMount returns the fact that all pods of Deployment web mount one revision.
func allMount(revision string) fact { return pods("web", "3 true <none> {{"+revision+"}} <none>") }

// edit edits and applies the user's ConfigMap, and waits for the pin.
func edit(as, page string) action {
	return func(s *stage) {
		s.show(`sed -i 's|index.html:.*|index.html: "` + page + `"|' configmap.yaml; kubectl apply -f configmap.yaml`)
		pinned(as, "deployment/web", page)(s)
	}
}

// rolledOut waits until all pods mount a revision and the Deployment controller has nothing left to do.
func rolledOut(revision string) action {
	return func(s *stage) {
		until("the pods are replaced", allMount(revision))(s)
		until("the rollout is complete", fact{"kubectl rollout status deployment/web --watch=false", `deployment "web" successfully rolled out`})(s)
	}
}

// event returns the fact that there is an event about an object.
func event(reason, name string) fact {
	return fact{"kubectl get events --field-selector reason=" + reason + ",involvedObject.name=" + name + " -o jsonpath='{.items[0].reason}'", reason}
}

// events shows those of a reason.
func events(reason string) string { return get("events", "--field-selector reason="+reason) }

// webStory is about a Deployment.
var webStory = story{
	about: `the steps show what happens to one Deployment and its ConfigMap. All of that takes less than a minute.`,
	steps: []step{
		{
			name: "A Deployment reads a ConfigMap",
			says: `nginx, three times, with its page in ConfigMap "web" and the annotation confrev.io/track: all.`,
			does: []action{in("web"), does("kubectl apply -f ."), pinned("first", "deployment/web", pageFirst), rolledOut("first"),
				tells("confrev copied the ConfigMap into an immutable revision, {{first}}, and noted it as a pin on the pod template."),
				does(webPins, webPods)},
			checks: []check{
				{"all 3 pods mount revision {{first}}", allMount("first")},
				{`the manifest still says "web"`, fact{"kubectl get deployment web -o jsonpath='{.spec.template.spec.volumes[*].configMap.name}'", "web"}},
			},
		},
		{
			name: "Edit the ConfigMap",
			says: `Change the page and apply the file: that is all that the user does. confrev waits 2 s for further changes, which
would go into the same rollout. One edit is one native rolling update, as for a new image:`,
			does: []action{remember("sets", setCount), remember("generation", "kubectl get deployment web -o jsonpath='{.metadata.generation}'"),
				edit("good", pageGood), rolledOut("good"), until("confrev says so", event("RolledForward", "web")),
				does(webSets, events("RolledForward"))},
			checks: []check{
				{"exactly one new ReplicaSet", fact{"expr $(" + setCount + ") - {{sets}}", "1"}},
				{"by one change to the Deployment", fact{"expr $(kubectl get deployment web -o jsonpath='{.metadata.generation}') - {{generation}}", "1"}},
				{"all 3 pods mount revision {{good}}", allMount("good")},
			},
		},
		{
			name:   "The user's files and the cluster do not differ",
			says:   "So neither kubectl apply nor a GitOps tool fights confrev:",
			does:   []action{does("kubectl diff -f .")},
			checks: []check{{"kubectl diff is empty", fact{"kubectl diff -f .", ""}}},
		},
		{
			name: "A faulty edit gets stuck half-way",
			says: `Now an edit with a mistake. No container really runs here, so the simulated nodes are told that pods with the
next revision do not become ready; with real nodes the pods' readiness probes would find out.
Kubernetes stops the rollout by itself: old and new pods run side by side (maxSurge 1, maxUnavailable 1).`,
			does:   []action{does(keepUnready("{{next}}")), edit("faulty", pageFaulty), until("the rollout is stuck", halfWay), does(webPods)},
			checks: []check{{"2 old pods serve the good page, 2 new pods with the faulty one are not ready", halfWay}},
		},
		{
			name: "A spot node goes away in the middle of a rollout",
			says: `The ConfigMap has the faulty content by now, so with plain Kubernetes an old pod that must be replaced would start
with the faulty page, and the last good pods would go one by one. Here, one of them is deleted:`,
			does: []action{losePod("web", "{{good}}", pageGood, halfWay)},
		},
		{
			name: "The same while confrev is down",
			says: "confrev is not in the pod-creation path: the API server itself resolves pins (MutatingAdmissionPolicy). So stop confrev, for real.",
			does: []action{withoutConfrev("TERM", (*env.Confrev).Stop, "deployment/web", losePod("web", "{{good}}", pageGood, halfWay))},
		},
		{
			name:   "Undo the rollout: the configuration comes back too",
			says:   "The old configuration comes back as an old image would; no one has to remember what was in the ConfigMap before.",
			does:   []action{does("kubectl rollout undo deployment/web"), rolledOut("good"), until("confrev notes it", event("Held", "web")), does(webPods)},
			checks: []check{{"all 3 pods mount revision {{good}}", allMount("good")}},
		},
		{
			name: "After an undo, confrev holds",
			says: `The ConfigMap still has the faulty content. confrev sees that this content was rolled back from, and holds. Nor does
applying the same files again end it: kubectl's warning above is about fields that the files have; pins are not.`,
			does: []action{does(contentOf("web"), events("Held")), barrier},
			checks: []check{
				{"applying them changes nothing", fact{"kubectl apply -f .", "configmap/web unchanged\ndeployment.apps/web unchanged"}},
				{"the ConfigMap has the faulty page", fact{contentOf("web"), pageFaulty}},
				{"Deployment web stays pinned to {{goodpin}}", fact{pinsOf("deployment/web"), "configmap/web={{goodpin}}"}},
				{"and its pods stay", allMount("good")},
			},
		},
		{
			name: "Fix the ConfigMap",
			says: "The next change to the ConfigMap ends the hold: nothing has to be switched on again.",
			// Nothing runs the faulty revision any more, and the list would hold for other namespaces too.
			does: []action{does(keepUnready("none")), edit("fixed", pageFixed), rolledOut("fixed"), does(webPods, webPins)},
			checks: []check{
				{"all 3 pods mount the new revision {{fixed}}", allMount("fixed")},
				{"the hold is over", fact{noteOf("deployment/web"), ""}},
			},
		},
		{
			name: "Old revisions go with their ReplicaSets",
			says: `Each revision is owned by the ReplicaSets that pin it, so revisionHistoryLimit bounds both. Keep one old ReplicaSet only,
and edit twice:`,
			does: []action{does(revisions, `kubectl patch deployment web -p '{"spec":{"revisionHistoryLimit":1}}'`),
				edit("fourth", pageFourth), rolledOut("fourth"), edit("fifth", pageFifth), rolledOut("fifth"),
				until("what no ReplicaSet pins is gone", copies("web", "{{fourth}}", "{{fifth}}")), does(revisions)},
			checks: []check{
				{"two ReplicaSets are left", fact{setCount, "2"}},
				{"and their two revisions; confrev deleted the rest", copies("web", "{{fourth}}", "{{fifth}}")},
				{`the ConfigMap "web" itself is untouched`, fact{contentOf("web"), pageFifth}},
			},
		},
	},
}

// pinsOf returns the command that prints the pins of a workload's template.
func pinsOf(workload string) string {
	return "kubectl get " + workload + ` -o jsonpath='{.spec.template.metadata.annotations.confrev\.io/pins}'`
}

// noteOf returns the command that prints from where a workload was rolled back, without keys of contents.
func noteOf(workload string) string {
	return "kubectl get " + workload + ` -o jsonpath='{.metadata.annotations.confrev\.io/held}' | sed 's/;keys=.*//'`
}

// copies returns the fact that just these ConfigMaps have names that continue after the workload's. The command prints what differs.
func copies(app string, names ...string) fact {
	listed := "printf '%s\\n' '" + strings.Join(names, "' '") + "'"
	return fact{"(kubectl get configmaps -o name | sed -n 's|^configmap/\\(" + app + "-.*\\)|\\1|p'; " + listed + ") | sort | uniq -u | xargs", ""}
}
