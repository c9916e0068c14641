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
