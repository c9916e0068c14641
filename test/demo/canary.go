package main

import (
	"fmt"
	"slices"

	"confrev.io/confrev/test/env"
)

// grace is for how long confrev keeps what nothing uses any more. It is minutes by default, and no one wants to watch that.
const grace = "5s"

// The contents of GREETING in the order in which the user writes them. The first is that of the files.
const (
	greetingFirst  = "Hello, version 1"
	greetingFaulty = "Hello, {{ .Version"
	greetingFixed  = "Hello, version 2"
	greetingLast   = "Hello, version 3"
)

// canaryStory is about a Rollout whose canary is faulty. It is told twice, once for each way to give it configuration.
var canaryStory = story{
	about: `the real Argo Rollouts controller takes a Rollout of five pods through a faulty canary: once with revisions of an
edited ConfigMap, once with ConfigMaps that the user names. All of that takes little more than a minute.`,
	cluster: []string{env.ArgoRollouts},
	tools:   []string{"kubectl-argo-rollouts"},
	flags:   []string{"--grace=" + grace},
	steps:   append(canary(withRevisions), canary(withAttach)...),
}

// way is how the user gives the Rollout its configuration: all that differs between the two tellings.
type way struct {
	name string
	// deploys says what is deployed, deploy deploys it; change changes the configuration. Both remember the ConfigMap.
	deploys string
	deploy  []action
	change  func(as, greeting, version string) []action
	// next is what the list of unready pods says of pods with the configuration to come.
	next string
	// shown are the Rollout's ConfigMaps, pruning says more of what goes with ReplicaSets.
	shown, pruning string
	// inMidCanary, afterUndo and afterAll are what happens in one way only.
	inMidCanary, afterUndo, afterAll []step
}

// withRevisions is to edit ConfigMap app: confrev makes revisions of it, and pins them.
var withRevisions = way{
	name:    "Revisions",
	deploys: `A Rollout of five pods with ConfigMap "app" and the annotation confrev.io/track: all.`,
	deploy:  []action{in("canary"), does("kubectl apply -f ."), pinned("stable", "rollout/app", greetingFirst)},
	change: func(as, greeting, _ string) []action {
		return []action{does(`sed -i 's|GREETING:.*|GREETING: "` + greeting + `"|' configmap.yaml; kubectl apply -f configmap.yaml`),
			pinned(as, "rollout/app", greeting), does(get("rollouts", "app"))}
	},
	next:  "{{next}}",
	shown: get("configmaps", "-l confrev.io/source=app"),
	afterUndo: []step{{
		name: "after an undo, confrev holds",
		says: "The ConfigMap still has what was rolled back from. confrev sees that, and holds:",
		does: []action{until("confrev notes it", event("Held", "app")), does(contentOf("app"), events("Held")), barrier,
			does(get("rollouts", "app"))},
		checks: []check{
			{"the ConfigMap has the new greeting", fact{contentOf("app"), greetingLast}},
			{"the Rollout is pinned to the old one, {{fixed}}", fact{pinsOf("rollout/app") + " | sed 's/.*=//; s/@.*//'", "{{fixed}}"}},
			{"its annotation confrev.io/held says from where it was rolled back",
				fact{noteOf("rollout/app"), "configmap/app={{lastpin}};on={{fixedpin}}"}},
		},
	}},
	afterAll: []step{{
		name:   "the ConfigMap is the user's",
		checks: []check{{`the ConfigMap "app" itself stays`, fact{contentOf("app"), greetingLast}}},
	}},
}

