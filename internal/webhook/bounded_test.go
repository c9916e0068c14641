package webhook

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/test/gen"
)

const somePins = "configmap/app=app-xxxxxxxxxx@3,secret/db=db-zzzzzzzzzz@1"

// review returns an AdmissionReview of a new pod, as an API server writes it.
func review(pins, spec string) string {
	return fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"705ab4f5-6393-11e8-b7cc-42010a800002",`+
		`"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},"namespace":"default","operation":"CREATE",`+
		`"userInfo":{"username":"system:serviceaccount:kube-system:replicaset-controller","groups":["system:serviceaccounts"]},`+
		`"object":{"kind":"Pod","apiVersion":"v1","metadata":{"generateName":"web-","annotations":{"confrev.io/pins":%q,"confrev.io/Pins":"x"}},"spec":%s},`+
		`"oldObject":null,"dryRun":false,"options":{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}}}`, pins, spec)
}

func posted(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, pathPods, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// connection records what a client is answered, and that neither reading nor writing may last forever.
type connection struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (c *connection) SetReadDeadline(at time.Time) error  { c.read = at; return nil }
func (c *connection) SetWriteDeadline(at time.Time) error { c.write = at; return nil }

func answer(handler http.Handler, r *http.Request) *connection {
	c := &connection{ResponseRecorder: httptest.NewRecorder()}
	handler.ServeHTTP(c, r)
	return c
}

func list(n int, element string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
}

// numbered returns n elements, each with its number for %[1]d.
func numbered(n int, element string) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, element+",", i)
	}
	return strings.TrimSuffix(all.String(), ",")
}

