package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// shops is how many Deployments share the ConfigMap.
const shops = 40

// safetyStory is about contents that are wrong: each stops by itself.
var safetyStory = story{
	about: fmt.Sprintf(`%d Deployments share a ConfigMap whose changes spread. Three wrong contents stop by themselves and are rolled
back, a good one reaches everyone, and then the same is tried without confrev's settings. All of that takes about three minutes.`, shops),
	cluster: []string{env.ArgoRollouts},
	values:  []string{"failFast.enabled=true", "analysis.enabled=true"},
	flags:   []string{"--settle=500ms", "--fail-fast", "--analysis"},
	plugin:  true,
	steps: []step{
		shopsDeployed,
		wrong("a content that crashes", `Containers that read the next content crash. No container really runs here, so a simulated kubelet reports it.`, 2,
			[]action{crashing(2)}, []action{crashing(0)}, "container app crashed"),
		wrong("a content that never becomes ready", `Pods with the next content do not become ready. The Deployments have progressDeadlineSeconds: 5.`, 3,
			[]action{does(keepUnready("configmap/shop@3"))}, []action{does(keepUnready("none"))}, "it exceeded its progress deadline"),
		wrong("a content that is ready, and wrong", `Pods with the next content are ready, but the check of the AnalysisTemplate fails: it finds no node, and ends at its deadline.`, 4,
			[]action{does("sed 's/activeDeadlineSeconds: 60/activeDeadlineSeconds: 1/; s/linux/none/' analysis.yaml | kubectl apply -f -")},
			[]action{does("kubectl apply -f analysis.yaml")}, "its analysis error-rate failed"),
		goodContent, withoutSettings,
	},
}

// edited returns the action that writes a content.
func edited(content string) action {
	return does("sed -i 's/limits:.*/limits: \"" + content + "\"/' configmap.yaml; kubectl apply -f configmap.yaml")
}

// having returns the fact that so many Deployments have a revision by its number.
func having(number, count int) fact {
	return fact{`kubectl get deployments --no-headers -o custom-columns='P:.spec.template.metadata.annotations.confrev\.io/pins' | grep -c '@` + fmt.Sprint(number) + `$'`, fmt.Sprint(count)}
}

// reached returns the command that prints how many Deployments have ever had a revision, by their ReplicaSets.
func reached(number int) string {
	return fmt.Sprintf(`kubectl get replicasets --no-headers -o custom-columns='P:.spec.template.metadata.annotations.confrev\.io/pins' | grep -c '@%d$'`, number)
}

// podsReached returns the command that prints how many pods have ever had a revision, by the events of their creation.
func podsReached(number int) string {
	return fmt.Sprintf(`kubectl get events --field-selector reason=SuccessfulCreate --no-headers -o custom-columns=N:.involvedObject.name >../events; `+
		`kubectl get replicasets --no-headers -o custom-columns='N:.metadata.name,P:.spec.template.metadata.annotations.confrev\.io/pins' | awk '/@%d$/ {print $1}' | grep -c -x -F -f - ../events`, number)
}

var shopsDeployed = step{
	name: fmt.Sprintf("%d Deployments share a ConfigMap", shops),
	says: `The ConfigMap has the settings of "confrev.io/safety: careful": a change reaches one Deployment first, then a tenth, then half, then all, and
a tenth at a time. A Deployment must stay healthy for a while before it vouches: 2 s here, so that you need not wait for 5 min.`,
	does: []action{
		in("safety"), does("cat configmap.yaml", "kubectl apply -f configmap.yaml -f analysis.yaml",
			fmt.Sprintf("for i in $(seq -w %d); do sed s/NAME/shop-$i/ deployment.yaml; echo ---; done | kubectl apply -f - | tail -1", shops)),
		until("all are rolled out", fact{"kubectl get deployments --no-headers | awk '$2 == \"2/2\" && $3 == 2' | wc -l", fmt.Sprint(shops)}),
		until("all are pinned", having(1, shops)),
		until("their rollouts are complete", fact{`kubectl get deployments -o jsonpath='{range .items[*]}{.status.conditions[?(@.type=="Progressing")].reason}{"\n"}{end}' | grep -c NewReplicaSetAvailable`,
			fmt.Sprint(shops)}),
	},
	checks: []check{{fmt.Sprintf("all %d are pinned to revision 1", shops), having(1, shops)}},
}

