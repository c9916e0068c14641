package cli

import "runtime/debug"

// release is set by the linker for released binaries.
var release string

// version is the release, or what the Go toolchain knows of the source that this was built from.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
