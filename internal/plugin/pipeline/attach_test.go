package pipeline

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/plugin/session"
)

// A pipeline's variable that is empty must not attach to some other ReplicaSet, nor attach everything that the template refers to.
func TestAttachRefusesEmptyFlags(t *testing.T) {
	for flags, want := range map[string]string{
		"--deployment=":                     "--deployment is empty: name a Deployment",
		"--rollout=":                        "--rollout is empty: name a Rollout",
		"--replicaset-selector=":            "--replicaset-selector is empty: give labels of ReplicaSets",
		"--replicaset-selector=\t":          "--replicaset-selector is empty: give labels of ReplicaSets",
		"--deployment=web --configmaps=":    "--configmaps is empty, or has an empty name: name ConfigMaps",
		"--deployment=web --configmaps=a,":  "--configmaps is empty, or has an empty name: name ConfigMaps",
		"--deployment=web --secrets=":       "--secrets is empty, or has an empty name: name Secrets",
		"--deployment=web --selector=":      "--selector is empty: give labels of ConfigMaps and Secrets",
		"--deployment=web":                  "",
		"--rollout=web --configmaps=a,b":    "",
		"--replicaset-selector=a=b -l c=d":  "",
		"--deployment=web --selector=a,,=b": "--selector: ",
	} {
		t.Run(flags, func(t *testing.T) {
			o := &attachOptions{Session: &session.Session{}}
			cmd := o.command()
			err := cmd.ParseFlags(strings.Split(flags, " "))
			if err == nil {
				err = o.Fill(cmd, nil)
			}
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// Only a wait that was not cut short has lasted for the time that was asked for.
func TestAttachIsInterrupted(t *testing.T) {
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	for want, ctx := range map[string]context.Context{"context canceled": interrupted, "waited 5m0s: no ReplicaSet": late} {
		o := &attachOptions{replicaSetSelector: labels.Everything(), timeout: 5 * time.Minute}
		c := &session.Connection{WithWatch: fake.NewClientBuilder().Build(), Namespace: "default"}
		if _, err := o.await(ctx, c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
