package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"confrev.io/confrev/test/env"
)

// onRealNode is a ground on which containers run: they print what they read, and crash if that is "crash".
var onRealNode = ground{
	folder: "node", key: "greeting",
	first: "Hello, version 1", good: "Hello, version 2", faulty: "crash", fixed: "Hello, version 3",
	app:   "A program, three times, that prints what it reads",
	fault: "With this content, the program crashes at its start.",
	read: func(pods int, content string) []check {
		return []check{{"and the containers of those that are ready say that they read " + content,
			fact{readByReady, fmt.Sprintf(`%d {"env":{},"files":{"/etc/web/greeting":%q}}`, pods, content)}}}
	},
}

// nodeStory is what happens to users: confrev is installed as they install it, and containers run.
var nodeStory = story{
	about: `the steps show what happens to containers that really run, and to confrev itself. All of that takes about three minutes.
It needs Linux and root; hack/cluster/NODE.md says what else, and what this network does not have.`,
	cluster: []string{env.RealNode, "--nodes=0"},
	tools:   []string{"helm"},
	real:    true,
	steps: []step{
		installed, onRealNode.deployed(), asked, onRealNode.edited(), onRealNode.stuck(), onRealNode.replaced(), rebooted,
		onRealNode.undone(), onRealNode.held(), leaderKilled(), upgraded, drained, uninstalled, deleted, attached,
	},
}

// prepareImages puts the images on the node that it would pull from a registry, and the plugin on the path.
func (s *stage) prepareImages(cluster *env.Cluster, images *env.Images) error {
	fmt.Println(dim("The images are made, as for a release, and given to the node …"))
	if err := images.Import(s.ctx, cluster); err != nil {
		return err
	}
	s.names["version"] = images.Version
	plugin, err := cluster.Build(s.ctx, "kubectl-confrev", false)
	if err != nil {
		return err
	}
	s.path += filepath.Dir(plugin) + ":"
	link := func(folder string) error {
		return os.Symlink(filepath.Join(env.Root(), folder), filepath.Join(cluster.Dir, "files", folder))
	}
	return errors.Join(os.MkdirAll(filepath.Join(cluster.Dir, "files"), 0o755), link("charts"), link("docs"))
}

const (
	inSystem = "kubectl --namespace " + env.Namespace + " "
	leader   = inSystem + "get lease confrev -o jsonpath='{.spec.holderIdentity}'"
	// readByReady prints the last line of each ready container, counted.
	readByReady = "for pod in $(kubectl get pods -l app=web --no-headers -o custom-columns=N:.metadata.name,R:.status.containerStatuses[*].ready" +
		` | awk '$2 == "true" {print $1}'); do kubectl logs $pod --tail=1; done | sort | uniq -c | awk '{$1=$1};1'`
	// untouched prints what differs once a pod was replaced, or a container started again.
	untouched = "kubectl get pods -l app=web --no-headers -o custom-columns=N:.metadata.name,U:.metadata.uid,C:.status.containerStatuses[*].restartCount | sort"
)

// replicas returns the fact that so many replicas of confrev are ready, none of them of an earlier version.
func replicas(ready int) fact {
	return fact{inSystem + "get deployment confrev -o jsonpath='{.status.readyReplicas} of {.status.updatedReplicas} of {.status.replicas}'",
		fmt.Sprintf("%d of 2 of 2", ready)}
}

// restarted returns the fact that so many pods that match, and mount a revision, had their container started again.
func restarted(get, revision string, pods int) fact {
	return fact{get + " --no-headers -o custom-columns=C:.status.containerStatuses[*].restartCount,V:.spec.volumes[*].configMap.name" +
		` | awk '$1 > 0 && $2 == "` + revision + `"' | wc -l`, fmt.Sprint(pods)}
}

// anotherLeads is the fact that another process than the one that was remembered is the leader.
var anotherLeads = fact{leader + " | grep -v -x '{{leader}}' | wc -l", "1"}

// noneRuns is the fact that the pods of web are replaced by ones that have nowhere to run.
var noneRuns = fact{"kubectl get pods -l app=web -o jsonpath='{.items[*].status.phase}'", "Pending Pending Pending"}

// node shows and runs a verb of hack/cluster for the real node.
func node(verb string, args ...string) action {
	return func(s *stage) {
		args := slices.Clone(args)
		for i := range args {
			args[i] = s.fill(args[i])
		}
		fmt.Println(cyan(strings.TrimSpace("$ go run -C hack/cluster . node " + verb + " --name " + s.Cluster.Name + " " + strings.Join(args, " "))))
		s.Must(s.Cluster.Node(s.ctx, verb, args...))
	}
}