// withAttach is to give each content a new name, as Pulumi and kustomize do: confrev only ties the ConfigMaps to their users.
var withAttach = way{
	name: "Attach",
	deploys: `The same with names of the user's own: app-v1, app-v2, … are ConfigMaps with confrev.io/attach: "true", and the Rollout
has confrev.io/mode: attach. confrev writes no pins and makes no copies then.`,
	deploy: []action{does("kubectl delete configmap app"), in("attach"), does("kubectl apply -f ."), remember("stable", "echo app-v1"),
		until("confrev protects the ConfigMap", fact{protection, "confrev.io/protect"})},
	change: func(as, greeting, version string) []action {
		return []action{does(`sed -i 's/app-v[0-9]/app-` + version + `/; s|GREETING:.*|GREETING: "` + greeting + `"|' *.yaml; kubectl apply -f .`),
			remember(as, "echo app-"+version)}
	},
	next:  "app-v2",
	shown: get("configmaps", "-l app=app"),
	pruning: fmt.Sprintf(`
(A ConfigMap that the deploy tool did not delete is kept for a grace time after its last user, in case that a deploy is
about to name it again. That is %s here: --grace=%[1]s.)`, grace),
	inMidCanary: []step{{
		name: "the deploy tool deletes the old ConfigMap too early",
		says: `app-v1 is not in the user's files any more, so a deploy tool deletes it, although four pods read it. It has
confrev.io/protect: "true", and for that confrev gave it a finalizer:`,
		does: []action{does("kubectl delete configmap {{stable}} --wait=false")},
		checks: []check{
			{"{{stable}} is being deleted, and protected", fact{protection + "; kubectl get configmap app-v1 -o jsonpath='{.metadata.deletionTimestamp}' | sed 's/.*Z$/, being deleted/'",
				"confrev.io/protect, being deleted"}},
			{"so pods can still read it", fact{contentOf("{{stable}}"), greetingFirst}},
			{"the template has no pins", fact{pinsOf("rollout/app"), ""}},
		},
	}},
	afterUndo: []step{{
		name: "after an undo, there is nothing to hold",
		does: []action{barrier},
		checks: []check{
			{"the Rollout names {{fixed}}", fact{"kubectl get rollout app -o jsonpath='{.spec.template.spec.volumes[*].configMap.name}'", "{{fixed}}"}},
			{"it has no pins", fact{pinsOf("rollout/app"), ""}},
			{"and no note", fact{noteOf("rollout/app"), ""}},
			{"{{last}} stays as long as its ReplicaSet", copies("app", "{{fixed}}", "{{last}}")},
		},
	}},
}

const protection = "kubectl get configmap app-v1 -o jsonpath='{.metadata.finalizers[*]}'"

var (
	rollout     = "kubectl argo rollouts get rollout app --no-color"
	rolloutPods = get("pods", "-l app=app")
	// stuck is while the faulty canary is out: four old pods, and one new one.
	stuck = pods("app", "1 false <none> {{faulty}} {{faulty}}", "4 true <none> {{stable}} {{stable}}")
)

// phase returns the fact that Argo Rollouts says so of the Rollout as it is now.
func phase(want string) fact {
	return fact{`[ $(kubectl get rollout app -o jsonpath='{.metadata.generation} = {.status.observedGeneration}') ] && kubectl get rollout app -o jsonpath='{.status.phase}'`, want}
}

// allRead returns the fact that all five pods read one ConfigMap.
func allRead(configMap string) fact {
	return pods("app", "5 true <none> {{"+configMap+"}} {{"+configMap+"}}")
}

// canaryOf returns the fact that there is a canary that is ready: one pod of five. Names sort by their hashes, so both orders are tried.
func canaryOf(from, to string) fact {
	f := pods("app")
	return fact{f.command + " | sort -n", fmt.Sprintf("1 true <none> {{%s}} {{%[1]s}}\n4 true <none> {{%s}} {{%[2]s}}", to, from)}
}

// promote lets a canary continue, and waits until all pods read a ConfigMap and Argo Rollouts has nothing left to do.
func promote(configMap, flags string) []action {
	return []action{does("kubectl argo rollouts promote app" + flags), until("the rollout is complete", phase("Healthy")),
		until("the pods are replaced", allRead(configMap))}
}

// readers returns the command that lists the ReplicaSets whose pods read a ConfigMap: by a pin, or since the template names it.
func readers(configMap string) string {
	return `kubectl get replicasets -l app=app --no-headers -o custom-columns='N:.metadata.name,R:.spec.replicas,` +
		`P:.spec.template.metadata.annotations.confrev\.io/pins,V:.spec.template.spec.volumes[*].configMap.name' | grep -w '{{` + configMap + `}}'`
}

