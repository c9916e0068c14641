package main

import (
	"fmt"
	"slices"
	"strings"
)

// module is a Go module of its own under hack/modules, from which binaries are built.
type module struct {
	dir      string // its directory under hack/modules, and the start of the name of its directory of binaries
	requires string // the dependency that gives the version
}

var (
	moduleKubernetes   = module{"kubernetes", "k8s.io/kubernetes"}
	moduleKwok         = module{"kwok", "sigs.k8s.io/kwok"}
	moduleHelm         = module{"helm", "helm.sh/helm/v4"}
	moduleHelm3        = module{"helm3", "helm.sh/helm/v3"}
	moduleKustomize    = module{"kustomize", "sigs.k8s.io/kustomize/kustomize/v5"}
	moduleLint         = module{"golangci-lint", "github.com/golangci/golangci-lint/v2"}
	moduleActionlint   = module{"actionlint", "github.com/rhysd/actionlint"}
	moduleGovulncheck  = module{"govulncheck", "golang.org/x/vuln"}
	moduleGremlins     = module{"gremlins", "github.com/go-gremlins/gremlins"}
	moduleFluxSSA      = module{"flux-ssa", "github.com/fluxcd/pkg/ssa"}
	moduleGitopsEngine = module{"gitops-engine", "github.com/argoproj/argo-cd/v3"}
	moduleContainerd   = module{"containerd", "github.com/containerd/containerd/v2"}
	moduleCNI          = module{"cni", "github.com/containernetworking/plugins"}
	moduleRollouts     = module{"argo-rollouts", "github.com/argoproj/argo-rollouts"}
	moduleCertManager  = module{"cert-manager", "github.com/cert-manager/cert-manager"}
)

// component is one binary.
type component struct {
	name    string
	module  module
	pkg     string
	builtAs string // what 'go build' calls it, if not name
}

// components is in the order in which they are built: what the control plane needs first.
var components = []component{
	{name: "etcd", module: moduleKubernetes, pkg: "go.etcd.io/etcd/server/v3", builtAs: "server"},
	{name: "kube-apiserver", module: moduleKubernetes, pkg: "k8s.io/kubernetes/cmd/kube-apiserver"},
	{name: "kube-controller-manager", module: moduleKubernetes, pkg: "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{name: "kube-scheduler", module: moduleKubernetes, pkg: "k8s.io/kubernetes/cmd/kube-scheduler"},
	{name: "kubectl", module: moduleKubernetes, pkg: "k8s.io/kubernetes/cmd/kubectl"},
	{name: "kwok", module: moduleKwok, pkg: "sigs.k8s.io/kwok/cmd/kwok"},
	{name: "kwokctl", module: moduleKwok, pkg: "sigs.k8s.io/kwok/cmd/kwokctl"},
	{name: "helm", module: moduleHelm, pkg: "helm.sh/helm/v4/cmd/helm"},
	{name: "helm3", module: moduleHelm3, pkg: "helm.sh/helm/v3/cmd/helm", builtAs: "helm"},
	{name: "kustomize", module: moduleKustomize, pkg: "sigs.k8s.io/kustomize/kustomize/v5"},
	{name: "golangci-lint", module: moduleLint, pkg: "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"},
	{name: "actionlint", module: moduleActionlint, pkg: "github.com/rhysd/actionlint/cmd/actionlint"},
	{name: "govulncheck", module: moduleGovulncheck, pkg: "golang.org/x/vuln/cmd/govulncheck"},
	{name: "gremlins", module: moduleGremlins, pkg: "github.com/go-gremlins/gremlins/cmd/gremlins"},
	{name: "rollouts-controller", module: moduleRollouts, pkg: "github.com/argoproj/argo-rollouts/cmd/rollouts-controller"},
	{name: "kubectl-argo-rollouts", module: moduleRollouts, pkg: "github.com/argoproj/argo-rollouts/cmd/kubectl-argo-rollouts"},
	{name: "kubelet", module: moduleKubernetes, pkg: "k8s.io/kubernetes/cmd/kubelet"},
	{name: "containerd", module: moduleContainerd, pkg: "github.com/containerd/containerd/v2/cmd/containerd"},
	{name: "containerd-shim-runc-v2", module: moduleContainerd, pkg: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
	{name: "ctr", module: moduleContainerd, pkg: "github.com/containerd/containerd/v2/cmd/ctr"},
	{name: "kube-proxy", module: moduleKubernetes, pkg: "k8s.io/kubernetes/cmd/kube-proxy"},
	{name: "bridge", module: moduleCNI, pkg: "github.com/containernetworking/plugins/plugins/main/bridge"},
	{name: "loopback", module: moduleCNI, pkg: "github.com/containernetworking/plugins/plugins/main/loopback"},
	{name: "host-local", module: moduleCNI, pkg: "github.com/containernetworking/plugins/plugins/ipam/host-local"},
	{name: "flux-ssa", module: moduleFluxSSA, pkg: "."},
	{name: "gitops-engine", module: moduleGitopsEngine, pkg: "."},
	{name: "cert-manager", module: moduleCertManager, pkg: "."},
}

// controlPlane are the components that kwokctl can also download, as it names them; kubernetes.component tells those of a
// version. tools are what it cannot download. nodeComponents are what a real node has in addition to runc and nft.
var (
	controlPlane = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	tools        = []string{"kubectl", "kwok", "kwokctl"}

	nodeComponents = []string{
		"kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "ctr", "bridge", "loopback", "host-local",
	}
)

// olderServers returns the servers of the older versions of Kubernetes.
func olderServers() []component {
	var servers []component
	for _, k := range kubernetesVersions[1:] {
		for _, name := range controlPlane {
			if name != "etcd" {
				servers = append(servers, component{name: k.component(name), module: k.module, pkg: "k8s.io/kubernetes/cmd/" + name, builtAs: name})
			}
		}
	}
	return servers
}

func componentNames() []string {
	all := append(slices.Clone(components), olderServers()...)
	names := make([]string, 0, len(all))
	for _, c := range all {
		names = append(names, c.name)
	}
	return names
}

func componentByName(name string) (component, error) {
	for _, c := range append(slices.Clone(components), olderServers()...) {
		if c.name == name {
			return c, nil
		}
	}
	return component{}, fmt.Errorf("no component %q: choose from %s", name, strings.Join(componentNames(), ", "))
}

// linkFlags returns the linker's flags for a module at a version. Kubernetes' clients refuse a server without a version.
func linkFlags(m module, version string) string {
	flags := "-s -w"
	set := func(pkg, variable, value string) { flags += " -X " + pkg + "." + variable + "=" + value }
	switch {
	case m.requires == moduleKubernetes.requires:
		major, minor := majorMinor(version)
		set("k8s.io/component-base/version", "gitVersion", version)
		set("k8s.io/component-base/version", "gitMajor", major)
		set("k8s.io/component-base/version", "gitMinor", minor)
	case m == moduleHelm || m == moduleHelm3:
		set(m.requires+"/internal/version", "version", version)
	}
	return flags
}

// majorMinor takes v1.36.3 to 1 and 36.
func majorMinor(version string) (major, minor string) {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(rest, ".")
	return major, minor
}
