// Package version says which version of confrev a binary is.
package version

import "runtime/debug"

// release is set by the linker for released binaries.
var release string

// Release is the released version; empty for what was built from a tree.
func Release() string { return release }

// String is the release, or what the Go toolchain knows of the source that this was built from.
func String() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
