package main

import (
	"fmt"
	"syscall"

	appsv1 "k8s.io/api/apps/v1"

	"confrev.io/confrev/internal/pin"
)

// webTale is about a Deployment.
var webTale = tale{
	about: `eight steps show what happens to one Deployment and its ConfigMap. All of that takes less than a minute;`,
	tell: func(s *story) error {
		s.folder, s.subject = "web", deployment("web")
		return (&webStory{story: s}).tell()
	},
	hints: `  kubectl get configmaps -l confrev.io/source=web --show-labels   # the ConfigMap and its revisions
  vi configmap.yaml && kubectl apply -f .                         # rolls forward
  kubectl rollout undo deployment/web                             # rolls back, and holds`,
}

// webStory is what happens to Deployment web.
type webStory struct {
	*story

	// The revisions of the steps, by what they are in the story.
	first, good, faulty pin.Pin
}

// The contents of index.html in the order in which the user writes them. The first is that of web/configmap.yaml.
const (
	pageFirst  = "<h1>Hello, version 1</h1>"
	pageGood   = "<h1>Hello, version 2</h1>"
	pageFaulty = "<h1>Hello, {{ .Version"
	pageFixed  = "<h1>Hello, version 3</h1>"
	pageFourth = "<h1>Hello, version 4</h1>"
	pageFifth  = "<h1>Hello, version 5</h1>"
)

// tell tells the story.
func (s *webStory) tell() error {
	steps := []step{
		{"A Deployment reads a ConfigMap", s.deploy},
		{"Edit the ConfigMap", s.edit},
		{"A faulty edit gets stuck half-way", s.faultyEdit},
		{"A spot node goes away in mid-rollout", s.loseOldPod},
		{"The same while confrev is down", s.loseOldPodWithoutConfrev},
		{"Undo the rollout: the configuration comes back too", s.undo},
		{"Fix the ConfigMap", s.fix},
		{"Old revisions go with their ReplicaSets", s.prune},
	}
	return s.story.tell(steps)
}

// apply applies the user's ConfigMap with another page, and waits until Deployment web is pinned to a revision with it.
func (s *webStory) apply(page string) pin.Pin {
	s.write(fmt.Sprintf("configmap.yaml now has index.html: %q", page), pageFirst, page)
	s.kubectl("apply", "-f", "configmap.yaml")
	return s.awaitPinned(page)
}

// awaitRollout waits until all pods read a revision and the Deployment controller has nothing left to do.
func (s *webStory) awaitRollout(p pin.Pin) {
	s.await("the pods are replaced", all(p), s.pods)
	s.await("the rollout is complete", rolledOut, s.rollout)
}

// all are the counts when the three pods read one revision.
func all(p pin.Pin) string { return describe(map[string]counts{p.Revision: {ready: 3}}) }

// halfWay are the counts while the faulty rollout is stuck.
func (s *webStory) halfWay() string {
	return describe(map[string]counts{s.good.Revision: {ready: 2}, s.faulty.Revision: {unready: 2}})
}

func (s *webStory) deploy() {
	s.say(`nginx, three times, with its page in ConfigMap "web" and the annotation confrev.io/track: all.
The files are ordinary ones: %s.`, s.files())
	s.kubectl("apply", "-f", ".")
	s.first = s.awaitPinned(pageFirst)
	s.awaitRollout(s.first)

	s.say("\nconfrev copied the ConfigMap into an immutable revision, %s, and noted it as a pin on the pod template.", s.first.Revision)
	s.showDeployment()
	s.showPods()
	if s.countReplicaSets() > 1 {
		s.out.note("Kubernetes had made a ReplicaSet before there was a pin; it was replaced at once and has no pods any more.")
	}
	s.claim("all 3 pods mount revision "+s.first.Revision, all(s.first), s.pods)
	s.claim(`the manifest still says "web"`, "web", s.manifestSays)
}

func (s *webStory) edit() {
	sets, generationBefore := s.countReplicaSets(), s.readGeneration()
	s.say(`Change the page and apply the file: that is all that the user does. confrev waits 2 s for further changes, which
would go into the same rollout.`)
	s.good = s.apply(pageGood)
	s.awaitRollout(s.good)

	s.say("\nOne edit was one native rolling update, as for a new image:")
	s.showReplicaSets()
	s.await("confrev has said so", "event RolledForward", s.event("RolledForward"))
	s.showEvents("RolledForward")
	s.claim("exactly one new ReplicaSet, by one change of the Deployment", replicaSets(sets+1)+", "+generation(generationBefore+1),
		both(s.replicaSets, s.generation))
	s.claim("all 3 pods mount revision "+s.good.Revision, all(s.good), s.pods)

	s.say("\nThe user's files and the cluster do not differ, so neither kubectl apply nor a GitOps tool fights confrev:")
	seen := s.kubectl("diff", "-f", ".")
	s.claim("kubectl diff is empty", "", func() (string, error) { return seen, nil })
}

func (s *webStory) faultyEdit() {
	if s.err != nil {
		return
	}
	s.say(`Now an edit with a mistake. No container really runs here, so the simulated nodes are told that pods with the
next revision do not become ready; with real nodes the pods' readiness probes would find out.`)
	s.kubectl("patch", "stage", "pod-unready", "--type=json", "-p", unreadyPatch(fmt.Sprintf("configmap/web@%d", s.good.Number+1)))
	s.faulty = s.apply(pageFaulty)
	s.await("the rollout is stuck", s.halfWay(), s.pods)

	s.say("\nKubernetes stops the rollout by itself: old and new pods run side by side (maxSurge 1, maxUnavailable 1).")
	s.showPods()
	s.claim("2 old pods serve the good page, 2 new pods with the faulty one are not ready", s.halfWay(), s.pods)
}

