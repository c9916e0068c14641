package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/env"
)

// story is what all tales are told with, and how far it came. After the first error all its methods do nothing, so that
// a step reads from top to bottom.
type story struct {
	ctx         context.Context
	out         *printer
	place       place
	began       time.Time
	cluster     *env.Cluster
	kubectlPath string
	// plugins is where kubectl finds its plugins.
	plugins string
	binary  string
	confrev *process
	// addresses are where it serves health, metrics and webhooks.
	addresses [3]string
	err       error

	// folder has the user's files of what is told now, and subject is the workload in them.
	folder  string
	subject subject
}

// step is a part of a tale with a title.
type step struct {
	title string
	tell  func()
}

// tell tells steps one after the other, up to the first error.
func (s *story) tell(steps []step) error {
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

// files is where the user's files are, and where the shown commands run.
func (s *story) files() string { return filepath.Join(s.place.dir, s.folder) }

// write writes the user's files anew: as they were at first, with edits, which are pairs of an old and a new text. The
// user is told of it in the words of changed.
func (s *story) write(changed string, edits ...string) {
	if s.err != nil {
		return
	}
	entries, err := userFiles.ReadDir(s.folder)
	s.err = err
	for _, entry := range entries {
		text, err := userFiles.ReadFile(path.Join(s.folder, entry.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(s.files(), entry.Name()), []byte(strings.NewReplacer(edits...).Replace(string(text))), 0o600)
		}
		if err != nil {
			s.err = fmt.Errorf("write the user's files: %w", err)
			return
		}
	}
	s.out.note("%s", changed)
}

// awaitPinned waits until the workload is pinned to a revision with a content.
func (s *story) awaitPinned(page string) pin.Pin {
	s.await("confrev has pinned a revision with that content", page, s.pinnedPage(s.subject))
	var p pin.Pin
	if s.err == nil {
		p, s.err = s.pinOf(s.subject)
	}
	return p
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

// losePod deletes a pod that reads a ConfigMap, as the loss of its node would, and claims that its replacement reads the
// same: afterwards the pods are as they were before, and the ConfigMap has its content.
func (s *story) losePod(configMap, pods, page string) {
	victims := s.podsWith(configMap)
	if s.err != nil {
		return
	}
	lost := victims[0]
	s.kubectl("delete", "pod", lost)
	s.await("the pod is replaced", pods, s.pods)
	s.showPods()
	s.claim("pod "+lost+" is gone", "gone", s.podGone(lost))
	s.claim("its replacement reads the old configuration, "+configMap, pods, s.pods)
	s.claim("which still has the good content", page, s.page(configMap))
}

// podGone tells whether a pod is gone.
func (s *story) podGone(name string) look {
	return func() (string, error) {
		pods := &metav1.PartialObjectMetadataList{}
		pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := s.list(pods); err != nil {
			return "", err
		}
		if slices.ContainsFunc(pods.Items, func(pod metav1.PartialObjectMetadata) bool { return pod.Name == name }) {
			return "still there", nil
		}
		return "gone", nil
	}
}

// withoutConfrev ends confrev by a signal, tells something, and starts confrev again.
func (s *story) withoutConfrev(signal syscall.Signal, tell func()) {
	if s.err != nil {
		return
	}
	name := map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGKILL: "KILL"}[signal]
	s.out.command(fmt.Sprintf("kill -%s %d", name, s.place.livePid()))
	_, s.err = s.place.end(s.ctx, signal)
	s.claim("confrev has ended", "pid 0", func() (string, error) { return fmt.Sprintf("pid %d", s.place.livePid()), nil })
	tell()
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
