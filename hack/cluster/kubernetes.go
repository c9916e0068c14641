package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// kubernetes is a version of the API server, the controllers and the scheduler. All else is the same for every version, etcd and
// kubectl too.
type kubernetes struct {
	minor  string // such as 1.36
	module module
	suffix string // of the names of its components
}

// kubernetesVersions are those to choose from. A new one needs a module in hack/modules.
var (
	defaultKubernetes  = kubernetes{minor: "1.36", module: moduleKubernetes}
	kubernetesVersions = []kubernetes{defaultKubernetes, older("1.35"), older("1.34"), older("1.33"), older("1.32"), older("1.31"), older("1.30")}
)

func older(minor string) kubernetes {
	return kubernetes{minor: minor, module: module{"kubernetes-" + minor, moduleKubernetes.requires}, suffix: "-" + minor}
}

func kubernetesByMinor(minor string) (kubernetes, error) {
	for _, k := range kubernetesVersions {
		if k.minor == minor {
			return k, nil
		}
	}
	return kubernetes{}, fmt.Errorf("--kubernetes=%s: choose from %s", minor, kubernetesMinors())
}

func kubernetesMinors() string {
	minors := make([]string, 0, len(kubernetesVersions))
	for _, k := range kubernetesVersions {
		minors = append(minors, k.minor)
	}
	return strings.Join(minors, ", ")
}

// component returns the name of this version's component for one of controlPlane.
func (k kubernetes) component(name string) string {
	if name == "etcd" {
		return name
	}
	return name + k.suffix
}

// components returns this version's components for all of controlPlane.
func (k kubernetes) components() []string {
	names := make([]string, 0, len(controlPlane))
	for _, name := range controlPlane {
		names = append(names, k.component(name))
	}
	return names
}

var kubeVersionSetting = regexp.MustCompile(`(?m)^  kubeVersion: (v\S+)$`)

// kubernetesVersion returns the one that a cluster was created with, such as v1.36.3.
func (l layout) kubernetesVersion(name string) (string, error) {
	path := l.kwokctlConfig(name)
	settings, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("find the version of cluster %q: %w", name, err)
	}
	found := kubeVersionSetting.FindSubmatch(settings)
	if found == nil {
		return "", fmt.Errorf("find the version of cluster %q: %s has no options.kubeVersion", name, path)
	}
	return string(found[1]), nil
}

// checkKubernetes complains if there is a cluster of that name that has another version.
func (l layout) checkKubernetes(name string, wanted kubernetes) error {
	if !l.exists(name) {
		return nil
	}
	version, err := l.kubernetesVersion(name)
	if err != nil {
		return err
	}
	major, minor := majorMinor(version)
	if has := major + "." + minor; has != wanted.minor {
		return fmt.Errorf("cluster %q has Kubernetes %s, not %s: use --kubernetes=%s, or another --name, "+
			"or remove it with '%s down --name %s'", name, has, wanted.minor, has, project.command, name)
	}
	return nil
}
