package main

import (
	"slices"
	"strings"

	"confrev.io/confrev/test/env"
)

// ground is what a Deployment's story stands on: simulated nodes or a real one, and what the user runs there.
type ground struct {
	// folder has the user's files. The others are the key in the ConfigMap, and its contents in the order in which the user writes them; the
	// first is that of the files.
	folder, key                string
	first, good, faulty, fixed string
	// app is what runs, and fault says what pods with the faulty content do. By breaks, they do it; by repairs, no more.
	app, fault      string
	breaks, repairs []action
	// read returns what shows that so many pods that are ready have read a content, if containers run.
	read func(pods int, content string) []check
}

const (
	pageFourth = "<h1>Hello, version 4</h1>"
	pageFifth  = "<h1>Hello, version 5</h1>"
)

// simulated is a ground on which no container runs.
var simulated = ground{
	folder: "web", key: "index.html",
	first: "<h1>Hello, version 1</h1>", good: "<h1>Hello, version 2</h1>", faulty: "<h1>Hello, {{ .Version", fixed: "<h1>Hello, version 3</h1>",
	app: "nginx, three times, with its page",
	fault: `No container really runs here, so the simulated nodes are told that pods with the
next revision do not become ready; with real nodes the pods' readiness probes would find out.`,
	breaks: []action{does(keepUnready("{{next}}"))},
	// Nothing runs the faulty revision any more, and the list would hold for other namespaces too.
	repairs: []action{does(keepUnready("none"))},
	read:    func(int, string) []check { return nil },
}

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