// Anyone who can connect to the port may send a review, and no one asks who it is. Whatever a review has, it takes a small multiple of
// its length. The exceptions are pins and what they resolve, of which there are only so many.
func TestAReviewTakesASmallMultipleOfItsLength(t *testing.T) {
	const n = 50_000
	pinned := func(spec string) string { return review(somePins, spec) }
	for name, tt := range map[string]struct {
		review string
		more   uint64
	}{
		"empty containers, with pins":      {pinned(`{"containers":` + list(2_300_000, "{}") + `}`), 0},
		"empty containers, without pins":   {review("", `{"containers":`+list(2_300_000, "{}")+`}`), 0},
		"empty init containers":            {pinned(`{"initContainers":` + list(n, "{}") + `}`), 0},
		"empty ephemeral containers":       {pinned(`{"ephemeralContainers":` + list(n, "{}") + `}`), 0},
		"null for containers":              {pinned(`{"containers":` + list(n, "null") + `}`), 0},
		"numbers for containers":           {pinned(`{"containers":` + list(n, "0") + `}`), 0},
		"containers in capital letters":    {pinned(`{"CONTAINERS":` + list(n, "{}") + `}`), 0},
		"containers, and then fewer":       {pinned(`{"containers":` + list(n, "{}") + `,"containers":[]}`), 0},
		"containers with empty lists":      {pinned(`{"containers":` + list(n, `{"env":[],"envFrom":[{}]}`) + `}`), 0},
		"containers with empty ports":      {pinned(`{"containers":[{"ports":` + list(n, "{}") + `}]}`), 0},
		"empty variables":                  {pinned(`{"containers":[{"env":` + list(n, "{}") + `}]}`), 0},
		"variables from nothing":           {pinned(`{"containers":[{"env":` + list(n, `{"valueFrom":{"secretKeyRef":{}}}`) + `}]}`), 0},
		"variables from what has no pin":   {pinned(`{"containers":[{"envFrom":` + list(n, `{"secretRef":{"name":"x"}}`) + `}]}`), 0},
		"empty volumes":                    {pinned(`{"volumes":` + list(n, "{}") + `}`), 0},
		"volumes of nothing":               {pinned(`{"volumes":` + list(n, `{"secret":{}}`) + `}`), 0},
		"volumes with empty items":         {pinned(`{"volumes":[{"secret":{"items":` + list(n, "{}") + `}}]}`), 0},
		"volumes with numbers for items":   {pinned(`{"volumes":[{"secret":{"items":` + list(n, "0") + `}}]}`), 0},
		"projections of nothing":           {pinned(`{"volumes":[{"projected":{"sources":` + list(n, `{"secret":{}}`) + `}}]}`), 0},
		"a quantity that is hard to round": {pinned(`{"containers":[{"resources":{"limits":{"cpu":"1e-2000000"}}}]}`), 0},
		"lists in lists":                   {pinned(`{"containers":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`), 0},
		"a long name":                      {pinned(`{"volumes":[{"secret":{"secretName":"` + strings.Repeat("x", n) + `"}}]}`), 0},
		"more references than are pinned":  {pinned(`{"containers":[{"envFrom":` + list(n, `{"secretRef":{"name":"db","optional":true}}`) + `}]}`), 412 << 20},
		"as many references as are pinned": {pinned(`{"containers":[{"envFrom":` + list(2*podspec.MaxReferences, `{"secretRef":{"name":"db","optional":true}}`) + `}]}`), 412 << 20},
		"many pins":                        {review(numbered(8_000, "secret/a%[1]d=a%[1]d-xxxxxxxxxx@1"), `{}`), 12 << 20},
		"more pins than annotations hold":  {review(numbered(n, "secret/a%[1]d=a%[1]d-xxxxxxxxxx@1"), `{}`), 0},
		"annotations":                      {`{"request":{"object":{"metadata":{"annotations":{` + numbered(n, `"%[1]d":""`) + `}}}}}`, 0},
		"conditions":                       {`{"request":{"object":{"status":{"conditions":` + list(n, "{}") + `}}}}`, 0},
		"an answer with empty causes":      {`{"response":{"status":{"details":{"causes":` + list(n, "{}") + `}}},"request":{"object":{}}}`, 0},
		"a user with groups":               {`{"request":{"object":{},"userInfo":{"groups":` + list(n, `""`) + `}}}`, 0},
		"a user with attributes":           {`{"request":{"object":{},"userInfo":{"extra":{` + numbered(n, `"%[1]d":[]`) + `}}}}`, 0},
		"a long UID":                       {`{"request":{"object":{},"uid":"` + strings.Repeat("<", n) + `"}}`, 0},
		"a long version":                   {`{"apiVersion":"` + strings.Repeat("<", n) + `","request":{"object":{}}}`, 0},
		"YAML":                             {strings.Repeat("- \n", n), 0},
	} {
		t.Run(name, func(t *testing.T) {
			handler, request := newBounded(Pods{}), posted(tt.review)
			if request.ContentLength > longestReview {
				t.Fatal("this is refused for its length alone")
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			answer(handler, request)
			runtime.ReadMemStats(&after)
			took, length := after.TotalAlloc-before.TotalAlloc, uint64(len(tt.review))
			t.Logf("%d bytes allocated for %d", took, length)
			// Whatever a review has, there are some kilobytes more.
			if took > 12*length+64<<10+tt.more {
				t.Errorf("allocated %d bytes for %d", took, length)
			}
		})
	}
}

// decoded answers as Pods does, but decodes the whole pod.
func decoded(_ context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(request.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	pins, err := pin.Parse(pod.Annotations[keys.Pins])
	if err != nil {
		return admission.Allowed("")
	}
	var patch []jsonpatch.Operation
	for _, r := range podspec.Resolve(&pod.Spec, pins) {
		patch = append(patch, jsonpatch.NewOperation("replace", "/spec"+r.Pointer, r.Value))
	}
	return admission.Patched("", patch...)
}

// What API servers send is answered as by controller-runtime with the decoded pod, byte for byte.
func TestReviewsAreAnsweredAsByControllerRuntime(t *testing.T) {
	pod := func(of ...gen.PodSpecModifier) string {
		text, err := json.Marshal(gen.PodSpec(of...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	many := func(n int) string {
		return pod(func(s *corev1.PodSpec) {
			for range n {
				gen.EnvFrom("configmap/app", gen.Optional(true))(s)
			}
		})
	}
	bounded, other := newBounded(Pods{}), &admission.Webhook{Handler: admission.HandlerFunc(decoded)}
	for name, text := range map[string]string{
		"references":                    review(somePins, pod(gen.EnvFrom("configmap/app"), gen.Volume("secret/db"), gen.Env("secret/other", "k"))),
		"no pins":                       review("", pod(gen.EnvFrom("configmap/app"))),
		"malformed pins":                review("x", pod(gen.EnvFrom("configmap/app"))),
		"a long answer":                 review(somePins, many(500)),
		"many references":               review(somePins, many(podspec.MaxReferences)),
		"a large pod":                   review(somePins, pod(func(s *corev1.PodSpec) { s.Containers[0].Args = strings.Split(strings.Repeat("a ", 200_000), " ") })),
		"a large pod that has no pins":  review("", `{"containers":`+list(10_000, `{"name":"web","image":"app:1","env":[{"name":"A","value":"b"}],"resources":{"limits":{"cpu":"1"}}}`)+`}`),
		"a pod with a very long string": review(somePins, pod(func(s *corev1.PodSpec) { s.Containers[0].Args = []string{strings.Repeat("x", 1<<20)} }, gen.EnvFrom("configmap/app"))),
	} {
		t.Run(name, func(t *testing.T) {
			got, want := answer(bounded, posted(text)), answer(other, posted(text))
			if got.Code != want.Code || got.Body.String() != want.Body.String() {
				t.Errorf("%d %.500s\nwant %d %.500s", got.Code, got.Body, want.Code, want.Body)
			}
			if got.read.IsZero() || got.write.IsZero() {
				t.Error("a slow client has no deadline")
			}
		})
	}
}

// unread is a body that may not be read.
type unread struct{ *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.Error("the body is read")
	return 0, io.EOF
}

// endless is a body that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestALongReviewIsRefused(t *testing.T) {
	b := newBounded(Pods{})
	for name, tt := range map[string]struct {
		body   io.Reader
		length int64
	}{
		"that says how long it is": {unread{t}, longestReview + 1}, "that does not": {endless{}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, pathPods, tt.body)
			r.ContentLength = tt.length
			got := answer(b, r)
			if got.Code != http.StatusRequestEntityTooLarge || got.Body.String() != "the review is longer than 7340032 bytes\n" {
				t.Errorf("%d %s", got.Code, got.Body)
			}
		})
	}
	longest := review(somePins, "{}")
	longest += strings.Repeat(" ", longestReview-len(longest))
	if got := answer(b, posted(longest)); got.Code != http.StatusOK {
		t.Errorf("one that is as long as may be: %d %s", got.Code, got.Body)
	}
}

// The other webhook asks for the secret part of the path first.
func TestAWrongPathIsRefusedBeforeItsBodyIsRead(t *testing.T) {
	c := newCluster(t, nil)
	replica := c.replica()
	c.look(replica)
	guarded := replica.Guard(prefix, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it is handled") }))
	if got := answer(guarded, httptest.NewRequest(http.MethodPost, prefix+"x", unread{t})); got.Code != http.StatusNotFound {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// large returns a review that waits for its turn before it is read.
func large(t *testing.T, body io.Reader) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, pathPods, body)
	r.ContentLength = -1
	return r
}

// givenUp returns a request whose client no longer waits.
func givenUp(r *http.Request) *http.Request {
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	return r.WithContext(ctx)
}

// Clients that send large reviews slowly keep out other large reviews, and no ordinary one.
func TestLargeReviewsWaitBeforeTheyAreRead(t *testing.T) {
	b := newBounded(Pods{})
	text := review(somePins, `{"containers":[{"envFrom":`+list(2_000, `{"configMapRef":{"name":"app","optional":true}}`)+`}]}`)
	var slow []*io.PipeWriter
	answers := make(chan int)
	for range cap(b.large) {
		body, writer := io.Pipe()
		slow = append(slow, writer)
		request := large(t, body)
		go func() { answers <- answer(b, request).Code }()
		// Returns when it is read.
		if _, err := io.WriteString(writer, text[:1]); err != nil {
			t.Fatal(err)
		}
	}
	if got := answer(b, givenUp(large(t, unread{t}))); got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body.String(), "try again") {
		t.Errorf("one more large review: %d %s", got.Code, got.Body)
	}
	if got := answer(b, posted(review(somePins, "{}"))); got.Code != http.StatusOK {
		t.Errorf("an ordinary review: %d %s", got.Code, got.Body)
	}
	// So many references make the answer long, whose client may be slow.
	long := review(somePins, `{"containers":[{"envFrom":`+list(1_000, `{"configMapRef":{"name":"app","optional":true}}`)+`}]}`)
	if got := answer(b, givenUp(posted(long))); len(long) > ordinaryReview || got.Code != http.StatusServiceUnavailable {
		t.Errorf("an ordinary review of %d bytes with a large answer: %d %.100s", len(long), got.Code, got.Body)
	}
	for _, writer := range slow {
		if _, err := io.WriteString(writer, text[1:]); err != nil {
			t.Fatal(err)
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		if code := <-answers; code != http.StatusOK {
			t.Errorf("a slow client is answered %d", code)
		}
	}
	if got := answer(b, posted(long)); got.Code != http.StatusOK {
		t.Errorf("afterwards: %d %s", got.Code, got.Body)
	}
}

// Ordinary reviews wait for their turn after they are read, and only so many are decoded at the same time.
func TestOrdinaryReviewsAreAnsweredAFewAtATime(t *testing.T) {
	begun, end, answers := make(chan struct{}, 100), make(chan struct{}), make(chan int)
	b := newBounded(admission.HandlerFunc(func(ctx context.Context, _ admission.Request) admission.Response {
		begun <- struct{}{}
		select {
		case <-end:
		case <-ctx.Done():
		}
		return admission.Allowed("")
	}))
	text := review(somePins, "{}")
	send := func() { answers <- answer(b, posted(text)).Code }
	for range cap(b.ordinary) {
		go send()
		<-begun
	}
	if got := answer(b, givenUp(posted(text))); got.Code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d %s", got.Code, got.Body)
	}
	go send()
	end <- struct{}{}
	<-begun
	close(end)
	for range cap(b.ordinary) + 1 {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("answered %d", code)
		}
	}
}

// A client that sends nothing is told so after a while, through all that controller-runtime puts around a webhook, and with both versions of HTTP.
func TestAClientThatSendsNothingIsNotWaitedFor(t *testing.T) {
	b := newBounded(Pods{})
	b.patience = 20 * time.Millisecond
	around := ctrlwebhook.NewServer(ctrlwebhook.Options{})
	around.Register(pathPods, b)
	for _, version := range []int{1, 2} {
		for name, length := range map[string]int64{"ordinary": 10, "large": -1} {
			t.Run(fmt.Sprintf("%s, HTTP/%d", name, version), func(t *testing.T) {
				server := httptest.NewUnstartedServer(around.WebhookMux())
				server.EnableHTTP2 = version == 2
				server.TLS = &tls.Config{}
				server.StartTLS()
				defer server.Close()
				body, writer := io.Pipe()
				defer func() { _ = writer.Close() }()
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+pathPods, body)
				if err != nil {
					t.Fatal(err)
				}
				r.ContentLength = length
				response, err := server.Client().Do(r)
				if err != nil {
					t.Fatal(err)
				}
				said, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusBadRequest || response.ProtoMajor != version || !strings.Contains(string(said), "timeout") {
					t.Errorf("%s %s: %s, %v", response.Proto, response.Status, said, err)
				}
			})
		}
	}
	if len(b.large)+len(b.ordinary) > 0 {
		t.Error("it is still the turn of one")
	}
}
