package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/env"
)

// story is what the demo tells, and how far it came. After the first error all its methods do nothing, so that a step
// reads from top to bottom.
type story struct {
	ctx         context.Context
	out         *printer
	place       place
	began       time.Time
	cluster     *env.Cluster
	kubectlPath string
	binary      string
	confrev     *process
	err         error

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
func (s *story) tell() error {
	s.createOther()
	steps := []struct {
		title string
		tell  func()
	}{
		{"A Deployment reads a ConfigMap", s.deploy},
		{"Edit the ConfigMap", s.edit},
		{"A faulty edit gets stuck half-way", s.faultyEdit},
		{"A spot node goes away in mid-rollout", s.loseOldPod},
		{"The same while confrev is down", s.loseOldPodWithoutConfrev},
		{"Undo the rollout: the configuration comes back too", s.undo},
		{"Fix the ConfigMap", s.fix},
		{"Old revisions go with their ReplicaSets", s.prune},
	}
	for i, step := range steps {
		if s.err != nil {
			break
		}
		s.out.blank()
		s.out.title(fmt.Sprintf("%d/%d  %s  (at %s)", i+1, len(steps), step.title, seconds(time.Since(s.began))))
		step.tell()
	}
	return s.err
}

// say tells the user something, with what the API server said so far.
func (s *story) say(format string, args ...any) {
	if s.err == nil {
		s.out.say(format, args...)
	}
}

// write changes the page in the user's file.
func (s *story) write(page string) {
	if s.err != nil {
		return
	}
	text := strings.ReplaceAll(configMapYAML(), pageFirst, page)
	s.out.note("configmap.yaml now has index.html: %q", page)
	s.err = os.WriteFile(filepath.Join(s.place.manifests(), "configmap.yaml"), []byte(text), 0o600)
}

func configMapYAML() string {
	text, err := userFiles.ReadFile("web/configmap.yaml")
	if err != nil {
		panic(err) // embedded
	}
	return string(text)
}

// apply applies the user's ConfigMap with another page, and waits until Deployment web is pinned to a revision with it.
func (s *story) apply(page string) pin.Pin {
	s.write(page)
	s.kubectl("apply", "-f", "configmap.yaml")
	return s.awaitPinned(page)
}

func (s *story) awaitPinned(page string) pin.Pin {
	s.await("confrev has pinned a revision with that content", page, s.pinnedPage("web"))
	var p pin.Pin
	if s.err == nil {
		p, s.err = s.pinOf("web")
	}
	return p
}

// awaitRollout waits until all pods read a revision and the Deployment controller has nothing left to do.
func (s *story) awaitRollout(p pin.Pin) {
	s.await("the pods are replaced", all(p), s.pods)
	s.await("the rollout is complete", rolledOut, s.rollout)
}

// all are the counts when the three pods read one revision.
func all(p pin.Pin) string { return describe(map[string]counts{p.Revision: {ready: 3}}) }

// halfWay are the counts while the faulty rollout is stuck.
func (s *story) halfWay() string {
	return describe(map[string]counts{s.good.Revision: {ready: 2}, s.faulty.Revision: {unready: 2}})
}

func (s *story) deploy() {
	s.say(`nginx, three times, with its page in ConfigMap "web" and the annotation confrev.io/track: all.
The files are ordinary ones: %s.`, s.place.manifests())
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
	s.claim(`the manifest still says "web"`, "web", func() (string, error) {
		d := &appsv1.Deployment{}
		err := s.object("web", d)
		return mounts(&corev1.Pod{Spec: d.Spec.Template.Spec}), err
	})
}

func (s *story) edit() {
	sets, d := s.countReplicaSets(), &appsv1.Deployment{}
	s.read("web", d)
	s.say(`Change the page and apply the file: that is all that the user does. confrev waits 2 s for further changes, which
would go into the same rollout.`)
	s.good = s.apply(pageGood)
	s.awaitRollout(s.good)

	s.say("\nOne edit was one native rolling update, as for a new image:")
	s.showReplicaSets()
	s.await("confrev has said so", "event RolledForward", s.event("RolledForward"))
	s.showEvents("RolledForward")
	s.claim("exactly one new ReplicaSet, by one change of the Deployment", replicaSets(sets+1)+", "+generation(d.Generation+1),
		both(s.replicaSets, s.generation))
	s.claim("all 3 pods mount revision "+s.good.Revision, all(s.good), s.pods)

	s.say("\nThe user's files and the cluster do not differ, so neither kubectl apply nor a GitOps tool fights confrev:")
	seen := s.kubectl("diff", "-f", ".")
	s.claim("kubectl diff is empty", "", func() (string, error) { return seen, nil })
}

// both looks at two things.
func both(a, b look) look {
	return func() (string, error) {
		first, err := a()
		if err != nil {
			return "", err
		}
		second, err := b()
		return first + ", " + second, err
	}
}

func (s *story) faultyEdit() {
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

// deleteOldPod deletes a pod of the old ReplicaSet and waits for its replacement.
func (s *story) deleteOldPod() {
	old := s.podWith(s.good.Revision)
	s.kubectl("delete", "pod", old)
	s.await("the pod is replaced", s.halfWay(), s.pods)
	s.showPods()
	s.claim("pod "+old+" is gone", "gone", s.podGone(old))
	s.claim("its replacement mounts the old revision "+s.good.Revision, s.halfWay(), s.pods)
	s.claim("that revision still has the good page", pageGood, s.page(s.good.Revision))
}

func (s *story) loseOldPod() {
	s.say(`The ConfigMap says the faulty content by now, so with plain Kubernetes an old pod that must be replaced would start
with the faulty page, and the last good pods would go one by one. Here, one of them is deleted:`)
	s.deleteOldPod()
}

func (s *story) loseOldPodWithoutConfrev() {
	if s.err != nil {
		return
	}
	s.say("confrev is not in a pod's way: the API server itself resolves pins (MutatingAdmissionPolicy). So stop confrev, for real.")
	pid := s.place.livePid()
	s.out.command(fmt.Sprintf("kill -TERM %d", pid))
	_, s.err = s.place.stop(s.ctx)
	s.claim("confrev has ended", "pid 0", func() (string, error) { return fmt.Sprintf("pid %d", s.place.livePid()), nil })
	s.deleteOldPod()
	s.restart()
}

// restart starts confrev again and claims that it moves nothing.
func (s *story) restart() {
	if s.err != nil {
		return
	}
	before, err := s.identities()
	if s.err = err; err != nil {
		return
	}
	mark, err := s.cluster.AuditNow()
	if s.err = err; err != nil {
		return
	}
	s.say("\nStart confrev again; it finds everything as it should be.")
	s.err = s.confrev.start(s.ctx)
	s.claim("confrev runs", "ready", func() (string, error) {
		if s.confrev.ready(s.ctx) {
			return "ready", nil
		}
		return "not ready", nil
	})
	s.barrier()
	s.claim("nothing moved: the same generation, ReplicaSets and pods", before, s.identities)
	s.claim("confrev wrote nothing, by the API server's audit log, but for what that other ConfigMap needs", "no writes",
		s.writesSince(mark))
}

func (s *story) undo() {
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

func (s *story) fix() {
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
	s.claim("the hold is over", "no note", func() (string, error) {
		d := &appsv1.Deployment{}
		err := s.object("web", d)
		if note, held := d.Annotations[keys.Held]; held {
			return note, err
		}
		return "no note", err
	})
}

func (s *story) prune() {
	s.say(`Each revision is owned by the ReplicaSets that pin it, so revisionHistoryLimit bounds both. There are now:`)
	s.showRevisions()
	s.say("\nKeep one old ReplicaSet only, and edit twice:")
	s.kubectl("patch", "deployment", "web", "-p", `{"spec":{"revisionHistoryLimit":1}}`)
	fourth := s.apply(pageFourth)
	s.awaitRollout(fourth)
	fifth := s.apply(pageFifth)
	s.awaitRollout(fifth)
	s.await("the garbage collector is through", revisions(fourth.Revision, fifth.Revision), s.revisions)
	s.showRevisions()
	s.claim("two ReplicaSets are left", replicaSets(2), s.replicaSets)
	s.claim("and their two revisions; Kubernetes' garbage collector removed the rest", revisions(fourth.Revision, fifth.Revision), s.revisions)
	s.claim(`the ConfigMap "web" itself is untouched`, pageFifth, s.page("web"))
}

// podGone tells whether a pod is gone.
func (s *story) podGone(name string) look {
	return func() (string, error) {
		pods := &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := s.list("web", pods); err != nil {
			return "", err
		}
		for _, pod := range pods.Items {
			if pod.Name == name {
				return "still there", nil
			}
		}
		return "gone", nil
	}
}

// farewell says how to go on.
func (s *story) farewell() {
	s.out.blank()
	s.out.title(fmt.Sprintf("All of it held, in %s.", seconds(time.Since(s.began))))
	s.out.say("The cluster and confrev (pid %d) go on running. To play with them:", s.place.livePid())
	s.out.say(`
  export KUBECONFIG=%s PATH=%s:"$PATH"
  cd %s

  kubectl get configmaps -l confrev.io/source=web --show-labels   # the ConfigMap and its revisions
  vi configmap.yaml && kubectl apply -f .                         # rolls forward
  kubectl rollout undo deployment/web                             # rolls back, and holds
  tail -f %s
`, shell(s.place.kubeconfig()), shell(filepath.Dir(s.kubectlPath)), shell(s.place.manifests()), shell(s.place.log()))
	s.out.say("Remove all of it:\n\n  cd %s && %s", shell(filepath.Clean(env.Root())), s.place.command("down"))
}