// owned returns the fact that the Rollout and the ReplicaSets that use it own a ConfigMap. The command prints what differs.
func owned(configMap string) fact {
	return fact{`(kubectl get configmap {{` + configMap + `}} -o jsonpath='{range .metadata.ownerReferences[*]}{.kind}/{.name}{"\n"}{end}'; echo Rollout/app; ` +
		readers(configMap) + ` | awk '{print "ReplicaSet/" $1}') | sort | uniq -u`, ""}
}

// newImages pushes old ReplicaSets out, one by one, and claims what goes with each.
func newImages() (all []action) {
	for i, next := range []struct {
		claim string
		left  []string
	}{
		{"{{stable}} went with its ReplicaSet", []string{"{{faulty}}", "{{fixed}}"}},
		{"{{faulty}}, the aborted one, went with its ReplicaSet", []string{"{{fixed}}"}},
		{"{{fixed}} stays, although the ReplicaSet that brought it is gone: others share it", []string{"{{fixed}}"}},
	} {
		image := fmt.Sprintf("app:%d", i+2)
		all = append(all, does("sed -i 's/image:.*/image: "+image+"/' rollout.yaml; kubectl argo rollouts set image app app="+image),
			until("the canary is there", phase("Paused")))
		all = append(all, promote("fixed", " --full")...)
		all = append(all, until("confrev and the garbage collector are through", copies("app", next.left...)),
			until("the ReplicaSet is pruned", fact{"kubectl get replicasets -l app=app -o name | wc -l", "3"}),
			func(s *stage) { s.claim(check{next.claim, copies("app", next.left...)}) })
	}
	return all
}

// settle promotes the first pin: Argo Rollouts made a ReplicaSet before there was one, and calls it stable already, since
// simulated pods are ready at once. So the first pin may be a canary, too.
func settle(s *stage) {
	until("Argo Rollouts has nothing left to do by itself", fact{phase("").command + " | sed 's/Paused/Healthy/'", "Healthy"})(s)
	if s.output(phase("").command) == "Paused" {
		for _, do := range promote("stable", "") {
			do(s)
		}
	}
	until("the pods are there", allRead("stable"))(s)
}

// canary returns the steps of one telling.
func canary(w way) []step {
	steps := slices.Concat(faultyCanary(w), w.inMidCanary, lostNodes, promotion(w), w.afterUndo, []step{{
		name: "with the Rollout, everything goes",
		does: []action{does("kubectl delete rollout app"), until("the garbage collector is through", copies("app")),
			until("the pods are gone", fact{"kubectl get pods -l app=app -o name", ""}), does(w.shown)},
		checks: []check{{"nothing is left that a pod of the Rollout read", copies("app")}},
	}}, w.afterAll)
	for i := range steps {
		steps[i].name = w.name + ": " + steps[i].name
	}
	return steps
}

// faultyCanary goes as far as a canary that does not become ready.
func faultyCanary(w way) []step {
	return []step{
		{
			name: "a Rollout reads a ConfigMap, by a volume and by envFrom", says: w.deploys,
			does: append(slices.Clone(w.deploy), settle, until("confrev makes its users the owners", owned("stable")), does(rollout, rolloutPods)),
			checks: []check{
				{"all 5 pods read {{stable}}, by the volume and by envFrom", allRead("stable")},
				{"the Rollout and its ReplicaSets that use it own {{stable}}", owned("stable")},
			},
		},
		{
			name: "a faulty change becomes a faulty canary",
			says: `Now a change with a mistake. No container really runs here, so the simulated nodes are told that pods with the
next configuration do not become ready; with real nodes the pods' readiness probes would find out.
The steps of the Rollout are setWeight: 20 and a pause, so one pod of five gets it:`,
			does: slices.Concat([]action{does(keepUnready(w.next))}, w.change("faulty", greetingFaulty, "v2"),
				[]action{until("the canary is there", stuck), until("confrev makes its users the owners", owned("faulty")), does(rollout, rolloutPods)}),
			checks: []check{
				{"the canary reads {{faulty}}, and is not ready; 4 pods read {{stable}}", stuck},
				{"the Rollout and its ReplicaSets that use it own {{faulty}}", owned("faulty")},
			},
		},
	}
}

