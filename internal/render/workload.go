package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/workload"
)

func (r *renderer) workload(o *object, kind workload.Kind) error {
	values, err := o.values()
	if err != nil {
		return err
	}
	if isLeftAlone(o, values) || r.pointless(o, kind, values) {
		return nil
	}
	template, err := kind.Template(values)
	if err != nil {
		return o.errorf("%v", detailedError(err, values, kind))
	}
	uses, err := r.selectUses(o, values, podspec.Uses(&template.Spec))
	if err != nil || len(uses) == 0 {
		return err
	}
	if r.Mode == Checksum {
		return r.checksum(o, kind, uses)
	}
	return r.rewrite(o, kind, template, uses)
}

// detailedError returns an error that names the field because of which a template cannot be read.
func detailedError(err error, values *unstructured.Unstructured, kind workload.Kind) error {
	fields, _, _ := unstructured.NestedFieldNoCopy(values.Object, strings.Split(kind.Path, ".")...)
	data, jsonErr := json.Marshal(fields)
	if jsonErr == nil {
		jsonErr = kjson.UnmarshalCaseSensitivePreserveInts(data, &corev1.PodTemplateSpec{})
	}
	if jsonErr == nil {
		return err
	}
	return fmt.Errorf("%s is not a pod template: %w", kind.Path, jsonErr)
}

// isLeftAlone reports whether rendering leaves an object alone (rule 10).
func isLeftAlone(o *object, meta metav1.Object) bool {
	_, asked := meta.GetAnnotations()[keys.Mode]
	// In any other mode, the controller handles it.
	return o.namespace == metav1.NamespaceSystem || isHook(meta) || asked && !optin.ModeOf(meta.GetAnnotations()).Attaches
}

// pointless reports whether a changed template would have no effect on a workload.
func (r *renderer) pointless(o *object, kind workload.Kind, meta metav1.Object) bool {
	if r.Mode == Checksum {
		// What only starts Jobs reads the source whenever it does.
		return kind.RunsJobs()
	}
	// The template of an existing Job cannot change, but a Job whose name is generated is a new one each time.
	return kind.Fixed && (o.name != "" || meta.GetGenerateName() == "")
}

// selectUses returns those uses of sources that are in the stream and that the workload tracks.
func (r *renderer) selectUses(o *object, meta metav1.Object, uses []podspec.Use) ([]podspec.Use, error) {
	annotations := map[string]string{keys.Mode: optin.Attach.Name}
	maps.Copy(annotations, meta.GetAnnotations())
	asked := optin.Read(optin.Metadata{Annotations: annotations}, optin.Defaults{Injection: optin.Template})
	for _, problem := range asked.Problems {
		r.warn(o, problem.Text)
	}
	traits := map[pin.Source]optin.Traits{}
	for _, use := range uses {
		s := r.sources[place{use.Source, o.namespace}]
		if s == nil {
			continue
		}
		about, problems, err := s.describe()
		if err != nil {
			return nil, err
		}
		for _, problem := range problems {
			r.warn(s.object, problem.Text)
		}
		traits[use.Source] = about
	}
	selection := asked.Track.Select(uses, r.Mode != Checksum, func(s pin.Source) optin.Traits { return traits[s] })
	for _, s := range slices.SortedFunc(maps.Keys(selection.Refused), pin.Source.Compare) {
		r.warn(o, s.String()+" is left as it is: "+selection.Refused[s])
	}
	return slices.DeleteFunc(selection.Uses, func(use podspec.Use) bool { return !r.inStream(o, use.Source) }), nil
}

// inStream reports whether a source that an object refers to is in the stream. If it only seems not to be, the user is warned.
func (r *renderer) inStream(o *object, s pin.Source) bool {
	if r.sources[place{s, o.namespace}] != nil {
		return true
	}
	if o.namespace == "" && r.named[s] || o.namespace != "" && r.sources[place{s, ""}] != nil {
		r.warn(o, s.String()+" is left as it is: only one of the two names its namespace; use --namespace")
	}
	return false
}

// rewrite makes the template refer to revisions. If a controller is running, it makes the workload's holders own them.
func (r *renderer) rewrite(o *object, kind workload.Kind, template *corev1.PodTemplateSpec, uses []podspec.Use) error {
	names := map[pin.Source]string{}
	for _, use := range uses {
		revision, err := r.revisionOf(r.sources[place{use.Source, o.namespace}])
		if err != nil {
			return err
		}
		names[use.Source] = revision.name
	}
	resolve := func(s pin.Source) (string, bool) {
		name, known := names[s]
		return name, known
	}
	for _, replacement := range podspec.Replacements(&template.Spec, resolve) {
		name, err := atPointer(o.node, kind.TemplatePointer()+"/spec"+replacement.Pointer)
		if err != nil {
			return o.errorf("%v", err)
		}
		o.rename(name, replacement.Name)
	}
	o.annotate(o.node, keys.Mode, optin.Attach.Name)
	if list := text(o.node, "metadata", "annotations", keys.Track); list != "" {
		o.annotate(o.node, keys.Track, replaceListed(list, names))
	}
	return nil
}

// replaceListed replaces sources by revisions in a list of tracked sources, since the controller looks for what the template
// refers to.
func replaceListed(list string, names map[pin.Source]string) string {
	items := strings.Split(list, ",")
	for i, item := range items {
		if s, err := pin.ParseSource(strings.TrimSpace(item)); err == nil && names[s] != "" {
			items[i] = pin.Source{Kind: s.Kind, Name: names[s]}.String()
		}
	}
	return strings.Join(items, ",")
}

// checksum writes the hashes of what a template uses to it, as mode restart does: unused keys do not count (rule 3).
func (r *renderer) checksum(o *object, kind workload.Kind, uses []podspec.Use) error {
	var sums []string
	for _, use := range uses {
		read, err := r.sources[place{use.Source, o.namespace}].read()
		if err != nil {
			return err
		}
		sums = append(sums, use.String()+"="+read.Digests().Sum(use.All, use.Keys))
	}
	template, err := atPointer(o.node, kind.TemplatePointer())
	if err != nil {
		return o.errorf("%v", err)
	}
	o.annotate(template, keys.Checksum, strings.Join(sums, ","))
	return nil
}
