// Package version has the version of confrev that a binary was built from.
package version

import (
	"fmt"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/util/version"
)

// OldestKubernetes is the oldest version whose API servers have what confrev relies on: ValidatingAdmissionPolicy, and conditions of
// webhooks, as v1.
const OldestKubernetes = "1.30"

// Supports returns an error if an API server of that version is too old for confrev.
func Supports(server string) error {
	parsed, err := version.ParseGeneric(server)
	if err != nil {
		return fmt.Errorf("version of the API server: %w", err)
	}
	if parsed.LessThan(version.MustParseGeneric(OldestKubernetes)) {
		return fmt.Errorf("the API server is Kubernetes %s, which is too old: confrev needs %s or later, since its admission policies "+
			"are not served before", server, OldestKubernetes)
	}
	return nil
}

// release is set by the linker for released binaries.
var release string

// Release returns the released version, such as "v1.2.3". It is empty for a build from a tree.
func Release() string { return release }

// String returns the released version, or the one that the Go toolchain recorded in the binary, or "unknown".
func String() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
