package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/keys"
)

// canaryTale is about a Rollout whose canary is faulty. It is told twice, once for each way to give it configuration.
var canaryTale = tale{
	verb: []string{"canary"},
	about: `the real Argo Rollouts controller takes a Rollout of five pods through a faulty canary: once with revisions of an
edited ConfigMap, once with ConfigMaps that the user names. All of that takes little more than a minute;`,
	rollouts: true,
	flags:    []string{"--grace=" + grace},
	tell: func(s *story) error {
		s.subject = subject{schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}, "app"}
		edited, named := &canaryStory{story: s}, &canaryStory{story: s}
		edited.way, named.way = &revisionsWay{edited}, &attachWay{canaryStory: named}
		return s.tell(append(edited.steps(), named.steps()...))
	},
	hints: `  kubectl apply -f ../canary                                      # (or ../attach) deploys it again
  kubectl argo rollouts get rollout app --watch
  kubectl argo rollouts promote app                               # also: abort, retry, undo`,
}

// grace is for how long confrev keeps what nobody uses any more. It is minutes unless somebody says otherwise, and nobody
// wants to watch that.
const grace = "5s"

// The contents of GREETING in the order in which the user writes them. The first is that of the files.
const (
	greetingFirst  = "Hello, version 1"
	greetingFaulty = "Hello, {{ .Version"
	greetingFixed  = "Hello, version 2"
	greetingLast   = "Hello, version 3"
)

// canaryStory is what happens to Rollout app.
type canaryStory struct {
	*story
	way way
	// image is the one that the user's file has.
	image string

	// The ConfigMaps that pods read, by what they are in the story.
	stable, faulty, fixed, last string
}

// way is how the user gives the Rollout its configuration: all that differs between the two tellings.
type way interface {
	// name begins the titles of the steps.
	name() string
	// deploy makes the Rollout with its first configuration. Like change, it gives the ConfigMap that new pods read.
	deploy() string
	// change changes the configuration as the user would.
	change(page string) string
	// listNext is what the list of unready pods says of pods with the configuration to come.
	listNext() string
	// label is one that the Rollout's ConfigMaps have.
	label() string
	// inMidCanary are steps that happen in mid-canary, before pods are lost.
	inMidCanary() []step
	// pruning says more of what goes with ReplicaSets.
	pruning() string
	// undone says and claims what there is to say after an undo.
	undone()
	// deleted says and claims what there is to say after the Rollout's deletion.
	deleted()
}

func (c *canaryStory) steps() []step {
	steps := slices.Concat([]step{
		{"a Rollout reads a ConfigMap, by a volume and by envFrom", c.deploy},
		{"a faulty change becomes a faulty canary", c.faultyChange},
	}, c.way.inMidCanary(), []step{
		{"two spot nodes go away in mid-canary", c.losePods},
		{"a third one goes while confrev is down", c.losePodWithoutConfrev},
		{"abort the canary: the stable pods are not touched", c.abort},
		{"fix the configuration, and promote it", c.fix},
		{"old configuration goes with its ReplicaSets", c.prune},
		{"undo: the configuration comes back too", c.undo},
		{"with the Rollout, everything goes", c.remove},
	})
	for i := range steps {
		steps[i].title = c.way.name() + ": " + steps[i].title
	}
	return steps
}

// all are the counts when the five pods read one ConfigMap.
func (c *canaryStory) all(configMap string) string {
	return describe(map[string]counts{configMap: {ready: 5}})
}

// one are the counts in mid-canary: four old pods, and one new one.
func (c *canaryStory) one(from, to string, canary counts) string {
	return describe(map[string]counts{from: {ready: 4}, to: canary})
}

// stuck are the counts while the faulty canary is out.
func (c *canaryStory) stuck() string { return c.one(c.stable, c.faulty, counts{unready: 1}) }

func (c *canaryStory) deploy() {
	c.image = "app:1"
	c.stable = c.way.deploy()
	c.await("Argo Rollouts has nothing left to do by itself", atRest, c.rest)
	if phase, err := c.phase(); c.err == nil && err == nil && phase == "Paused" {
		c.out.note(`Argo Rollouts made a ReplicaSet before there was a pin, and calls it stable already, since simulated pods are
ready at once. So the first pin is a canary, too.`)
		c.promote(c.stable)
	}
	c.await("the pods are there", c.all(c.stable), c.pods)
	c.showRollout()
	c.showPods()
	c.claim("all 5 pods read "+c.stable+", by the volume and by envFrom", c.all(c.stable), c.pods)
	c.claimOwned(c.stable)
}

