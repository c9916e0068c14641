package audit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// summarized has something of each kind that a summary counts: of ConfigMap app, which changed at second 100, a pod from before the
// change, two from after it, and one that may have read either; two pods that read nothing; and two Secrets with a revision of one.
func summarized() Snapshot {
	reading := gen.PodSpec(gen.EnvFrom("configmap/app"))
	snapshot := Snapshot{
		Margin: margin, Hidden: map[pin.Kind]bool{}, Workloads: []Workload{web(gen.Tracking("all"))}, Sources: []Source{copyOf("app")},
		Pods: []Pod{NewPod(pod(50, reading)), NewPod(pod(100, reading)), NewPod(pod(5000, reading)), NewPod(pod(5001, reading)),
			NewPod(pod(1, &corev1.PodSpec{})), NewPod(pod(2, &corev1.PodSpec{}))},
	}
	for name, revision := range map[string]bool{"db": false, "mail": false, "db-5f7d8c9b2k": true} {
		meta := app(100)
		meta.Name = name
		snapshot.Sources = append(snapshot.Sources, NewSource(pin.Secret, meta, revision))
	}
	return snapshot
}

func TestSummary(t *testing.T) {
	all := Summary{Pods: 6, Workloads: 1, ConfigMaps: 1, Secrets: 2, Stale: 1, Unknown: 1, Unchanged: 2}
	tests := map[string]struct {
		hide func(*Snapshot)
		want func(*Summary)
	}{
		"all may be seen": {func(*Snapshot) {}, func(*Summary) {}},
		"pods may not be seen": {func(s *Snapshot) { s.PodsHidden, s.Pods = true, nil },
			func(s *Summary) { s.Pods, s.Stale, s.Unknown, s.Unchanged = -1, -1, -1, -1 }},
		"Secrets may not be seen": {func(s *Snapshot) { s.Hidden[pin.Secret], s.Sources = true, s.Sources[:1] },
			func(s *Summary) { s.Secrets = -1 }},
		"ConfigMaps may not be seen": {func(s *Snapshot) { s.Hidden[pin.ConfigMap], s.Sources = true, s.Sources[1:] },
			func(s *Summary) { s.ConfigMaps, s.Stale, s.Unknown, s.Unchanged = -1, 0, 4, 0 }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot, want := summarized(), all
			test.hide(&snapshot)
			test.want(&want)
			if diff := cmp.Diff(want, Run(snapshot).Summary); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A message counts as people do.
func TestOnePodIsNotSeveral(t *testing.T) {
	snapshot := summarized()
	for n, want := range map[int]string{1: "1 pod started", 2: "2 pods started"} {
		stale := snapshot
		stale.Pods = nil
		for range n {
			p := podOf(web(gen.Template(gen.EnvFrom("configmap/app"))), "a")
			p.Created, p.starts = at(50).Time, map[string]start{"app": {at: at(50).Time}}
			stale.Pods = append(stale.Pods, p)
		}
		found := Run(stale).Findings
		if len(found) != 1 || !strings.HasPrefix(found[0].Message, want) {
			t.Errorf("%+v, want %q", found, want)
		}
	}
}
