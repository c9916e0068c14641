// Package version has the version of confrev that a binary was built from.
package version

import "runtime/debug"

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
