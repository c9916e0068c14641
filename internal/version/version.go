// Package version says which version of confrev a binary is.
package version

import "runtime/debug"

// release is set by the linker for released binaries.
var release string

// Release returns the released version; empty for a build from a tree.
func Release() string { return release }

// String returns the release, or what the Go toolchain knows about the source of this build.
func String() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
