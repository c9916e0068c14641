package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"text/template"
	"time"

	"confrev.io/confrev/hack/cluster/image"
)

var (
	//go:embed containerd.toml
	containerdSettings string
	//go:embed kubelet.yaml
	kubeletTemplate string
)

// cniSettings name a network, so that there is one. No pod ever joins it: the plugin does not exist.
const cniSettings = `{"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "none"}]}`

type kubeletSettings struct {
	Port   int
	Cgroup string
}

func (c cluster) writeNodeFiles(ctx context.Context, s kubeletSettings) error {
	dir := c.node(c.name)
	for _, sub := range []string{"cni", "images", "containerd", "kubelet", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return fmt.Errorf("make the node's directory: %w", err)
		}
	}
	kubelet, errKubelet := s.yaml()
	kubeconfig, errKubeconfig := c.nodeKubeconfig(ctx)
	cert, key, ca, errCertificate := c.nodeCertificate()
	if err := errors.Join(errKubelet, errKubeconfig, errCertificate); err != nil {
		return fmt.Errorf("make the node's settings: %w", err)
	}
	for file, content := range map[string][]byte{
		"containerd.toml": []byte(fill(containerdSettings)), "cni/10-none.conflist": []byte(cniSettings),
		"kubelet.yaml": kubelet, "kubeconfig.yaml": kubeconfig, "kubelet.crt": cert, "kubelet.key": key, "ca.crt": ca,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return fmt.Errorf("write the node's settings: %w", err)
		}
	}
	return nil
}

func (s kubeletSettings) yaml() ([]byte, error) {
	parsed, err := template.New("kubelet.yaml").Parse(fill(kubeletTemplate))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, s)
	return out.Bytes(), err
}

// nodeKubeconfig returns the kubelet's way to the API server, with the rights of a node.
func (c cluster) nodeKubeconfig(ctx context.Context) ([]byte, error) {
	server, err := c.kubectlCommand("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}").output(ctx)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster: {server: %q, certificate-authority: %[2]s/ca.crt}
users:
- name: node
  user: {client-certificate: %[2]s/kubelet.crt, client-key: %[2]s/kubelet.key}
contexts:
- name: node
  context: {cluster: cluster, user: node}
current-context: node
`, server, insideNode), nil
}

// nodeCertificate makes the certificate by which the kubelet is known to the API server, as a node, and which it
// serves with. The cluster's authority signs it.
func (c cluster) nodeCertificate() (cert, key, ca []byte, err error) {
	pki := filepath.Join(c.cluster(c.name), "pki")
	authority, err := tls.LoadX509KeyPair(filepath.Join(pki, "ca.crt"), filepath.Join(pki, "ca.key"))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("load the cluster's certificate authority: %w", err)
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, nil, err
	}
	now := time.Now()
	request := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	signed, err := x509.CreateCertificate(rand.Reader, request, authority.Leaf, private.Public(), authority.PrivateKey)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("sign the node's certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate[0]}), err
}

// makeImages builds the probe and packs it as the image of the containers, and as that of the pods' sandboxes.
func (c cluster) makeImages(ctx context.Context) error {
	dir := c.node(c.name)
	binary := filepath.Join(dir, "probe")
	if err := buildProbe(ctx, c.layout, c.log, binary); err != nil {
		return err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("make images: %w", err)
	}
	images := filepath.Join(dir, "images")
	probe := image.Image{Name: probeImage, Entrypoint: "/probe", Binary: content}
	pause := image.Image{Name: pauseImage, Entrypoint: "/probe", Binary: content, Args: []string{"pause"}}
	return errors.Join(probe.Write(filepath.Join(images, "probe.tar")), pause.Write(filepath.Join(images, "pause.tar")))
}

func buildProbe(ctx context.Context, l layout, log, to string) error {
	return command{
		dir: l.module, log: log, env: []string{"CGO_ENABLED=0", "GOOS=linux", "GOFLAGS="},
		name: "go", args: []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", to, "./probe"},
	}.run(ctx)
}
