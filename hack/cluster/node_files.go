package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"confrev.io/confrev/hack/cluster/image"
	"confrev.io/confrev/hack/cluster/network"
)

var (
	//go:embed containerd.toml
	containerdTemplate string
	//go:embed cni.json
	cniTemplate string
	//go:embed kubelet.yaml
	kubeletTemplate string
	//go:embed kube-proxy.yaml
	proxyTemplate string
)

// nodeProcesses are what runs on a node besides the pods, in the order in which they start.
var nodeProcesses = []string{"containerd", "kubelet", "kube-proxy"}

// nodeSettings are what differs between nodes, and from one start to the next.
type nodeSettings struct {
	Tools   nodeTools
	Network network.Network
	// APIPort is that of the API server, on loopback.
	APIPort int
	// KubeletPort is another for each start, so that one can tell what a kubelet said of itself from what an earlier one said.
	KubeletPort int
}

const nodeSettingsFile = "node.json"

func (c cluster) nodeSettings(ctx context.Context, tools nodeTools) (nodeSettings, error) {
	own, errNetwork := c.network(c.name)
	ports, errPorts := freePorts(1)
	server, errServer := c.kubectlCommand("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}").output(ctx)
	if err := errors.Join(errNetwork, errPorts, errServer); err != nil {
		return nodeSettings{}, err
	}
	api, err := url.Parse(server)
	if err != nil {
		return nodeSettings{}, fmt.Errorf("find the port of the API server: %w", err)
	}
	port, err := strconv.Atoi(api.Port())
	if err != nil {
		return nodeSettings{}, fmt.Errorf("find the port of the API server: %w", err)
	}
	return nodeSettings{Tools: tools, Network: own, APIPort: port, KubeletPort: ports[0]}, nil
}

func readNodeSettings(dir string) (s nodeSettings, err error) {
	content, err := os.ReadFile(filepath.Join(dir, nodeSettingsFile))
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read the node's settings: %w", err)
	}
	return s, nil
}

func (c cluster) writeNodeFiles(s nodeSettings) error {
	dir := c.node(c.name)
	for _, sub := range []string{"cni", "images", "containerd", "kubelet", "log"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return fmt.Errorf("make the node's directory: %w", err)
		}
	}
	files, errFiles := c.nodeFiles(s)
	errIdentities := errors.Join(
		c.addIdentity(files, s, "kubelet", pkix.Name{CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}}),
		// Kubernetes gives this name the rights of a kube-proxy.
		c.addIdentity(files, s, "kube-proxy", pkix.Name{CommonName: "system:kube-proxy"}))
	if err := errors.Join(errFiles, errIdentities); err != nil {
		return fmt.Errorf("make the node's settings: %w", err)
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			return fmt.Errorf("write the node's settings: %w", err)
		}
	}
	return nil
}

// nodeFiles returns the settings of the node's processes.
func (c cluster) nodeFiles(s nodeSettings) (map[string][]byte, error) {
	own, err := json.Marshal(s)
	return map[string][]byte{
		nodeSettingsFile:       own,
		"containerd.toml":      []byte(fill(containerdTemplate)),
		"cni/10-pods.conflist": []byte(fill(cniTemplate, "{{pods}}", s.Network.Pods().String())),
		"kubelet.yaml":         s.kubelet(c.name),
		"kube-proxy.yaml":      []byte(fill(proxyTemplate)),
	}, err
}

func (s nodeSettings) kubelet(cluster string) []byte {
	return []byte(fill(kubeletTemplate, "{{address}}", s.Network.Node().String(), "{{port}}", strconv.Itoa(s.KubeletPort),
		"{{cgroup}}", cgroupOf(cluster), "{{dns}}", s.Network.DNS().String()))
}

// addIdentity adds the way of one of the node's processes to the API server: a kubeconfig, and what it names.
func (c cluster) addIdentity(files map[string][]byte, s nodeSettings, process string, who pkix.Name) error {
	cert, key, ca, err := c.certificate(who, s.Network.Node())
	if err != nil {
		return err
	}
	files[process+".crt"], files[process+".key"], files["ca.crt"] = cert, key, ca
	files[process+".kubeconfig.yaml"] = fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: cluster
  cluster: {server: "https://%s", certificate-authority: %[2]s/ca.crt}
users:
- name: node
  user: {client-certificate: %[2]s/%[3]s.crt, client-key: %[2]s/%[3]s.key}
contexts:
- name: node
  context: {cluster: cluster, user: node}
current-context: node
`, netip.AddrPortFrom(s.Network.Machine(), uint16(s.APIPort)), insideNode, process)
	return nil
}

// certificate makes a certificate by which a process of the node is known to the API server, and which the kubelet also serves
// with. The cluster's authority signs it.
func (c cluster) certificate(who pkix.Name, address netip.Addr) (cert, key, ca []byte, err error) {
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
		Subject:      who,
		NotBefore:    now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{address.AsSlice()},
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