func (c *canaryStory) faultyChange() {
	if c.err != nil {
		return
	}
	c.say(`Now a change with a mistake. No container really runs here, so the simulated nodes are told that pods with the
next configuration do not become ready; with real nodes the pods' readiness probes would find out.`)
	c.kubectl("patch", "stage", "pod-unready", "--type=json", "-p", unreadyPatch(c.way.listNext()))
	c.faulty = c.way.change(greetingFaulty)
	c.await("the canary is there", c.stuck(), c.pods)

	c.say("\nThe steps of the Rollout are setWeight: 20 and a pause, so one pod of five gets it:")
	c.showRollout()
	c.showPods()
	c.claim("the canary reads "+c.faulty+", and is not ready; 4 pods read "+c.stable, c.stuck(), c.pods)
	c.claimOwned(c.faulty)
}

func (c *canaryStory) losePods() {
	c.say(`The canary goes on while somebody looks into it. Meanwhile nodes come and go, so stable pods are replaced, and the
replacements must not be canaries as well:`)
	for range 2 {
		c.losePod(c.stable, c.stuck(), greetingFirst)
	}
}

func (c *canaryStory) losePodWithoutConfrev() {
	c.say("confrev is not in a pod's way. End it the hard way, and lose one more:")
	c.withoutConfrev(syscall.SIGKILL, func() { c.losePod(c.stable, c.stuck(), greetingFirst) })
}

func (c *canaryStory) abort() {
	before := c.podsWith(c.stable)
	c.kubectl("argo", "rollouts", "abort", "app")
	c.await("stable is back at 5 pods", c.all(c.stable), c.pods)
	c.showRollout()
	c.showPods()
	c.claim("the 4 stable pods are the same ones, and a fifth is there", "all there", c.stillThere(before))
	c.claim("the canary's ReplicaSet has no pods", "0 pods", c.podsWanted(c.faulty))
	c.claim("Argo Rollouts says that the Rollout is degraded: its template is not what runs", "Degraded", c.phase)
	c.barrier()
	c.claim("confrev leaves it at that: all pods read "+c.stable, c.all(c.stable), c.pods)
	c.claim("the aborted configuration stays as long as its ReplicaSet, for a retry", names(c.stable, c.faulty), c.copies)
}

func (c *canaryStory) fix() {
	if c.err == nil {
		// The list would hold for other namespaces, too.
		c.err = c.listUnready(c.ctx, "none")
	}
	c.fixed = c.way.change(greetingFixed)
	c.await("the canary is there", c.one(c.stable, c.fixed, counts{ready: 1}), c.pods)
	c.await("Argo Rollouts pauses", "Paused", c.phase)
	c.showPods()
	c.claim("the canary reads "+c.fixed+", and is ready", c.one(c.stable, c.fixed, counts{ready: 1}), c.pods)

	c.say("\nIt looks good, so:")
	c.promote(c.fixed)
	c.showPods()
	c.claim("all 5 pods read "+c.fixed, c.all(c.fixed), c.pods)
}

func (c *canaryStory) prune() {
	c.say(`revisionHistoryLimit is 2, for configuration as for ReplicaSets. Argo Rollouts prunes the ReplicaSet that is the
oldest. There are now:`)
	c.showConfigMaps()
	c.say("\nEach new image pushes one old ReplicaSet out:%s", c.way.pruning())
	for i, step := range []struct {
		claim string
		left  []string
	}{
		{c.stable + " went with its ReplicaSet", []string{c.faulty, c.fixed}},
		{c.faulty + ", the aborted one, went with its ReplicaSet", []string{c.fixed}},
		{c.fixed + " stays, although the ReplicaSet that brought it is gone: others share it", []string{c.fixed}},
	} {
		c.newImage(fmt.Sprintf("app:%d", i+2))
		c.await("confrev and the garbage collector are through", names(step.left...), c.copies)
		c.await("the ReplicaSet is pruned", replicaSets(3), c.replicaSets)
		c.claim(step.claim, names(step.left...), c.copies)
	}
	c.showConfigMaps()
	c.claimOwned(c.fixed)
}

// newImage rolls out another image with the same configuration.
func (c *canaryStory) newImage(image string) {
	c.image = image
	c.kubectl("argo", "rollouts", "set", "image", "app", "app="+image)
	c.await("the canary is there", "Paused", c.phase)
	c.promote(c.fixed, "--full")
}

func (c *canaryStory) undo() {
	c.say("One more change, all the way:")
	c.last = c.way.change(greetingLast)
	c.await("the canary is there", "Paused", c.phase)
	c.promote(c.last, "--full")
	c.say("\nSomebody finds it wanting, and goes back. For Argo Rollouts that is a canary again, and nothing special:")
	c.kubectl("argo", "rollouts", "undo", "app")
	c.await("the canary is there", c.one(c.last, c.fixed, counts{ready: 1}), c.pods)
	c.await("Argo Rollouts pauses", "Paused", c.phase)
	c.promote(c.fixed)
	c.showPods()
	c.claim("all 5 pods read "+c.fixed+" again", c.all(c.fixed), c.pods)
	c.way.undone()
	c.claim("and the pods stay", c.all(c.fixed), c.pods)
}

