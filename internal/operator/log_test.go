package operator

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// logged returns what a logger of confrev's writes.
func logged(write func(logr.Logger)) string {
	var out bytes.Buffer
	write(logr.FromSlogHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: plain})))
	return out.String()
}

// Rule 19: what admission webhooks and policies of others warn about may repeat values.
func TestWarningsOfTheAPIServerAreNotLogged(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "canary"`)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"app","namespace":"ns"}}`))
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	cluster := clientcmdapi.Config{
		CurrentContext: "test", Contexts: map[string]*clientcmdapi.Context{"test": {Cluster: "test"}},
		Clusters: map[string]*clientcmdapi.Cluster{"test": {Server: server.URL}},
	}
	if err := clientcmd.WriteToFile(cluster, kubeconfig); err != nil {
		t.Fatal(err)
	}
	config, err := (&flags{kubeconfig: kubeconfig}).load()
	if err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	said := logged(func(logger logr.Logger) {
		c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Get(log.IntoContext(t.Context(), logger), client.ObjectKey{Namespace: "ns", Name: "app"}, &corev1.ConfigMap{}); err != nil {
			t.Fatal(err)
		}
	})
	if said != "" {
		t.Errorf("the log says %s", said)
	}
}

// Rule 19: client-go logs an event that was refused as a whole, and why.
func TestRefusedEventsAreNotRepeatedInTheLog(t *testing.T) {
	event := &eventsv1.Event{Note: "canary"}
	_, err := whereNamespacesLive{refusing{err: refusedBySomeone}}.Create(t.Context(), event)
	said := logged(func(logger logr.Logger) { logger.Error(err, "Server rejected event (will not retry!)", "event", event) })
	if err == nil || strings.Contains(said, "canary") || !strings.Contains(said, "rejected") {
		t.Errorf("%v: the log says %s", err, said)
	}
}