func (s *webStory) loseOldPod() {
	s.say(`The ConfigMap says the faulty content by now, so with plain Kubernetes an old pod that must be replaced would start
with the faulty page, and the last good pods would go one by one. Here, one of them is deleted:`)
	s.losePod(s.good.Revision, s.halfWay(), pageGood)
}

func (s *webStory) loseOldPodWithoutConfrev() {
	s.say("confrev is not in a pod's way: the API server itself resolves pins (MutatingAdmissionPolicy). So stop confrev, for real.")
	s.withoutConfrev(syscall.SIGTERM, func() { s.losePod(s.good.Revision, s.halfWay(), pageGood) })
}

func (s *webStory) undo() {
	s.say("The old configuration comes back as an old image would; nobody has to remember what the ConfigMap said before.")
	s.kubectl("rollout", "undo", "deployment/web")
	s.awaitRollout(s.good)
	s.await("confrev has noted it", "event Held", s.event("Held"))
	s.showPods()
	s.claim("all 3 pods mount revision "+s.good.Revision, all(s.good), s.pods)

	s.say("\nThe ConfigMap still says the faulty content. confrev sees that this content was rolled back from, and holds:")
	s.kubectl("get", "configmap", "web", "-o", `jsonpath={.data.index\.html}`)
	s.showEvents("Held")
	s.say("\nNor does applying the same files again end it: kubectl's warning above is about fields that the files have; pins are not.")
	seen := s.kubectl("apply", "-f", ".")
	s.claim("applying them changes nothing", "configmap/web unchanged\ndeployment.apps/web unchanged\n",
		func() (string, error) { return seen, nil })
	s.barrier()
	s.claim("the ConfigMap has the faulty page", pageFaulty, s.page("web"))
	s.claim("Deployment web stays pinned to "+s.good.String(), s.good.String(), s.pinned)
	s.claim("and its pods stay", all(s.good), s.pods)
}

func (s *webStory) fix() {
	if s.err == nil {
		// Nothing runs that revision any more, and the list would hold for other namespaces too.
		s.err = s.listUnready(s.ctx, "none")
	}
	s.say("The next change of the ConfigMap ends the hold: nothing has to be switched on again.")
	fixed := s.apply(pageFixed)
	s.awaitRollout(fixed)
	s.showPods()
	s.showDeployment()
	s.claim("all 3 pods mount the new revision "+fixed.Revision, all(fixed), s.pods)
	s.claim("the hold is over", noNote, s.note)
}

func (s *webStory) prune() {
	s.say(`Each revision is owned by the ReplicaSets that pin it, so revisionHistoryLimit bounds both. There are now:`)
	s.showRevisions()
	s.say("\nKeep one old ReplicaSet only, and edit twice:")
	s.kubectl("patch", "deployment", "web", "-p", `{"spec":{"revisionHistoryLimit":1}}`)
	fourth := s.apply(pageFourth)
	s.awaitRollout(fourth)
	fifth := s.apply(pageFifth)
	s.awaitRollout(fifth)
	left := names(fourth.Revision, fifth.Revision)
	s.await("what no ReplicaSet pins is gone", left, s.copies)
	s.showRevisions()
	s.claim("two ReplicaSets are left", replicaSets(2), s.replicaSets)
	s.claim("and their two revisions; confrev deleted the rest", left, s.copies)
	s.claim(`the ConfigMap "web" itself is untouched`, pageFifth, s.page("web"))
}

func (s *webStory) countReplicaSets() int {
	all := &appsv1.ReplicaSetList{}
	if s.err == nil {
		s.err = s.list(all)
	}
	return len(all.Items)
}

func (s *webStory) readGeneration() int64 {
	if s.err != nil {
		return 0
	}
	d, err := s.workload(s.subject)
	s.err = err
	return d.GetGeneration()
}

func (s *webStory) generation() (string, error) {
	d, err := s.workload(s.subject)
	return generation(d.GetGeneration()), err
}

func generation(n int64) string { return fmt.Sprintf("generation %d", n) }

const rolledOut = "rolled out"

// rollout tells whether the Deployment controller is through with Deployment web.
func (s *webStory) rollout() (string, error) {
	d := &appsv1.Deployment{}
	if err := s.object("web", d); err != nil {
		return "", err
	}
	want, is := *d.Spec.Replicas, d.Status
	if is.ObservedGeneration < d.Generation || is.UpdatedReplicas != want || is.Replicas != want || is.AvailableReplicas != want {
		return fmt.Sprintf("%d of %d pods updated, %d available", is.UpdatedReplicas, want, is.AvailableReplicas), nil
	}
	return rolledOut, nil
}

func (s *webStory) showDeployment() { s.get("deployments", "web") }

func (s *webStory) showReplicaSets() {
	s.get("replicasets", "-l", "app=web", "--sort-by=.metadata.creationTimestamp")
}

func (s *webStory) showRevisions() { s.get("configmaps", "-l", "confrev.io/source=web") }
