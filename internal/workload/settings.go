package workload

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/optin"
)

// Config returns a workload's configuration. It reads the annotations and labels of the workload, of the workloads that refer to it,
// and of its namespace.
func (k Kind) Config(obj client.Object, referring []client.Object, namespace client.Object, defaults optin.Defaults) optin.Config {
	var others, labels []map[string]string
	for _, other := range referring {
		others, labels = append(others, other.GetAnnotations()), append(labels, other.GetLabels())
	}
	written := optin.Metadata{Annotations: optin.Merge(obj.GetAnnotations(), others...),
		Labels:          optin.Merge(obj.GetLabels(), labels...),
		NamespaceLabels: namespace.GetLabels(), NamespaceAnnotations: namespace.GetAnnotations()}
	if template, err := k.Template(obj); err == nil {
		written.TemplateAnnotations = template.Annotations
	}
	return optin.Read(written, defaults)
}
