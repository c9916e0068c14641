package faults

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// errBroken ends a watch in the middle of an event.
var errBroken = errors.New("the watch was broken off on purpose")

func isWatch(r *http.Request) bool {
	return r.Method == http.MethodGet && slices.Contains([]string{"true", "1"}, r.URL.Query().Get("watch"))
}

// continues reports whether a watch begins where another one ended. Others begin with what there is.
func continues(r *http.Request) bool {
	return !slices.Contains([]string{"", "0"}, r.URL.Query().Get("resourceVersion"))
}

// watched identifies what a client watches, and as what: clients watch the same objects for several caches.
func watched(r *http.Request) string {
	query := r.URL.Query()
	return r.URL.Path + "?" + query.Get("labelSelector") + "&" + query.Get("fieldSelector") + " " + r.Header.Get("Accept")
}

// lastOf returns the last element of a path: the name of an object, or a resource.
func lastOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// forgotten reports whether a watch cannot be continued, once.
func (p *Proxy) forgotten(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	forgotten := p.expired[watched(r)]
	delete(p.expired, watched(r))
	return forgotten
}

// stream is a watch on its way to the client.
type stream struct {
	*Proxy
	codec codec
	from  io.ReadCloser
	to    *io.PipeWriter
	what  string
	// resource is what is watched, such as "deployments".
	resource string
	// lists is true while the watch still shows what there was when it began. It is not interrupted meanwhile: with a chance for each event, one that
	// shows many would never come to its end.
	lists bool
}

// stream puts itself between the events of a watch and the client.
func (p *Proxy) stream(response *http.Response) error {
	codec, err := codecOf(response.Header.Get("Content-Type"))
	if err != nil {
		return err
	}
	reader, writer := io.Pipe()
	s := &stream{Proxy: p, codec: codec, from: response.Body, to: writer, what: watched(response.Request), resource: lastOf(response.Request.URL.Path)}
	s.lists = response.Request.URL.Query().Get("sendInitialEvents") == "true"
	ctx := response.Request.Context()
	go func() { writer.CloseWithError(s.run(ctx)) }()
	response.Body = &joined{Reader: reader, closers: []io.Closer{reader, response.Body}}
	return nil
}

// joined is what one reads, and all that ends with it.
type joined struct {
	io.Reader
	closers []io.Closer
}

func (j *joined) Close() error {
	var errs []error
	for _, closer := range j.closers {
		errs = append(errs, closer.Close())
	}
	return errors.Join(errs...)
}

// run passes events on until the watch ends, and returns how; io.EOF is how the API server ends one.
func (s *stream) run(ctx context.Context) error {
	for {
		frame, err := s.codec.read(s.from)
		if err != nil {
			return err
		}
		if err := s.pass(ctx, frame); err != nil {
			return err
		}
	}
}

// pass passes an event on, or what a fault makes of it.
func (s *stream) pass(ctx context.Context, frame []byte) error {
	if s.lists {
		s.lists = !bytes.Contains(frame, []byte(metav1.InitialEventsAnnotationKey))
		_, err := s.to.Write(frame)
		return err
	}
	if err := s.released(ctx); err != nil {
		return err
	}
	if s.befalls(Hold) && !wait(ctx, s.upTo(s.options.MaxHold)) {
		return ctx.Err()
	}
	switch {
	case s.befalls(Break):
		_, err := s.to.Write(frame[:len(frame)/2])
		return errors.Join(err, errBroken)
	case s.befalls(Expire):
		return s.expire()
	case s.befalls(Repeat):
		frame = slices.Concat(frame, frame)
	}
	_, err := s.to.Write(frame)
	return err
}

// HoldBack holds back all that watches of a resource ("deployments") would show from now on, until it is released.
func (p *Proxy) HoldBack(resource string) (release func()) {
	held := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[resource] = held
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.held, resource)
		close(held)
	})
}

// released waits while what this watch shows is held back.
func (s *stream) released(ctx context.Context) error {
	s.mu.Lock()
	held := s.held[s.resource]
	s.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// expire ends the watch in one of the two ways in which a client learns that it must list again.
func (s *stream) expire() error {
	s.mu.Lock()
	later := s.random.IntN(2) == 0
	if later {
		s.expired[s.what] = true
	}
	s.mu.Unlock()
	if later {
		return io.EOF
	}
	said := apierrors.NewResourceExpired("a fault that was injected").Status()
	frame, err := s.codec.failure(&said)
	if err == nil {
		_, err = s.to.Write(frame)
	}
	if err != nil {
		return err
	}
	return io.EOF
}
