package faults

import (
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestRequestsPassWithTheTokenOfTheirSender(t *testing.T) {
	s := newAPIServer(t)
	p, c := s.start(Options{})
	if status, _, body := s.ask(c, http.MethodGet, p.URL+path); status != http.StatusOK || body != "answer" {
		t.Errorf("%d %s", status, body)
	}
	if want := []string{"Bearer of the client"}; !slices.Equal(s.tokens, want) {
		t.Errorf("the API server saw %q, want %q", s.tokens, want)
	}
	if len(p.Counts()) > 0 {
		t.Errorf("faults without any chance: %v", p.Counts())
	}
}

func TestItServesWithoutTLS(t *testing.T) {
	s := newAPIServer(t)
	p, _ := s.start(Options{Plain: true})
	if status, _, body := s.ask(http.DefaultClient, http.MethodGet, p.URL+path); status != http.StatusOK || !strings.HasPrefix(p.URL, "http://") {
		t.Errorf("%s answers %d %s", p.URL, status, body)
	}
}

// What is refused does not reach the API server, and the next request does.
func TestRefusals(t *testing.T) {
	for kind, test := range map[Kind]struct {
		method string
		status int
	}{
		TooMany: {http.MethodGet, 429}, Conflict: {http.MethodPatch, 409}, ServerError: {http.MethodPost, 500}, Unavailable: {http.MethodGet, 503},
	} {
		t.Run(string(kind), func(t *testing.T) {
			s := newAPIServer(t)
			p, c := s.start(Options{})
			p.Next(kind, 1)
			status, head, body := s.ask(c, test.method, p.URL+path)
			if status != test.status || !strings.Contains(body, `"kind":"Status"`) || (head.Get("Retry-After") != "") != (kind == TooMany) {
				t.Errorf("%d %v %s", status, head, body)
			}
			if len(s.seen()) > 0 {
				t.Errorf("the API server saw %q", s.seen())
			}
			if status, _, _ := s.ask(c, test.method, p.URL+path); status != http.StatusOK {
				t.Errorf("then %d", status)
			}
			if want := map[Kind]int{kind: 1}; !maps.Equal(p.Counts(), want) {
				t.Errorf("counted %v, want %v", p.Counts(), want)
			}
		})
	}
}

// A create that is refused with 409 would be told that the object exists.
func TestNoCreateHasAConflict(t *testing.T) {
	s := newAPIServer(t)
	p, c := s.start(Options{})
	p.Set(Chances{Conflict: 1})
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		if status, _, _ := s.ask(c, method, p.URL+path); status != http.StatusOK {
			t.Errorf("%s: %d", method, status)
		}
	}
}

// A write takes effect whose answer gets lost, and is not repeated by the client's HTTP. What changes nothing has its answer.
func TestAnAnswerIsLost(t *testing.T) {
	s := newAPIServer(t)
	p, c := s.start(Options{})
	p.Set(Chances{LostAnswer: 1})
	if status, _, body := s.ask(c, http.MethodPatch, p.URL+path); status != 0 {
		t.Errorf("answered %d %s", status, body)
	}
	if want := []string{"PATCH " + path}; !slices.Equal(s.seen(), want) {
		t.Errorf("the API server saw %q, want %q", s.seen(), want)
	}
	for name, answered := range map[string]func() int{
		"a read":          func() int { status, _, _ := s.ask(c, http.MethodGet, p.URL+path); return status },
		"a dry run":       func() int { status, _, _ := s.ask(c, http.MethodPost, p.URL+path+"?dryRun=All"); return status },
		"what is refused": func() int { status, _, _ := s.ask(c, http.MethodPost, p.URL+path, "Refuse"); return status },
		"a question of rights": func() int {
			status, _, _ := s.ask(c, http.MethodPost, p.URL+"/apis/authorization.k8s.io/v1/subjectaccessreviews")
			return status
		},
	} {
		if answered() == 0 {
			t.Errorf("%s has no answer", name)
		}
	}
	if got := p.Writes(); len(got) != 1 || got[0].String() != "PATCH "+path || !got[0].In("ns") || got[0].In("n") {
		t.Errorf("the writes are %v", got)
	}
}