func (c *canaryStory) remove() {
	c.kubectl("delete", "rollout", "app")
	c.await("the garbage collector is through", names(), c.copies)
	c.showConfigMaps()
	c.claim("nothing is left that a pod of the Rollout read", names(), c.copies)
	c.await("the pods are gone", "", c.pods)
	c.way.deleted()
}

// promote lets a canary go on, and waits until all pods read a ConfigMap and Argo Rollouts has nothing left to do.
func (c *canaryStory) promote(configMap string, flags ...string) {
	c.kubectl(append([]string{"argo", "rollouts", "promote", "app"}, flags...)...)
	c.await("the rollout is complete", "Healthy", c.phase)
	c.await("the pods are replaced", c.all(configMap), c.pods)
}

// phase gives what Argo Rollouts says of the Rollout as it is now: Healthy, Paused, Progressing or Degraded.
func (c *canaryStory) phase() (string, error) {
	rollout, err := c.workload(c.subject)
	if err != nil {
		return "", err
	}
	observed, _, _ := unstructured.NestedString(rollout.Object, "status", "observedGeneration")
	phase, _, _ := unstructured.NestedString(rollout.Object, "status", "phase")
	if observed != strconv.FormatInt(rollout.GetGeneration(), 10) {
		return "not seen yet", nil
	}
	return phase, nil
}

const atRest = "at rest"

// rest tells whether Argo Rollouts waits for nothing but people.
func (c *canaryStory) rest() (string, error) {
	phase, err := c.phase()
	if phase == "Healthy" || phase == "Paused" {
		return atRest, err
	}
	return phase, err
}

// stillThere tells whether pods are still there, and are not on their way out.
func (c *canaryStory) stillThere(wanted []string) look {
	return func() (string, error) {
		all := &corev1.PodList{}
		if err := c.list(all); err != nil {
			return "", err
		}
		missing := slices.Clone(wanted)
		for _, pod := range all.Items {
			if pod.DeletionTimestamp == nil {
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == pod.Name })
			}
		}
		if len(missing) > 0 {
			return "gone: " + names(missing...), nil
		}
		return "all there", nil
	}
}

// uses tells whether the pods of a ReplicaSet read a ConfigMap: by a pin, or since the template names it.
func uses(set *appsv1.ReplicaSet, configMap string) bool {
	return strings.Contains(set.Spec.Template.Annotations[keys.Pins], "="+configMap+"@") || reads(set.Spec.Template.Spec) == configMap
}

// users are the ReplicaSets whose pods read a ConfigMap.
func (c *canaryStory) users(configMap string) ([]appsv1.ReplicaSet, error) {
	all := &appsv1.ReplicaSetList{}
	err := c.list(all)
	return slices.DeleteFunc(all.Items, func(set appsv1.ReplicaSet) bool { return !uses(&set, configMap) }), err
}

// podsWanted counts the pods that the ReplicaSets with a ConfigMap shall have.
func (c *canaryStory) podsWanted(configMap string) look {
	return func() (string, error) {
		sets, err := c.users(configMap)
		wanted := 0
		for _, set := range sets {
			wanted += int(*set.Spec.Replicas)
		}
		return fmt.Sprintf("%d pods", wanted), err
	}
}

const ownedByUsers = "owned by the Rollout and by each of its ReplicaSets that use it"

// claimOwned claims that a ConfigMap goes with the last of its users, and not before.
func (c *canaryStory) claimOwned(configMap string) {
	c.await("confrev has made its users the owners", ownedByUsers, c.owned(configMap))
	c.claim(configMap+" is "+ownedByUsers, ownedByUsers, c.owned(configMap))
}

// owned tells whether the owners of a ConfigMap are the Rollout and the ReplicaSets that use it.
func (c *canaryStory) owned(configMap string) look {
	return func() (string, error) {
		cm := &corev1.ConfigMap{}
		if err := c.object(configMap, cm); err != nil {
			return "", err
		}
		sets, err := c.users(configMap)
		if err != nil {
			return "", err
		}
		want := []string{"Rollout/app"}
		for _, set := range sets {
			want = append(want, "ReplicaSet/"+set.Name)
		}
		var have []string
		for _, owner := range cm.OwnerReferences {
			have = append(have, owner.Kind+"/"+owner.Name)
		}
		if names(have...) != names(want...) {
			return fmt.Sprintf("owned by %s, used by %s", names(have...), names(want...)), nil
		}
		return ownedByUsers, nil
	}
}

func (c *canaryStory) showRollout() {
	c.kubectl("argo", "rollouts", "get", "rollout", "app", "--no-color")
}

func (c *canaryStory) showConfigMaps() { c.get("configmaps", "-l", c.way.label()) }
