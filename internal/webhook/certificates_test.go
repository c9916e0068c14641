package webhook

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

var now = time.Unix(1_800_000_000, 0)

// certificate makes one that is valid until an hour from now, or has been until then.
func certificate(t *testing.T, until time.Duration) []byte {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(until)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// During a rotation both authorities are trusted; what has expired goes.
func TestWithAuthority(t *testing.T) {
	before, next, expired := certificate(t, time.Hour), certificate(t, time.Hour), certificate(t, -time.Hour)
	join := func(all ...[]byte) []byte { return bytes.Join(all, nil) }
	tests := map[string]struct{ bundle, ca, want []byte }{
		"the first":                 {nil, next, next},
		"it is there already":       {next, next, next},
		"a second":                  {before, next, join(before, next)},
		"one that has expired goes": {join(expired, before), next, join(before, next)},
		"what is no certificate":    {[]byte("x"), next, next},
		"no authority yet":          {before, nil, before},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := withAuthority(test.bundle, test.ca, now, time.Time{}); !bytes.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}
