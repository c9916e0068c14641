package rollout

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// Options are those options of the controller that a rollout depends on.
type Options struct {
	// Settle is how long a workload's sources must be quiet before it advances (rule 2).
	Settle time.Duration
	// Secrets makes confrev handle Secrets too. Without it, it needs no right on them.
	Secrets bool
	// Injection is where pins are applied, unless a workload says otherwise.
	Injection optin.Injection
	// Compat says which other tools' annotations opt in.
	Compat optin.Compat
	// Rotating says which further classes of sources have the policy rotate by default.
	Rotating optin.Rotating
	// RestartOn lists what confrev.io/restart-on may name, other than ConfigMaps and Secrets. RestartOnAny lets it name anything,
	// for people who look with their own rights where the controller's list is not known.
	RestartOn    []schema.GroupResource
	RestartOnAny bool
	// Namespace is confrev's own, which it never touches.
	Namespace string
}

// SourceKinds are the kinds of sources that are enabled.
func (o Options) SourceKinds() []pin.Kind {
	if o.Secrets {
		return pin.Kinds
	}
	return []pin.Kind{pin.ConfigMap}
}

// Enabled reports whether sources of a kind are read at all.
func (o Options) Enabled(kind pin.Kind) bool { return slices.Contains(o.SourceKinds(), kind) }

// Excluded reports whether confrev keeps out of a namespace (rule 18).
func (o Options) Excluded(namespace string) bool {
	return namespace == metav1.NamespaceSystem || namespace == o.Namespace
}