// wrong returns the step of an edit that stops by itself.
func wrong(name, says string, number int, breaks, repairs []action, why string) step {
	content := fmt.Sprintf("wrong-%d", number)
	return step{
		name: name, says: says,
		does: append(append(append([]action{}, breaks...),
			mark("edit"), edited(content),
			until("the change stops", fact{`kubectl confrev status configmap/shop 2>/dev/null | grep -o 'is Stopped' | head -1`, "is Stopped"}),
			until("no one has it", having(1, shops)), since("edit", "took"),
			until("all are rolled out", fact{"kubectl get deployments --no-headers | awk '$2 == \"2/2\" && $3 == 2' | wc -l", fmt.Sprint(shops)}),
			remember("reached", reached(number)), remember("pods", podsReached(number)),
			does("kubectl get events --field-selector reason=ChangeFailed --no-headers -o custom-columns=M:.note,N:.message | tail -1 | cut -c1-150")),
			repairs...),
		checks: []check{
			{"the reason is reported: " + why, fact{"kubectl get events --field-selector reason=ChangeFailed -o jsonpath='{range .items[*]}{.message}{\"\\n\"}{end}' | grep -c '" + fmt.Sprintf("revision %d of configmap/shop failed: %s", number, why) + "'", "1"}},
			{fmt.Sprintf("{{reached}} of %d Deployments and {{pods}} of %d pods ever had it; all pins were back {{took}} after the edit", shops, 2*shops), fact{"echo {{reached}}", "1"}},
			{"no one did anything", fact{"kubectl get configmap shop -o jsonpath='{.metadata.annotations.confrev\\.io/stop}{.metadata.annotations.confrev\\.io/resume}'", ""}},
		},
	}
}

var goodContent = step{
	name: "a good content reaches everyone, in order",
	does: []action{
		mark("edit"), edited("good"),
		does("kubectl confrev status configmap/shop --wait --timeout=5m | tail -3"), since("edit", "took"),
	},
	checks: []check{
		{fmt.Sprintf("all %d have it, after {{took}}", shops), having(5, shops)},
		{"one took it first, then three, then sixteen, then the rest", fact{
			`kubectl get deployments --no-headers -o custom-columns='N:.metadata.name,A:.metadata.annotations.confrev\.io/advanced' | ` +
				`sed 's/shop-0*\([0-9]*\) .*"at":"\([^"]*\)".*/\2 \1/' | sort -s -k1,1 | awk '{print $2 == 1 ? 1 : $2 <= 4 ? 2 : $2 <= 20 ? 3 : 4}' | uniq | xargs`, "1 2 3 4"}},
		{"each was analyzed by Argo Rollouts", fact{"kubectl get analysisruns --no-headers | awk '$2 == \"Successful\"' | awk '{sub(/-error-rate.*/, \"\", $1); print $1}' | sort -u | wc -l", fmt.Sprint(shops)}},
	},
}

var withoutSettings = step{
	name: "the same without the settings",
	says: "Without them, a change is a native rollout of each Deployment, as with any tool that restarts workloads, and all begin at once:",
	does: []action{
		does("kubectl annotate configmap shop confrev.io/steps- confrev.io/max-rolling- confrev.io/bake- confrev.io/on-failure-; sed -i '/annotations:/d; /confrev.io/d' configmap.yaml"),
		crashing(6), mark("edit"), edited("wrong-6"), until("all have it", fact{reached(6), fmt.Sprint(shops)}), since("edit", "took"),
		remember("reached", reached(6)), crashing(0),
	},
	checks: []check{{fmt.Sprintf("the content that crashes reached {{reached}} of %d Deployments within {{took}}", shops), fact{"echo {{reached}}", fmt.Sprint(shops)}}},
}

// crashing makes containers crash twice that read a revision by its number, as a kubelet would report it; 0 ends that.
func crashing(number int) action {
	return func(s *stage) {
		if s.crashes != nil {
			s.crashes()
			s.crashes = nil
		}
		if number == 0 {
			return
		}
		ctx, stop := context.WithCancel(s.ctx)
		ended := make(chan struct{})
		s.crashes = func() { stop(); <-ended }
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				crashAll(ctx, s, fmt.Sprintf("@%d", number))
				time.Sleep(100 * time.Millisecond)
			}
		}()
	}
}

// crashAll reports a crash for the containers of all pods whose pins end so. What cannot be written now is written next time.
func crashAll(ctx context.Context, s *stage, pins string) {
	pods := &corev1.PodList{}
	if err := s.Cluster.Client.List(ctx, pods, client.InNamespace(s.NS)); err != nil {
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !strings.HasSuffix(pod.Annotations[keys.Pins], pins) || len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].RestartCount > 0 || pod.DeletionTimestamp != nil {
			continue
		}
		before := client.MergeFrom(pod.DeepCopy())
		status := &pod.Status.ContainerStatuses[0]
		status.Ready, status.RestartCount = false, 1
		status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		status.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", FinishedAt: metav1.Now()}}
		for j := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[j]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
				c.Status = corev1.ConditionFalse
			}
		}
		if err := s.Cluster.Client.Status().Patch(ctx, pod, before); err != nil {
			continue
		}
	}
}
