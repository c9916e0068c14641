package operator

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"confrev.io/confrev/internal/authz"
)

// metricsServer returns how to serve the metrics.
func metricsServer(o Options) metricsserver.Options {
	served := metricsserver.Options{BindAddress: o.MetricsAddress}
	if !o.MetricsSecure {
		return served
	}
	served.SecureServing, served.CertDir = true, o.MetricsCertDir
	// HTTP/2 lets one connection begin and drop requests without end.
	served.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	served.FilterProvider = func(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
		api, err := client.New(config, client.Options{HTTPClient: httpClient, Scheme: clientgoscheme.Scheme})
		if err != nil {
			return nil, fmt.Errorf("set up who may get metrics: %w", err)
		}
		guard := &authz.Guard{API: api, Now: time.Now}
		return func(_ logr.Logger, next http.Handler) (http.Handler, error) { return guard.Handler(next), nil }, nil
	}
	return served
}
