package gate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Trusts returns why an API server with this webhook configuration would not trust the served certificate at the time now. It
// returns nil if the API server would trust it.
func Trusts(config admissionregistrationv1.WebhookClientConfig, served *tls.Certificate, now time.Time) error {
	options := x509.VerifyOptions{
		DNSName: host(config), Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now,
	}
	if !options.Roots.AppendCertsFromPEM(config.CABundle) {
		return errors.New("it has no certificate to trust")
	}
	var chain []*x509.Certificate
	for _, der := range served.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return err
		}
		chain = append(chain, c)
		options.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(options)
	return err
}

// host returns the DNS name that a webhook's certificate must have. It is empty if the configuration names none.
func host(config admissionregistrationv1.WebhookClientConfig) string {
	if config.Service != nil {
		return config.Service.Name + "." + config.Service.Namespace + ".svc"
	}
	if config.URL == nil {
		return ""
	}
	address, err := url.Parse(*config.URL)
	if err != nil {
		return ""
	}
	return address.Hostname()
}
