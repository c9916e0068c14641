//go:build perf

package perf

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

const (
	// startedApps are Deployments, of startedPods pods each; startedShare of them share a ConfigMap.
	startedApps, startedPods, startedShare = 40, 5, 4
	// editsApart, lossesApart and downsApart are the times between two edits, two lost nodes and two ends of the controller, which then
	// stays away for downFor.
	editsApart, lossesApart, downsApart, downFor = 500 * time.Millisecond, 250 * time.Millisecond, 10 * time.Second, 3 * time.Second
)

// BenchmarkWrongStarts counts pods that start with another configuration than the one their holder was rolled out with, while ConfigMaps are
// edited, nodes go away with their pods, and the controller is killed again and again. Next to confrev: a checksum in an annotation of the
// template, written with each edit, as charts do. CONFREV_STARTS is the number of starts to count.
func BenchmarkWrongStarts(b *testing.B) {
	b.Run(measuring(), func(b *testing.B) {
		benchmarkStarts(b, func(w *world) subject {
			if driven != nil {
				return w.startOther().other
			}
			return &pinning{w.start("--settle", "0s", "--revisions-per-hour", "100000")}
		}, optsIn()...)
	})
	b.Run("checksum", func(b *testing.B) {
		benchmarkStarts(b, func(*world) subject { return checksum{} })
	})
}

// subject is what rolls changes out.
type subject interface {
	// edited is called after each edit of a ConfigMap, with the Deployments that use it.
	edited(w *world, value string, users []string) error
	kill() error
	start(ctx context.Context) error
	stop()
}

type pinning struct{ *process }

func (*pinning) edited(*world, string, []string) error     { return nil }
func (p *pinning) kill() error                             { return p.Kill() }
func (p *pinning) start(ctx context.Context) error         { return p.Start(ctx) }
func (p *pinning) stop()                                   { p.process.stop() }
func (checksum) kill() error                               { return nil }
func (checksum) start(context.Context) error               { return nil }
func (checksum) stop()                                     {}
func (c *commanded) edited(*world, string, []string) error { return nil }

// checksum is no controller: the one who edits also rolls out.
type checksum struct{}

func (checksum) edited(w *world, value string, users []string) error {
	for _, user := range users {
		if err := w.patchTemplate(user, value); err != nil {
			return err
		}
	}
	return nil
}

func benchmarkStarts(b *testing.B, begin func(*world) subject, options ...gen.DeploymentModifier) {
	wanted := size(b, "CONFREV_STARTS", 10_000)
	w := newAnyWorld(b)
	// What ran before the controller came has nothing to be compared with.
	s := begin(w)
	defer s.stop()
	users := w.startable(options...)
	seen := w.watchStarts()
	for b.Loop() {
		w.disturb(s, users, func() bool { return seen.count() >= wanted })
	}
	w.Kubectl("scale", "deployment", "--all", "--replicas=0")
	w.reportStarts(seen)
}

// startable makes ConfigMaps and Deployments that use them, and returns the users of each.
func (w *world) startable(options ...gen.DeploymentModifier) map[string][]string {
	w.Helper()
	users := map[string][]string{}
	for i := range startedApps {
		source, name := fmt.Sprint("app-", i/startedShare), fmt.Sprint("web-", i)
		if len(users[source]) == 0 {
			w.Must(w.TryCreate(configMap(source, "0")))
		}
		users[source] = append(users[source], name)
		all := append([]gen.DeploymentModifier{gen.Replicas(startedPods), gen.Template(gen.EnvFrom("configmap/" + source))}, options...)
		w.Must(w.TryCreate(gen.Unsaved(gen.Deployment(name, all...))))
	}
	w.Eventually("all are rolled out", func() string {
		for _, names := range users {
			for _, name := range names {
				deployment := w.Deployment(name)
				if deployment.Annotations[keys.Track] != "" && deployment.Spec.Template.Annotations[keys.Pins] == "" {
					return name + " is not pinned"
				}
				if left := workload.Deployment.Progress(deployment).Left; left != "" {
					return name + ": " + left
				}
			}
		}
		return ""
	})
	return users
}

// disturb edits, takes nodes away and kills the controller until enough is seen.
func (w *world) disturb(s subject, users map[string][]string, enough func() bool) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	var edits atomic.Int64
	every := func(interval time.Duration, do func() error) {
		group.Go(func() error {
			for tick := time.NewTicker(interval); ; {
				select {
				case <-ctx.Done():
					tick.Stop()
					return nil
				case <-tick.C:
				}
				if err := do(); err != nil && ctx.Err() == nil {
					return err
				}
			}
		})
	}
	every(editsApart, func() error {
		source, value := fmt.Sprint("app-", rand.IntN(len(users))), fmt.Sprint(edits.Add(1))
		w.Edit(source, "key", value)
		return s.edited(w, value, users[source])
	})
	every(lossesApart, func() error { return w.loseNode(ctx) })
	every(downsApart, func() error {
		if err := s.kill(); err != nil {
			return err
		}
		time.Sleep(downFor)
		// Also when the measurement has ended meanwhile: it is stopped like one that runs.
		return s.start(context.WithoutCancel(ctx))
	})
	every(100*time.Millisecond, func() error {
		if enough() {
			cancel()
		}
		return nil
	})
	w.Must(group.Wait())
}

// loseNode deletes all pods of one node at once, as when it went away.
func (w *world) loseNode(ctx context.Context) error {
	pods := &corev1.PodList{}
	if err := cluster.Client.List(ctx, pods, client.InNamespace(w.NS)); err != nil {
		return err
	}
	if len(pods.Items) == 0 {
		return nil
	}
	lost := pods.Items[rand.IntN(len(pods.Items))].Spec.NodeName
	for _, pod := range pods.Items {
		if pod.Spec.NodeName == lost && lost != "" {
			if err := client.IgnoreNotFound(cluster.Client.Delete(ctx, &pod, client.GracePeriodSeconds(0))); err != nil {
				return err
			}
		}
	}
	return nil
}