// lostNodes are what happens while the faulty canary is out, up to its end.
var lostNodes = []step{
	{
		name: "two spot nodes go away in mid-canary",
		says: `The canary continues while someone looks into it. Meanwhile nodes come and go, so stable pods are replaced, and the
replacements must not be canaries as well:`,
		does: []action{losePod("app", "{{stable}}", greetingFirst, stuck), losePod("app", "{{stable}}", greetingFirst, stuck)},
	},
	{
		name: "a third one goes while confrev is down",
		says: "confrev is not in the pod-creation path. End it the hard way, and lose one more:",
		does: []action{withoutConfrev("KILL", (*env.Confrev).Kill, "rollout/app", losePod("app", "{{stable}}", greetingFirst, stuck))},
	},
	{
		name: "abort the canary: the stable pods are not touched",
		does: []action{remember("old", "kubectl get pods -l app=app -o name --sort-by=.metadata.name | xargs"), remember("canary", podOf("app", "{{faulty}}")),
			does("kubectl argo rollouts abort app"), until("stable is back at 5 pods", allRead("stable")), does(rollout, rolloutPods)},
		checks: []check{
			{"the 4 stable pods are the same ones, and a fifth is there", fact{"printf '%s\\n' {{old}} $(kubectl get pods -l app=app -o name) | grep -v {{canary}} | sort | uniq -d | wc -l", "4"}},
			{"the canary's ReplicaSet has no pods", fact{readers("faulty") + " | awk '{n += $2} END {print n}'", "0"}},
			{"Argo Rollouts says that the Rollout is degraded: its template is not what runs", phase("Degraded")},
		},
	},
	{
		name: "after the abort, confrev leaves it at that",
		does: []action{barrier},
		checks: []check{
			{"all pods read {{stable}}", allRead("stable")},
			{"the aborted configuration stays as long as its ReplicaSet, for a retry", copies("app", "{{stable}}", "{{faulty}}")},
		},
	},
}

// promotion returns the steps from the fixed configuration to the one after it, and back.
func promotion(w way) []step {
	return []step{
		{
			name: "fix the configuration, and promote it",
			does: slices.Concat([]action{does(keepUnready("none"))}, w.change("fixed", greetingFixed, "v3"),
				[]action{until("the canary is there", canaryOf("stable", "fixed")), until("Argo Rollouts pauses", phase("Paused")), does(rolloutPods),
					tells("The canary reads {{fixed}}, and is ready. It looks good, so:")}, promote("fixed", ""), []action{does(rolloutPods)}),
			checks: []check{{"all 5 pods read {{fixed}}", allRead("fixed")}},
		},
		{
			name: "old configuration goes with its ReplicaSets",
			says: `revisionHistoryLimit is 2, for configuration as for ReplicaSets. Argo Rollouts prunes the ReplicaSet that is the
oldest. Each new image pushes one old ReplicaSet out:` + w.pruning,
			does:   slices.Concat([]action{does(w.shown)}, newImages(), []action{does(w.shown)}),
			checks: []check{{"the Rollout and its ReplicaSets that use it own {{fixed}}", owned("fixed")}},
		},
		{
			name: "undo: the configuration comes back too",
			says: `One more change, all the way. Someone finds it wanting, and goes back. For Argo Rollouts that is a canary again, and
nothing special:`,
			does: slices.Concat(w.change("last", greetingLast, "v4"), []action{until("the canary is there", phase("Paused"))}, promote("last", " --full"),
				[]action{does("kubectl argo rollouts undo app"), until("the canary is there", canaryOf("last", "fixed")),
					until("Argo Rollouts pauses", phase("Paused"))}, promote("fixed", ""), []action{does(rolloutPods)}),
			checks: []check{{"all 5 pods read {{fixed}} again", allRead("fixed")}},
		},
	}
}
