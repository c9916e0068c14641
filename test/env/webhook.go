package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/test/gen"
)

// WebhookHost is the name under which the API server reaches the webhooks.
const WebhookHost = "localhost"

// relay does for the webhooks what a Service does in a cluster: one address for all the confrevs that run. It passes bytes
// on and knows nothing of what they are.
type relay struct {
	listener net.Listener

	mu       sync.Mutex
	backends []string
	next     int
	// cut is true while nothing is passed on; open are the connections that are passed on now. A channel is closed once the API server has let go of its side.
	cut  bool
	open map[*net.TCPConn]chan struct{}
}

func newRelay() (*relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{listener: listener, open: map[*net.TCPConn]chan struct{}{}}
	go r.serve()
	return r, nil
}

func (r *relay) url() string {
	return fmt.Sprintf("https://%s:%d", WebhookHost, r.listener.Addr().(*net.TCPAddr).Port)
}

// add makes an address one of those behind the relay. One that no one listens on is passed over.
func (r *relay) add(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backends = append(r.backends, address)
}

func (r *relay) serve() {
	for {
		from, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.pass(from.(*net.TCPConn))
	}
}

// dial connects to the next of the backends that listens.
func (r *relay) dial() (to *net.TCPConn, released chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		return nil, nil, errors.New("the webhook is cut off")
	}
	for range r.backends {
		address := r.backends[r.next%len(r.backends)]
		r.next++
		if to, err := net.Dial("tcp", address); err == nil {
			released = make(chan struct{})
			r.open[to.(*net.TCPConn)] = released
			return to.(*net.TCPConn), released, nil
		}
	}
	return nil, nil, errors.New("no confrev serves webhooks")
}

func (r *relay) pass(from *net.TCPConn) {
	to, released, err := r.dial()
	if err != nil {
		// As when a Service has no endpoints: refused. No one hears of an error here.
		_ = from.Close()
		return
	}
	go func() {
		copyAndClose(to, from)
		close(released)
	}()
	copyAndClose(from, to)
	<-released
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, to)
}

// CutWebhook makes the API server reach no confrev, as when all are down; they continue to reconcile. MendWebhook ends it.
func (c *Cluster) CutWebhook() {
	c.relay.mu.Lock()
	defer c.relay.mu.Unlock()
	c.relay.cut = true
	for connection := range c.relay.open {
		_ = connection.Close()
	}
}

// MendWebhook ends what CutWebhook began.
func (c *Cluster) MendWebhook() {
	c.relay.mu.Lock()
	defer c.relay.mu.Unlock()
	c.relay.cut = false
}

// DisconnectWebhook ends the API server's connections to confrevs, so that its next requests to them begin with a handshake, and returns how many there
// were once the API server has let go of them. No request may be under way.
func (c *Cluster) DisconnectWebhook(ctx context.Context) (ended int, err error) {
	c.relay.mu.Lock()
	open := maps.Clone(c.relay.open)
	c.relay.mu.Unlock()
	for connection, released := range open {
		_ = connection.Close()
		select {
		case <-released:
		case <-ctx.Done():
			return ended, ctx.Err()
		}
		ended++
	}
	return ended, nil
}

// copyAndClose passes on what comes until its sender ends, and tells the other side.
func copyAndClose(to, from *net.TCPConn) {
	_, _ = io.Copy(to, from)
	_ = to.CloseWrite()
	_ = from.CloseRead()
}

// WaitWebhook waits until the API server asks confrev about workloads: it has to learn of the webhook's configuration, and
// of its certificate, first.
func (c *Cluster) WaitWebhook(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, Patience, true, func(ctx context.Context) (bool, error) {
		probe := gen.Unsaved(gen.Deployment("webhook-probe", gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/webhook-probe"))))
		probe.Namespace = metav1.NamespaceDefault
		// A dry run leaves nothing behind. Its source does not exist, so confrev pauses it (rule 7).
		last = c.Client.Create(ctx, probe, client.DryRunAll)
		// A confrev that has just started may answer so late that the API server gives the request up.
		if apierrors.IsTimeout(last) {
			return false, nil
		}
		return probe.Spec.Paused, last
	})
	if wait.Interrupted(err) {
		err = errors.Join(err, last)
	}
	if err != nil {
		return fmt.Errorf("wait until the workload webhook answers: %w", err)
	}
	return nil
}