func TestAnAnswerIsLate(t *testing.T) {
	s := newAPIServer(t)
	p, c := s.start(Options{MaxLatency: 200 * time.Millisecond})
	p.Set(Chances{Latency: 1})
	began := time.Now()
	const requests = 5
	for range requests {
		if status, _, _ := s.ask(c, http.MethodGet, p.URL+path); status != http.StatusOK {
			t.Error(status)
		}
	}
	// The sum of five random ones of the fixed seed.
	if took := time.Since(began); took < 100*time.Millisecond || p.Counts()[Latency] != requests {
		t.Errorf("it took %s, and %v", took, p.Counts())
	}
}

func TestLeasesAreSpared(t *testing.T) {
	const lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/confrev"
	for _, too := range []bool{false, true} {
		s := newAPIServer(t)
		p, c := s.start(Options{Lease: too})
		for _, kind := range []Kind{ServerError, LostAnswer} {
			p.Set(Chances{kind: 1})
			if status, _, _ := s.ask(c, http.MethodPut, p.URL+lease); (status != http.StatusOK) != too {
				t.Errorf("with Lease: %t, %s: %d", too, kind, status)
			}
		}
		if got := p.Writes(); len(got) != len(s.seen()) || !got[0].OfLease() {
			t.Errorf("the writes are %v", got)
		}
		p.Cut()
		if status, _, _ := s.ask(c, http.MethodPut, p.URL+lease); status != 0 {
			t.Errorf("with Lease: %t, cut: %d", too, status)
		}
	}
}

// The same seed makes the same faults.
func TestFaultsComeByTheirChance(t *testing.T) {
	roll := func(seed uint64) (got []bool) {
		p, _ := newAPIServer(t).start(Options{Seed: seed})
		p.Set(Chances{Repeat: 0.3})
		for range 1000 {
			got = append(got, p.befalls(Repeat))
		}
		if n := p.Counts()[Repeat]; n < 200 || n > 400 {
			t.Errorf("%d of 1000 with a chance of 0.3", n)
		}
		if p.befalls(Break) {
			t.Error("a fault without any chance")
		}
		return got
	}
	if !slices.Equal(roll(1), roll(1)) || slices.Equal(roll(1), roll(2)) {
		t.Error("faults do not follow from the seed")
	}
}

func TestCutAndReconnect(t *testing.T) {
	s := newAPIServer(t)
	p, c := s.start(Options{})
	watching, cancel := s.through(t, p, "application/json", later)
	defer cancel()
	s.events <- "before"
	watching.has("before")
	p.Cut()
	watching.ends()
	if status, _, _ := s.ask(c, http.MethodGet, p.URL+path); status != 0 {
		t.Errorf("got through: %d", status)
	}
	p.Reconnect()
	if status, _, body := s.ask(c, http.MethodGet, p.URL+path); status != http.StatusOK {
		t.Errorf("does not get through: %s", body)
	}
	if want := []string{"GET " + path, "GET " + path}; !slices.Equal(s.seen(), want) {
		t.Errorf("the API server saw %q", s.seen())
	}
}

func TestAKubeconfigPointsAtTheProxy(t *testing.T) {
	s := newAPIServer(t)
	p, _ := s.start(Options{})
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthority: "of the cluster"}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "of the account"}
	config.Contexts["x"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "x"
	if err := clientcmd.WriteToFile(*config, from); err != nil {
		t.Fatal(err)
	}
	if err := p.Kubeconfig(from, to); err != nil {
		t.Fatal(err)
	}
	loaded, err := clientcmd.BuildConfigFromFlags("", to)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Host != p.URL || loaded.BearerToken != "of the account" || loaded.CAFile != "" {
		t.Errorf("the client has %+v", loaded)
	}
	config.CurrentContext = "none"
	if err := clientcmd.WriteToFile(*config, from); err != nil {
		t.Fatal(err)
	}
	if err := p.Kubeconfig(from, to); err == nil {
		t.Error("a kubeconfig without a context can be used")
	}
}
