// Package sandbox is what separates a real node from the machine: namespaces, cgroups, and a first process that its others end with.
package sandbox

// Cgroups is where they are mounted.
const Cgroups = "/sys/fs/cgroup"
