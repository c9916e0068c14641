package gate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Trusts returns why an API server with this webhook configuration would not trust the certificate that the webhook serves; nil
// if it does.
func Trusts(told admissionregistrationv1.WebhookClientConfig, served *tls.Certificate, now time.Time) error {
	options := x509.VerifyOptions{
		DNSName: host(told), Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now,
	}
	if !options.Roots.AppendCertsFromPEM(told.CABundle) {
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

// host returns the name that a webhook's certificate must have.
func host(told admissionregistrationv1.WebhookClientConfig) string {
	if told.Service != nil {
		return told.Service.Name + "." + told.Service.Namespace + ".svc"
	}
	if told.URL == nil {
		return ""
	}
	address, err := url.Parse(*told.URL)
	if err != nil {
		return ""
	}
	return address.Hostname()
}
