// Package webhook serves admission requests: the handlers for workloads and for pods, their server, and its certificates.
package webhook

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The keys of the Secret that all replicas share. As a Secret of type kubernetes.io/tls, it has the authority's certificate twice,
// and the authority's private key.
const (
	caKey          = "ca.crt"
	certificateKey = corev1.TLSCertKey
	privateKey     = corev1.TLSPrivateKeyKey
)

const (
	authorityLife   = 365 * 24 * time.Hour
	certificateLife = 7 * 24 * time.Hour
	// behind is how far an API server's clock may be behind this one. A certificate that begins now would be refused there until then.
	behind = time.Hour
)

// authority signs the certificates of the webhook server.
type authority struct {
	pem         []byte
	certificate *x509.Certificate
	key         crypto.Signer
}

func readAuthority(data map[string][]byte) (*authority, error) {
	if !bytes.Equal(data[caKey], data[certificateKey]) {
		return nil, errors.New("its two certificates differ")
	}
	pair, err := tls.X509KeyPair(data[certificateKey], data[privateKey])
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !certificate.IsCA {
		return nil, errors.New("it contains no certificate authority")
	}
	return &authority{data[caKey], certificate, key}, nil
}

// isGood reports whether an authority need not be replaced, because a third of its lifetime is left and it is not distrusted.
func (a *authority) isGood(now, distrusted time.Time) bool {
	return now.Before(renewal(a.certificate)) && !a.certificate.NotBefore.Before(distrusted)
}

// renewal returns when to replace a certificate: after two thirds of its lifetime.
func renewal(c *x509.Certificate) time.Time { return c.NotAfter.Add(-c.NotAfter.Sub(c.NotBefore) / 3) }

// makeAuthority returns the data of a Secret with a new authority. It is none of those that are distrusted, since it does not begin before them.
func makeAuthority(now, distrusted time.Time) (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "confrev-webhook-ca"}, NotBefore: later(now.Add(-behind), distrusted), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return map[string][]byte{
		caKey: certificate, certificateKey: certificate,
		privateKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

// issue returns a certificate for the webhook server, which clients reach by these names or addresses. Its key never leaves the process.
func (a *authority) issue(hosts []string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	until := now.Add(certificateLife)
	if a.certificate.NotAfter.Before(until) {
		until = a.certificate.NotAfter
	}
	template := &x509.Certificate{
		NotBefore: later(now.Add(-behind), a.certificate.NotBefore), NotAfter: until, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if address := net.ParseIP(host); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := sign(template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// issued reports whether this authority signed a certificate and the certificate need not be replaced.
func (a *authority) issued(c *tls.Certificate, now time.Time) bool {
	return c != nil && now.Before(renewal(c.Leaf)) && c.Leaf.CheckSignatureFrom(a.certificate) == nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return der, nil
}