var installed = step{
	name: "Install the chart",
	says: `With its defaults: two replicas, probes, a Service for the webhook, and the image by its tag. Not a single value is set:`,
	does: []action{in("node"), mark("install"),
		does("helm install confrev ../charts/confrev --namespace " + env.Namespace + " --create-namespace | grep STATUS"),
		until("both replicas are ready", replicas(2)), since("install", "ready"), does(inSystem + "get pods -o wide")},
	checks: []check{
		{"both replicas are ready, {{ready}} after the start of helm install", replicas(2)},
		{"no value differs from its default", fact{"helm get values confrev --namespace " + env.Namespace + " -o json", "null"}},
		{"each replica has an address of its own in the pod network", fact{
			inSystem + "get pods -o jsonpath='{.items[*].status.podIP} {.items[*].status.hostIP}' | tr ' ' '\n' | sort -u | wc -l", "3"}},
		{"the Service leads to both", fact{
			inSystem + "get endpointslices -l kubernetes.io/service-name=confrev -o jsonpath='{.items[*].endpoints[*].conditions.ready}'", "true true"}},
		{"one of them is the leader", fact{inSystem + "get pods -o name | grep -c $(" + leader + " | sed 's/_.*//')", "1"}},
	},
}

// asked shows the way that no other test goes: from the API server to a Service, and through kube-proxy to a pod.
var asked = step{
	name: "The API server asks the webhook through its Service",
	says: "So a deploy of code and configuration together is one rollout. The plugin would see if the API server could not:",
	does: []action{
		func(s *stage) {
			s.Must(s.Cluster.WaitWebhook(s.ctx))
			fmt.Println(green("✓ a workload that is only tried (dry run) comes back as the webhook changes it"))
		},
		does("kubectl confrev doctor"),
	},
	checks: []check{
		{"it was pinned {{pin}} after the start of helm install", fact{pinsOf("deployment/web"), "configmap/web={{firstpin}}"}},
		{"the doctor finds no fault", fact{"kubectl confrev doctor >/dev/null; echo $?", "0"}},
	},
}

var rebooted = step{
	name: "The node reboots in the middle of a rollout",
	says: "All containers end at once, those of confrev too. When they start again, they must read what their ReplicaSet was rolled out with.",
	does: []action{remember("leader", leader), node("stop"), node("start"),
		until("the old pods' containers have started again", restarted("kubectl get pods -l app=web", "{{good}}", 2)),
		until("the rollout is as stuck as before", halfWay),
		until("confrev's containers have started again", restarted(inSystem+"get pods", "<none>", 2)), until("they are ready", replicas(2)),
		// Its events are of what happened while it led.
		until("one of them leads", anotherLeads), does(webPods)},
	checks: append([]check{{"2 old pods still have the good content, 2 new pods the faulty one", halfWay}}, onRealNode.read(2, onRealNode.good)...),
}

// leaderKilled returns the step that fixes the ConfigMap while no one leads.
func leaderKilled() step {
	s := onRealNode.repaired(
		until("another process leads", anotherLeads), since("kill", "took"), does(leader))
	s.name = "The leader is killed, and the ConfigMap is fixed"
	s.says = "It is killed by SIGKILL, so it cannot hand over: another process leads once the lease has run out. The fix is made before that."
	s.does = append([]action{remember("leader", leader), remember("pod", leader+" | sed 's/_.*//'"),
		remember("container", inSystem+"get pod {{pod}} -o jsonpath='{.status.containerStatuses[0].containerID}'"),
		mark("kill"), node("kill", "{{container}}")}, s.does...)
	s.checks = append(s.checks, check{"another process leads, {{took}} after the kill", anotherLeads})
	return s
}

var upgraded = step{
	name: "Upgrade confrev",
	says: "The new version here has another log level, and a PodDisruptionBudget. Both replicas are replaced:",
	does: []action{remember("before", untouched), mark("upgrade"),
		does("helm upgrade confrev ../charts/confrev --namespace " + env.Namespace +
			" --reset-then-reuse-values --set log.level=debug --set podDisruptionBudget.enabled=true | grep STATUS"),
		until("both replicas are new and ready", replicas(2)), since("upgrade", "took"),
		until("the old ones are gone", fact{inSystem + "get pods -o name | wc -l", "2"}), does(inSystem + "get pods"), barrier},
	checks: []check{
		{"both replicas are new and ready, {{took}} after the start of helm upgrade",
			fact{inSystem + "get deployment confrev -o jsonpath='{.spec.template.spec.containers[0].args}' | grep -c log-level=debug", "1"}},
		{"no pod of web was replaced, no container started again", fact{untouched, "{{before}}"}},
	},
}

