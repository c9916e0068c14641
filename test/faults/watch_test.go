package faults

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// patience bounds waits for what must come.
const patience = 10 * time.Second

// media are how clients ask for watches.
var media = []string{"application/json", "application/vnd.kubernetes.protobuf"}

// later are the options of a watch that continues, fromStart those of one that first shows what there is.
var (
	later     = metav1.ListOptions{ResourceVersion: "7"}
	fromStart = metav1.ListOptions{SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
)

// watching is a watch of client-go.
type watching struct {
	*testing.T
	watch.Interface
}

// through watches through a proxy, once the API server knows that earlier watches have ended: they would take the events.
func (s *apiServer) through(t *testing.T, p *Proxy, media string, options metav1.ListOptions) (*watching, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w, err := p.tryWatch(ctx, media, options)
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); s.count(0) != 1; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("the API server has %d watches", s.count(0))
		}
	}
	return &watching{t, w}, cancel
}

func (p *Proxy) tryWatch(ctx context.Context, media string, options metav1.ListOptions) (watch.Interface, error) {
	config := p.Config("of the client")
	config.ContentType = media
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return c.CoreV1().ConfigMaps("ns").Watch(ctx, options)
}

func (w *watching) next() (watch.Event, bool) {
	w.Helper()
	select {
	case event, open := <-w.ResultChan():
		return event, open
	case <-time.After(patience):
		w.Fatal("the watch shows nothing")
	}
	return watch.Event{}, false
}

// has checks that these ConfigMaps are what the watch shows next.
func (w *watching) has(names ...string) {
	w.Helper()
	var got []string
	for range names {
		event, open := w.next()
		if !open {
			w.Fatalf("the watch ended after %q, want %q", got, names)
		}
		cm, ok := event.Object.(*corev1.ConfigMap)
		if !ok {
			w.Fatalf("the watch shows %v", event.Object)
		}
		got = append(got, cm.Name)
	}
	if !slices.Equal(got, names) {
		w.Errorf("the watch shows %q, want %q", got, names)
	}
}

// ends checks that the watch ends. What client-go makes of an event that was broken off is no event.
func (w *watching) ends() {
	w.Helper()
	for {
		event, open := w.next()
		if !open {
			return
		}
		if event.Type != watch.Error {
			w.Fatalf("the watch continues with %v", event)
		}
	}
}

// each runs a test with watches in each of the formats.
func each(t *testing.T, do func(t *testing.T, s *apiServer, p *Proxy, media string)) {
	for _, media := range media {
		t.Run(media, func(t *testing.T) {
			s := newAPIServer(t)
			p, _ := s.start(Options{MaxHold: 200 * time.Millisecond})
			do(t, s, p, media)
		})
	}
}

func TestEventsPass(t *testing.T) {
	each(t, func(t *testing.T, s *apiServer, p *Proxy, media string) {
		w, cancel := s.through(t, p, media, later)
		for _, name := range []string{"a", "b", "c"} {
			s.events <- name
		}
		w.has("a", "b", "c")
		cancel()
		w.ends()
	})
}

func TestEventsAreRepeated(t *testing.T) {
	each(t, func(t *testing.T, s *apiServer, p *Proxy, media string) {
		w, cancel := s.through(t, p, media, later)
		defer cancel()
		p.Next(Repeat, 1)
		s.events <- "a"
		s.events <- "b"
		w.has("a", "a", "b")
	})
}

func TestEventsAreHeldBackInTheirOrder(t *testing.T) {
	each(t, func(t *testing.T, s *apiServer, p *Proxy, media string) {
		w, cancel := s.through(t, p, media, later)
		defer cancel()
		p.Next(Hold, 3)
		began := time.Now()
		for _, name := range []string{"a", "b", "c", "d"} {
			s.events <- name
		}
		w.has("a", "b", "c", "d")
		// The sum of three random ones of the fixed seed.
		if took := time.Since(began); took < 30*time.Millisecond || p.Counts()[Hold] != 3 {
			t.Errorf("it took %s, and %v", took, p.Counts())
		}
	})
}

func TestAWatchBreaksOff(t *testing.T) {
	each(t, func(t *testing.T, s *apiServer, p *Proxy, media string) {
		w, cancel := s.through(t, p, media, later)
		defer cancel()
		s.events <- "a"
		w.has("a")
		p.Next(Break, 1)
		s.events <- "b"
		w.ends()
		again, cancel := s.through(t, p, media, later)
		defer cancel()
		s.events <- "c"
		again.has("c")
	})
}

// Whichever way the watch expires, the client is told before it can see anything later: with an event, or when it asks for the rest.
func TestAWatchExpires(t *testing.T) {
	each(t, func(t *testing.T, s *apiServer, p *Proxy, media string) {
		ways := map[string]int{}
		for range 20 {
			w, cancel := s.through(t, p, media, later)
			p.Next(Expire, 1)
			s.events <- "dropped"
			event, open := w.next()
			if open {
				if err := apierrors.FromObject(event.Object); event.Type != watch.Error || !apierrors.IsResourceExpired(err) {
					t.Fatalf("the watch shows %v", event)
				}
				w.ends()
				ways["by an event"]++
			} else {
				if _, err := p.tryWatch(t.Context(), media, later); !apierrors.IsResourceExpired(err) {
					t.Fatalf("the watch can be continued: %v", err)
				}
				ways["when it asks again"]++
			}
			cancel()
			// It knows the resourceVersion of a new list.
			again, cancel := s.through(t, p, media, later)
			s.events <- "later"
			again.has("later")
			cancel()
		}
		if len(ways) != 2 {
			t.Errorf("it expired %v", ways)
		}
	})
}

func TestAWatchThatStillListsIsNotInterrupted(t *testing.T) {
	each(t, func(t *testing.T, s *apiServer, p *Proxy, media string) {
		w, cancel := s.through(t, p, media, fromStart)
		defer cancel()
		p.Next(Break, 1)
		s.events <- "a"
		s.events <- listed
		w.has("a", listed)
		s.events <- "b"
		w.ends()
	})
}

func TestAWatchThatCannotBeRead(t *testing.T) {
	for _, kind := range []string{"application/cbor", "text/html", ""} {
		if _, err := codecOf(kind); err == nil {
			t.Errorf("%q can be read", kind)
		}
	}
	if _, err := (protobufFrames{}).read(strings.NewReader("\xff\xff\xff\xff")); err == nil {
		t.Error("an event of four gigabytes can be read")
	}
	if _, err := (protobufFrames{}).read(strings.NewReader("\x00\x00\x00\x05ab")); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("half an event ends with %v", err)
	}
}

func TestEventsOfAResourceAreHeldBack(t *testing.T) {
	each(t, func(t *testing.T, s *apiServer, p *Proxy, media string) {
		w, cancel := s.through(t, p, media, later)
		defer cancel()
		release, others := p.HoldBack("configmaps"), p.HoldBack("deployments")
		defer others()
		s.events <- "a"
		s.events <- "b"
		select {
		case event := <-w.ResultChan():
			t.Fatalf("the watch shows %v", event)
		case <-time.After(100 * time.Millisecond):
		}
		release()
		w.has("a", "b")
	})
}
