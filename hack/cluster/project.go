package main

import "strings"

// project is everything that this module knows of the project whose tests it serves. To use it elsewhere, copy this folder
// and the modules that you need, and change these values (and the module's path in go.mod).
var project = struct {
	// name is that of the default cluster. The folders of binaries and of clusters, and the cgroups of real nodes, are below
	// folders of this name.
	name string
	// domain begins the keys and the images that the module itself makes up, such as example.com/node.
	domain string
	// modules is the folder of the modules from which binaries are built (components.go), seen from this one.
	modules string
	// command is how people run this module, for messages that say what to do next.
	command string
	// pins is the annotation of pods by whose value, too, they can be kept unready (stages.yaml).
	pins string
	// sourceVariable is the environment variable that chooses where the control plane's binaries come from.
	sourceVariable string
}{
	name:           "confrev",
	domain:         "confrev.io",
	modules:        "../modules",
	command:        "go run -C hack/cluster .",
	pins:           "confrev.io/pins",
	sourceVariable: "CONFREV_BINARIES",
}

var (
	// nodeKey is the key of a real node's label and taint.
	nodeKey = project.domain + "/node"
	// probeImage is the image for containers on a real node, pauseImage that of the sandboxes of its pods.
	probeImage, pauseImage = project.domain + "/probe:latest", project.domain + "/pause:latest"
	// insideNode is what the node's processes see its folder as. A socket's path must be short.
	insideNode = "/run/" + project.name + "/node"
)

// insideTool returns where the node's processes find the binaries of a tool.
func insideTool(name string) string { return "/run/" + project.name + "/" + name }

// cgroupOf returns the path below which the cgroups of a real node's containers are.
func cgroupOf(name string) string { return "/" + project.name + "-" + name }

// fill replaces {{name}}, in the settings that are embedded, by its value.
func fill(settings string, values ...string) string {
	return strings.NewReplacer(append(values, "{{pins}}", project.pins, "{{inside}}", insideNode, "{{pause}}", pauseImage, "{{node}}", nodeName,
		"{{cni}}", insideTool("cni"))...).Replace(settings)
}
