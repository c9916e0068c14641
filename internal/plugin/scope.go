package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/controller"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/snapshot"
	"confrev.io/confrev/internal/workload"
)

// scope is what a verb looks at: a namespace, or all.
type scope struct {
	*connection
	*controller.Planner
	installation installation
	all          bool
	// notes say what the user should know of what is not shown, and why.
	notes []string
}

// look takes a snapshot of the namespace of the flags, or of all, with the pods in it.
func (p *plugin) look(ctx context.Context, all bool) (*scope, error) {
	c, err := p.connect()
	if err != nil {
		return nil, err
	}
	s := &scope{connection: c, all: all}
	if s.installation, err = findInstallation(ctx, c, p.controllerNamespace); err != nil {
		return nil, err
	}
	return s, s.take(ctx)
}

// take takes the snapshot, anew when there was one.
func (s *scope) take(ctx context.Context) (err error) {
	namespace := s.namespace
	if s.all {
		namespace = ""
	}
	if s.Planner, err = controller.NewPlanner(ctx, s.connection, s.installation.options, namespace); err != nil {
		return err
	}
	if err := s.Snapshot.TakePods(ctx); err != nil {
		return err
	}
	s.notes = s.installation.notes()
	if s.installation.deployment == nil && !s.secretsHandled() {
		s.Options.Secrets = false
	}
	return s.noteRefusals()
}

func (s *scope) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// seesPods tells whether the user may list pods.
func (s *scope) seesPods() bool { return s.Snapshot.Refused(snapshot.Pod) == nil }

// secretsHandled tells whether there is a trace of the controller handling Secrets, for users who may not look at the
// controller: it leaves a revision, or a note on a template, of every Secret that it handles.
func (s *scope) secretsHandled() bool {
	if slices.ContainsFunc(s.Snapshot.Sources(pin.Secret), revision.IsRevision) {
		return true
	}
	for _, look := range s.Workloads() {
		template, err := look.Kind.Template(look.Workload)
		if err == nil && strings.Contains(template.Annotations[keys.Pins]+template.Annotations[keys.Hashes], string(pin.Secret)+"/") {
			return true
		}
	}
	return false
}

// noteRefusals says what the user may not see. With no kind of workloads to see, that is an error.
func (s *scope) noteRefusals() error {
	seen := false
	for _, kind := range s.Kinds {
		seen = seen || s.Snapshot.Refused(kind.GVK) == nil
	}
	if !seen {
		return s.Snapshot.Refused(workload.Deployment.GVK)
	}
	for _, gvk := range s.Snapshot.RefusedKinds() {
		s.note("you may not list %s%s", plural(gvk), s.meaning(gvk))
	}
	return nil
}

// meaning says what it means that the user may not list a kind.
func (s *scope) meaning(gvk schema.GroupVersionKind) string {
	switch gvk.Kind {
	case "Pod":
		return ": pods are not counted"
	case "Namespace":
		return ": the label " + keys.Track + " of namespaces is not considered"
	case "ConfigMap", "Secret":
		return ": what became of those is not known"
	}
	for _, kind := range s.Kinds {
		if kind.GVK == gvk {
			return ": they are left out"
		}
	}
	return ": a workload that was rolled back may look as if it were advancing"
}

// plural is a kind in messages.
func plural(gvk schema.GroupVersionKind) string { return strings.ToLower(gvk.Kind) + "s" }

// addAll adds kubectl's flag for all namespaces.
func addAll(cmd *cobra.Command, all *bool) {
	cmd.Flags().BoolVarP(all, "all-namespaces", "A", false, "Look at all namespaces, whatever --namespace says.")
}