// edit edits and applies the user's ConfigMap, lets something happen, and waits for the pin.
func (g ground) edit(as, content string, meanwhile ...action) action {
	return func(s *stage) {
		s.show(`sed -i 's|` + g.key + `:.*|` + g.key + `: "` + content + `"|' configmap.yaml; kubectl apply -f configmap.yaml`)
		for _, do := range meanwhile {
			do(s)
		}
		pinned(as, "deployment/web", content)(s)
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
	flags: []string{"--grace=" + grace},
	about: `the steps show what happens to one Deployment and its ConfigMap. All of that takes less than a minute.`,
	steps: []step{
		simulated.deployed(), simulated.edited(), noDifference, simulated.stuck(), simulated.replaced(),
		{
			name: "The same while confrev is down",
			says: "confrev is not in the pod-creation path: the API server itself resolves pins (MutatingAdmissionPolicy). So stop confrev, for real.",
			does: []action{withoutConfrev("TERM", (*env.Confrev).Stop, "deployment/web", losePod("web", "{{good}}", simulated.good, halfWay))},
		},
		simulated.undone(), simulated.held(), simulated.repaired(),
		{
			name: "Old revisions go with their ReplicaSets",
			says: `Each revision is owned by the ReplicaSets that pin it, so revisionHistoryLimit bounds both. (confrev keeps what was just about to
be pinned for 90 seconds, or less if --grace says so, as here.) Keep one old ReplicaSet only, and edit twice:`,
			does: []action{does(revisions, `kubectl patch deployment web -p '{"spec":{"revisionHistoryLimit":1}}'`),
				simulated.edit("fourth", pageFourth), rolledOut("fourth"), simulated.edit("fifth", pageFifth), rolledOut("fifth"),
				until("what no ReplicaSet pins is gone", copies("web", "{{fourth}}", "{{fifth}}")), does(revisions)},
			checks: []check{
				{"two ReplicaSets are left", fact{setCount, "2"}},
				{"and their two revisions; confrev deleted the rest", copies("web", "{{fourth}}", "{{fifth}}")},
				{`the ConfigMap "web" itself is untouched`, fact{contentOf("web"), pageFifth}},
			},
		},
	},
}

func (g ground) deployed() step {
	return step{
		name: "A Deployment reads a ConfigMap",
		says: g.app + ` in ConfigMap "web" and the annotation confrev.io/track: all.`,
		does: []action{in(g.folder), does("kubectl apply -f ."), pinned("first", "deployment/web", g.first), since("install", "pin"), rolledOut("first"),
			tells("confrev copied the ConfigMap into an immutable revision, {{first}}, and noted it as a pin on the pod template."),
			does(webPins, webPods)},
		checks: append([]check{
			{"all 3 pods mount revision {{first}}", allMount("first")},
			{`the manifest still says "web"`, fact{"kubectl get deployment web -o jsonpath='{.spec.template.spec.volumes[*].configMap.name}'", "web"}},
		}, g.read(3, g.first)...),
	}
}

func (g ground) edited() step {
	return step{
		name: "Edit the ConfigMap",
		says: `Change the content and apply the file: that is all that the user does. confrev waits 2 s for further changes, which
would go into the same rollout. One edit is one native rolling update, as for a new image:`,
		does: []action{remember("sets", setCount), remember("generation", "kubectl get deployment web -o jsonpath='{.metadata.generation}'"),
			g.edit("good", g.good), rolledOut("good"), until("confrev says so", event("RolledForward", "web")),
			does(webSets, events("RolledForward"))},
		checks: append([]check{
			{"exactly one new ReplicaSet", fact{"expr $(" + setCount + ") - {{sets}}", "1"}},
			{"by one change to the Deployment", fact{"expr $(kubectl get deployment web -o jsonpath='{.metadata.generation}') - {{generation}}", "1"}},
			{"all 3 pods mount revision {{good}}", allMount("good")},
		}, g.read(3, g.good)...),
	}
}

var noDifference = step{
	name:   "The user's files and the cluster do not differ",
	says:   "So neither kubectl apply nor a GitOps tool fights confrev:",
	does:   []action{does("kubectl diff -f .")},
	checks: []check{{"kubectl diff is empty", fact{"kubectl diff -f .", ""}}},
}

func (g ground) stuck() step {
	return step{
		name: "A faulty edit gets stuck half-way",
		says: `Now an edit with a mistake. ` + g.fault + `
Kubernetes stops the rollout by itself: old and new pods run side by side (maxSurge 1, maxUnavailable 1).`,
		does: append(slices.Clone(g.breaks), g.edit("faulty", g.faulty), until("the rollout is stuck", halfWay), does(webPods)),
		checks: append([]check{{"2 old pods serve the good content, 2 new pods with the faulty one are not ready", halfWay}},
			g.read(2, g.good)...),
	}
}

func (g ground) replaced() step {
	return step{
		name: "A spot node goes away in the middle of a rollout",
		says: `The ConfigMap has the faulty content by now, so with plain Kubernetes an old pod that must be replaced would start
with the faulty content, and the last good pods would go one by one. Here, one of them is deleted:`,
		does:   []action{losePod("web", "{{good}}", g.good, halfWay)},
		checks: g.read(2, g.good),
	}
}

func (g ground) undone() step {
	return step{
		name: "Undo the rollout: the configuration comes back too",
		says: "The old configuration comes back as an old image would; no one has to remember what was in the ConfigMap before.",
		does: []action{does("kubectl rollout undo deployment/web"), rolledOut("good"), until("confrev notes it", event("Held", "web")), does(webPods)},
		checks: append([]check{{"all 3 pods mount revision {{good}}", allMount("good")}},
			g.read(3, g.good)...),
	}
}

func (g ground) held() step {
	return step{
		name: "After an undo, confrev holds",
		says: `The ConfigMap still has the faulty content. confrev sees that this content was rolled back from, and holds. Nor does
applying the same files again end it: kubectl's warning above is about fields that the files have; pins are not.`,
		does: []action{does(contentOf("web"), events("Held")), barrier},
		checks: []check{
			{"applying them changes nothing", fact{"kubectl apply -f .", "configmap/web unchanged\ndeployment.apps/web unchanged"}},
			{"the ConfigMap has the faulty content", fact{contentOf("web"), g.faulty}},
			{"Deployment web stays pinned to {{goodpin}}", fact{pinsOf("deployment/web"), "configmap/web={{goodpin}}"}},
			{"and its pods stay", allMount("good")},
		},
	}
}

// repaired takes what happens after the edit.
func (g ground) repaired(meanwhile ...action) step {
	return step{
		name: "Fix the ConfigMap",
		says: "The next change to the ConfigMap ends the hold: nothing has to be switched on again.",
		does: append(slices.Clone(g.repairs), g.edit("fixed", g.fixed, meanwhile...), rolledOut("fixed"), does(webPods, webPins)),
		checks: append([]check{
			{"all 3 pods mount the new revision {{fixed}}", allMount("fixed")},
			{"the hold is over", fact{noteOf("deployment/web"), ""}},
		}, g.read(3, g.fixed)...),
	}
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