var drained = step{
	name: "Drain the node",
	says: `As for maintenance. It is the only node, so what is evicted has nowhere to go, and the PodDisruptionBudget keeps the second replica:`,
	does: []action{does("kubectl drain real --timeout=8s >drain.log 2>&1; grep -m 1 'disruption budget' drain.log"),
		// An eviction asks the kubelet to end a pod's containers, and kubectl drain does not wait longer for that than its timeout.
		until("no pod of web runs", noneRuns), until("one replica is ready", replicas(1)), does(webPods),
		func(s *stage) {
			s.claim(check{"no pod of web runs", noneRuns})
			s.claim(check{"one replica of confrev still does", replicas(1)})
		},
		does("kubectl uncordon real"), rolledOut("fixed"), until("both replicas are ready", replicas(2)), does(webPods)},
	checks: append([]check{{"all 3 pods mount {{fixed}} again", allMount("fixed")}}, onRealNode.read(3, onRealNode.fixed)...),
}

var uninstalled = step{
	name: "Uninstall confrev",
	says: `Revisions stay as long as what uses them: they are ordinary ConfigMaps with owners, and Kubernetes deletes them. A source that asks for
protection has a finalizer of confrev's. A Job, which Helm runs at the end, removes it:`,
	does: []action{does("kubectl create configmap kept --from-literal=a=b",
		`kubectl patch configmap kept -p '{"metadata":{"annotations":{"confrev.io/attach":"true","confrev.io/protect":"true"},"finalizers":["confrev.io/protect"]}}'`),
		remember("before", untouched), mark("uninstall"),
		does("helm uninstall confrev --namespace " + env.Namespace),
		until("confrev's pods are gone", fact{inSystem + "get pods -o name", ""}), since("uninstall", "took")},
	checks: []check{
		{"confrev is gone, {{took}} after the start of helm uninstall, and so is all that was not in a namespace", fact{
			"kubectl get clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingadmissionpolicies,mutatingadmissionpolicies," +
				"validatingadmissionpolicybindings,mutatingadmissionpolicybindings -o name | grep confrev; true", ""}},
		{"no pod of web was replaced, no container started again", fact{untouched, "{{before}}"}},
		{"nothing keeps the protected source from being deleted", fact{"kubectl get configmap kept -o jsonpath='{.metadata.finalizers}'", ""}},
		{"the pinned revision is there", fact{contentOf("{{fixed}}"), onRealNode.fixed}},
	},
}

var deleted = step{
	name: "Delete the workloads",
	says: "Kubernetes' garbage collector deletes their revisions with them.",
	does: []action{does(revisions, "kubectl delete deployments --all"),
		until("the garbage collector is through", fact{"kubectl get configmaps -l confrev.io/content -o name", ""})},
	checks: []check{
		{"no revision is left", fact{"kubectl get configmaps,secrets -l confrev.io/content -o name", ""}},
		{"the ConfigMap of the user is", fact{contentOf("web"), onRealNode.fixed}},
	},
}

var attached = step{
	name: "Without confrev: attach once, by a Job",
	says: `A deploy with a name of its own for each version of its ConfigMap, followed by the Job of docs/guide/attach-job.md with
the plugin's image:`,
	does: []action{in("job"), does("kubectl apply -f ."), remember("images", `helm show values ../charts/confrev | sed -n 's|^  repository: \(.*\)/confrev$|\1|p'`),
		does("sed 's|image: .*|image: {{images}}/kubectl-confrev:{{version}}|; s|--rollout=web, --configmaps=web-7, --secrets=web-7|--deployment=web, --configmaps=web-7|; " +
			"s/get, patch/get, patch, delete/' ../docs/examples/attach-job.yaml | kubectl apply -f -"),
		until("the Job is through", fact{"kubectl get job web-attach -o jsonpath='{.status.succeeded}'", "1"}), does("kubectl logs job/web-attach"),
		remember("newest", "kubectl get replicasets -l app=web -o jsonpath='{.items[*].metadata.name}'")},
	checks: []check{
		{"the ReplicaSet owns the ConfigMap", fact{"kubectl get configmap web-7 -o jsonpath='{.metadata.ownerReferences[*].name}'", "{{newest}}"}},
	},
}
