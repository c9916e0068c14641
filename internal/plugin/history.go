package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
)

const historyLong = `Show the revisions of a source, or of all sources that a workload is pinned to: who uses each, and what changed.

CHANGES compares with the number before: "+a -b ~c" means that key a was added, b removed and c changed. It is told from digests,
values are not read. CURRENT marks the revision with the source's present content. USED BY has the workloads whose templates, or
whose kept ReplicaSets, ControllerRevisions or Jobs, are pinned to it; with -o wide these too, and the size.`

const historyExample = `
		# The revisions of a ConfigMap
		kubectl confrev history configmap/app

		# Those of all that a Deployment is pinned to, with sizes and who holds them
		kubectl confrev history deployment/web -o wide

		# The names of all revisions
		kubectl confrev history configmap/app -o name`

type historyOptions struct {
	*plugin
	output
}

func newHistory(p *plugin) *cobra.Command {
	o := &historyOptions{plugin: p}
	cmd := &cobra.Command{
		Use:               "history TYPE/NAME...",
		Short:             "Show the revisions of a source or workload, who uses them, and what changed",
		Long:              historyLong,
		Example:           examples(historyExample),
		Args:              needsObjects,
		ValidArgsFunction: p.completeSourcesAndWorkloads,
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.add(cmd)
	return cmd
}

// needsObjects demands that objects are named.
func needsObjects(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("say of what: kubectl confrev %s; see --help", cmd.Use)
	}
	return nil
}

// arguments reads the objects of a verb that needs names.
func (p *plugin) arguments(args []string) ([]argument, error) {
	mapper, err := p.factory.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	all, err := parseArguments(mapper, args)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(a argument) bool { return a.name == "" }) {
		return nil, errors.New("a name is missing: write TYPE/NAME, such as configmap/app")
	}
	return all, nil
}

func (o *historyOptions) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	arguments, err := o.arguments(args)
	if err != nil {
		return err
	}
	s, err := o.look(ctx, false)
	if err != nil {
		return err
	}
	sources, err := s.sourcesOf(ctx, arguments)
	if err != nil {
		return err
	}
	report := &historyReport{}
	for _, source := range sources {
		history, err := s.history(ctx, source)
		if err != nil {
			return err
		}
		report.list.Items = append(report.list.Items, history)
	}
	report.notes = slices.Compact(s.notes)
	if o.format() != "" && o.format() != "name" {
		if err := s.measure(ctx, report); err != nil {
			return err
		}
	}
	o.printNotes(report.notes)
	if report.empty() && o.isTable() {
		_, err := fmt.Fprintf(o.ErrOut, "No revisions found: no workload that confrev follows uses it.\n")
		return err
	}
	return o.print(o.Out, report, false)
}

// sourcesOf gives the sources that were named, and those of the workloads that were named, each once.
func (s *scope) sourcesOf(ctx context.Context, arguments []argument) ([]pin.Source, error) {
	var all []pin.Source
	for _, a := range arguments {
		if source, ok := a.source(); ok {
			if err := s.known(source, a); err != nil {
				return nil, err
			}
			all = append(all, source)
			continue
		}
		found, err := s.find(a)
		if err != nil {
			return nil, err
		}
		look, err := s.Look(ctx, found.Kind, found.Workload, false)
		if err != nil {
			return nil, err
		}
		all = append(all, look.Template.Sources()...)
		for _, d := range look.Pins.Decisions {
			all = append(all, d.Source)
		}
	}
	slices.SortFunc(all, pin.Source.Compare)
	return slices.Compact(all), nil
}

// known complains of a source that does not exist and never had a revision, or that the user may not see.
func (s *scope) known(source pin.Source, a argument) error {
	if err := s.Snapshot.Refused(revision.GVK(source.Kind)); err != nil {
		return err
	}
	for _, obj := range s.Snapshot.Sources(source.Kind) {
		if obj.GetNamespace() != s.namespace {
			continue
		}
		if obj.GetName() == source.Name && revision.IsRevision(obj) {
			return fmt.Errorf("%s is itself a revision; its source is %s", source, revision.SourceOf(source.Kind, obj))
		}
		if obj.GetName() == source.Name || revision.IsRevision(obj) && revision.SourceOf(source.Kind, obj) == source {
			return nil
		}
	}
	return apierrors.NewNotFound(a.resource, a.name)
}

// measure reads the sizes of the revisions: one LIST of each kind.
func (s *scope) measure(ctx context.Context, report *historyReport) error {
	names := map[pin.Kind][]string{}
	for _, h := range report.list.Items {
		names[h.source.Kind] = append(names[h.source.Kind], content.SourceLabel(h.source.Name))
	}
	for kind, labeled := range names {
		wanted, err := labels.NewRequirement(keys.Source, selection.In, labeled)
		if err != nil {
			return err
		}
		sizes, err := s.sizes(ctx, kind, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*wanted)})
		if err != nil {
			return err
		}
		for i := range report.list.Items {
			if h := &report.list.Items[i]; h.source.Kind == kind {
				h.setSizes(sizes)
			}
		}
	}
	return nil
}

func (s *scope) sizes(ctx context.Context, kind pin.Kind, selector client.ListOption) (map[string]content.Content, error) {
	sizes := map[string]content.Content{}
	if kind == pin.Secret {
		list := &corev1.SecretList{}
		err := s.List(ctx, list, client.InNamespace(s.namespace), selector)
		for i := range list.Items {
			sizes[list.Items[i].Name] = content.FromSecret(&list.Items[i])
		}
		return sizes, err
	}
	list := &corev1.ConfigMapList{}
	err := s.List(ctx, list, client.InNamespace(s.namespace), selector)
	for i := range list.Items {
		sizes[list.Items[i].Name] = content.FromConfigMap(&list.Items[i])
	}
	return sizes, err
}
