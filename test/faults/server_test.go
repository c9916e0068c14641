package faults

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const path = "/api/v1/namespaces/ns/configmaps"

// listed is the name of the last event that shows what there was when a watch began.
const listed = "listed"

// apiServer answers like an API server, as far as these tests look.
type apiServer struct {
	*httptest.Server
	t *testing.T
	// events are the names of the ConfigMaps that a watch shows, each as added.
	events chan string

	mu sync.Mutex
	// watches is how many there are at the moment.
	watches  int
	requests []string
	tokens   []string
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{t: t, events: make(chan string, 100)}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &rest.Config{Host: s.URL, BearerToken: "of the admin", TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	s.tokens = append(s.tokens, r.Header.Get("Authorization"))
	s.mu.Unlock()
	if isWatch(r) {
		s.watch(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Refuse") != "" {
		w.WriteHeader(http.StatusForbidden)
	}
	if _, err := io.WriteString(w, "answer"); err != nil {
		s.t.Error(err)
	}
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	inProtobuf := strings.Contains(r.Header.Get("Accept"), "protobuf")
	media := runtime.ContentTypeJSON
	if inProtobuf {
		media = runtime.ContentTypeProtobuf
	}
	w.Header().Set("Content-Type", media+";stream=watch")
	w.WriteHeader(http.StatusOK)
	s.count(1)
	defer s.count(-1)
	for {
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case name := <-s.events:
			frame, err := added(name, inProtobuf)
			if err != nil {
				s.t.Error(err)
			}
			if _, err := w.Write(frame); err != nil {
				return
			}
		}
	}
}

func (s *apiServer) count(by int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches += by
	return s.watches
}

func added(name string, inProtobuf bool) ([]byte, error) {
	cm := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	if name == listed {
		cm.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	if !inProtobuf {
		object, err := json.Marshal(cm)
		return fmt.Appendf(nil, "{\"type\":\"ADDED\",\"object\":%s}\n", object), err
	}
	var object bytes.Buffer
	if err := protobuf.NewSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme).Encode(cm, &object); err != nil {
		return nil, err
	}
	message, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: object.Bytes()}}).Marshal()
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...), err
}

// seen returns the requests that reached the API server.
func (s *apiServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// start starts a proxy for the API server, and returns a client of it.
func (s *apiServer) start(options Options) (*Proxy, *http.Client) {
	s.t.Helper()
	p, err := New(s.config(), options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			s.t.Error(err)
		}
	})
	c, err := rest.HTTPClientFor(p.Config("of the client"))
	if err != nil {
		s.t.Fatal(err)
	}
	return p, c
}

// ask sends a request and returns the answer's status, head and body. The status is 0 if there is no answer.
func (s *apiServer) ask(c *http.Client, method, url string, head ...string) (int, http.Header, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, url, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range head {
		r.Header.Set(name, "yes")
	}
	response, err := c.Do(r)
	if err != nil {
		return 0, nil, err.Error()
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err.Error()
	}
	if err := response.Body.Close(); err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(body)
}
