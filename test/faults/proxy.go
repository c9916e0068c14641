// Package faults is a proxy between confrev and the API server that makes the faults that a network and a busy control plane make: answers that
// are late, refused or lost, and watches that lag, repeat themselves, break off or expire. It also ends a process right after any of its writes. It
// knows nothing of confrev and imports nothing of it.
//
// It does nothing that no real API server does. Above all, it never loses an event of a watch for good: where it drops one, the watch ends and its
// resourceVersion has expired, so that the client must list again. A client that then still does not know of the change has a fault.
package faults

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

// Options say how a proxy behaves. Only the seed has a default that one may want: a test prints its own.
type Options struct {
	// Seed is that of the generator by which faults come.
	Seed uint64
	// Plain serves HTTP instead of TLS. A kubeconfig gives no token to a server without TLS, so that is for other clients.
	Plain bool
	// Lease lets faults befall the requests for leases too. Else only Cut does: a leader that loses its lease ends, and the test with it.
	Lease bool
	// MaxLatency and MaxHold bound by how much an answer is late (300 ms if not set), and for how long an event of a watch is held back (3 s). Those
	// behind it wait, too: a watch keeps its order.
	MaxLatency, MaxHold time.Duration
}

// Proxy is a running proxy for one client, a process.
type Proxy struct {
	// URL is where it serves.
	URL string

	options  Options
	ca       []byte
	server   *http.Server
	upstream *httputil.ReverseProxy
	serving  sync.WaitGroup
	served   error

	mu     sync.Mutex
	random *rand.Rand
	chance Chances
	forced map[Kind]int
	counts map[Kind]int
	// cut is true while no one gets through; open are the connections of the client.
	cut  bool
	open map[net.Conn]bool
	// expired are the watches whose resourceVersion is no longer known.
	expired map[string]bool
	// held are the resources whose watches show nothing for now, each with what ends that.
	held   map[string]chan struct{}
	writes []Write
	crash  *crash
}

// New starts a proxy on this machine for the API server that a client's configuration names. It uses nothing of that configuration but the
// address, and by what the server is trusted: each request has the token of its sender.
func New(config *rest.Config, options Options) (*Proxy, error) {
	options.MaxLatency, options.MaxHold = cmp.Or(options.MaxLatency, 300*time.Millisecond), cmp.Or(options.MaxHold, 3*time.Second)
	config = rest.AnonymousClientConfig(config)
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	p := &Proxy{
		options: options, random: rand.New(rand.NewPCG(options.Seed, 0)),
		forced: map[Kind]int{}, counts: map[Kind]int{}, open: map[net.Conn]bool{}, expired: map[string]bool{}, held: map[string]chan struct{}{},
	}
	// What goes wrong goes to the client, as an answer or as the lack of one, and is counted. Processes that are killed leave much of that.
	quiet := log.New(io.Discard, "", 0)
	p.upstream = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host}) },
		Transport: transport, FlushInterval: -1, ErrorLog: quiet,
		ModifyResponse: p.answered,
		// An API server that cannot be reached answers nothing. A status of ours would be an answer that no API server gives.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ConnState: p.connected, ErrorLog: quiet, ReadHeaderTimeout: time.Minute}
	return p, p.listen()
}

func (p *Proxy) listen() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve the proxy: %w", err)
	}
	p.URL = "http://" + listener.Addr().String()
	if !p.options.Plain {
		certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
		if err != nil {
			return errors.Join(fmt.Errorf("make a certificate: %w", err), listener.Close())
		}
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return errors.Join(fmt.Errorf("make a certificate: %w", err), listener.Close())
		}
		p.URL, p.ca = "https://"+listener.Addr().String(), certificate
		// Without HTTP/2, so that a connection that is closed is that of one request, and not that of all watches.
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}})
	}
	p.serving.Go(func() { p.served = p.server.Serve(listener) })
	return nil
}

// Close ends the proxy and all its connections.
func (p *Proxy) Close() error {
	err := p.server.Close()
	p.serving.Wait()
	if !errors.Is(p.served, http.ErrServerClosed) {
		err = errors.Join(err, p.served)
	}
	return err
}

// Config returns a configuration for a client with a token.
func (p *Proxy) Config(token string) *rest.Config {
	return &rest.Config{Host: p.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: p.ca}}
}

// Kubeconfig writes to a file what a kubeconfig has, with this proxy as the server of its current context. A process that is started with it talks
// to the proxy.
func (p *Proxy) Kubeconfig(from, to string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return err
	}
	current, ok := config.Contexts[config.CurrentContext]
	if !ok || config.Clusters[current.Cluster] == nil {
		return fmt.Errorf("point a client at the proxy: %s has no cluster in its current context", from)
	}
	cluster := config.Clusters[current.Cluster]
	cluster.Server, cluster.CertificateAuthority, cluster.CertificateAuthorityData = p.URL, "", p.ca
	return clientcmd.WriteToFile(*config, to)
}

// Cut parts the client from the API server until Reconnect: its connections close, and new ones do at once. Unlike other faults, this one befalls leases
// as well. Requests that the API server has already received take effect.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for connection := range p.open {
		// One that cannot be closed has been closed by the other side.
		_ = connection.Close()
	}
}

// Reconnect ends what Cut began.
func (p *Proxy) Reconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

func (p *Proxy) connected(connection net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.open[connection] = true
		if p.cut {
			_ = connection.Close()
		}
	case http.StateClosed, http.StateHijacked:
		delete(p.open, connection)
	}
}

// serve passes a request on, unless a fault befalls it before it reaches the API server.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if p.isCut() {
		panic(http.ErrAbortHandler)
	}
	if !p.spared(r) {
		if p.befalls(Latency) && !wait(r.Context(), p.upTo(p.options.MaxLatency)) {
			panic(http.ErrAbortHandler)
		}
		if status := p.refusal(r); status != nil {
			p.answer(w, status)
			return
		}
	}
	if !isWrite(r) {
		p.upstream.ServeHTTP(w, r)
		return
	}
	p.serveWrite(w, r)
}

func (p *Proxy) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// spared reports whether no fault befalls a request.
func (p *Proxy) spared(r *http.Request) bool {
	return !p.options.Lease && isLease(r)
}

func isLease(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/apis/coordination.k8s.io/")
}

// isWrite reports whether a request changes an object if it succeeds. A dry run does not, and nothing is kept of the reviews by which one asks for rights.
func isWrite(r *http.Request) bool {
	writes := slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, r.Method)
	return writes && !r.URL.Query().Has("dryRun") && !strings.HasSuffix(r.URL.Path, "reviews")
}

// wait waits, and reports whether the client is still there.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
