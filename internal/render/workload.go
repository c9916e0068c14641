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

// workload renders one workload.
func (r *renderer) workload(o *object, kind workload.Kind) error {
	values, err := o.values()
	if err != nil {
		return err
	}
	if leftAlone(o, values) || r.futile(o, kind, values) {
		return nil
	}
	template, err := kind.Template(values)
	if err != nil {
		return o.errorf("%v", detailed(err, values, kind))
	}
	uses, err := r.choose(o, values, podspec.Uses(&template.Spec))
	if err != nil || len(uses) == 0 {
		return err
	}
	if r.Mode == Checksum {
		return r.checksum(o, kind, uses)
	}
	return r.rewrite(o, kind, template, uses)
}

// detailed makes an error of a template that is none tell the field.
func detailed(err error, values *unstructured.Unstructured, kind workload.Kind) error {
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

// leftAlone tells whether an object is none of render's business (rule 10).
func leftAlone(o *object, meta metav1.Object) bool {
	mode, asked := meta.GetAnnotations()[keys.Mode]
	// In another mode it is the controller's.
	return o.namespace == metav1.NamespaceSystem || isHook(meta) || asked && mode != string(optin.Attach)
}

// futile tells whether another template would do a workload no good.
func (r *renderer) futile(o *object, kind workload.Kind, meta metav1.Object) bool {
	if r.Mode == Checksum {
		// What only starts Jobs reads the source when it does.
		return kind.RunsJobs()
	}
	// A Job that exists takes no other template. One whose name is made anew each time takes any.
	return kind.Fixed && (o.name != "" || meta.GetGenerateName() == "")
}

// choose gives the uses of sources that are in the stream and that the workload wants to be followed.
func (r *renderer) choose(o *object, meta metav1.Object, uses []podspec.Use) ([]podspec.Use, error) {
	annotations := map[string]string{keys.Mode: string(optin.Attach)}
	maps.Copy(annotations, meta.GetAnnotations())
	asked := optin.Read(optin.Metadata{Annotations: annotations}, optin.Defaults{Injection: optin.Template})
	for _, problem := range asked.Problems {
		r.warn(o, problem.Note)
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
			r.warn(s.object, problem.Note)
		}
		traits[use.Source] = about
	}
	selection := asked.Track.Select(uses, r.Mode != Checksum, func(s pin.Source) optin.Traits { return traits[s] })
	for _, s := range slices.SortedFunc(maps.Keys(selection.Refused), pin.Source.Compare) {
		r.warn(o, s.String()+" is left as it is: "+selection.Refused[s])
	}
	return slices.DeleteFunc(selection.Uses, func(use podspec.Use) bool { return !r.has(o, use.Source) }), nil
}

// has tells whether what an object refers to is in the stream. If it only seems not to be, the user should know.
func (r *renderer) has(o *object, s pin.Source) bool {
	if r.sources[place{s, o.namespace}] != nil {
		return true
	}
	if o.namespace == "" && r.named[s] || o.namespace != "" && r.sources[place{s, ""}] != nil {
		r.warn(o, s.String()+" is left as it is: only one of both names its namespace; give --namespace")
	}
	return false
}

// rewrite makes the template refer to revisions, and lets the controller, if there is one, make the workload's holders own
// them.
func (r *renderer) rewrite(o *object, kind workload.Kind, template *corev1.PodTemplateSpec, uses []podspec.Use) error {
	names := map[pin.Source]string{}
	for _, use := range uses {
		revision, err := r.revise(r.sources[place{use.Source, o.namespace}])
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
		name, err := pointed(o.node, kind.TemplatePointer()+"/spec"+replacement.Pointer)
		if err != nil {
			return o.errorf("%v", err)
		}
		o.rename(name, replacement.Name)
	}
	o.annotate(o.node, keys.Mode, string(optin.Attach))
	if list := text(o.node, "metadata", "annotations", keys.Track); list != "" {
		o.annotate(o.node, keys.Track, relist(list, names))
	}
	return nil
}

// relist makes a list of tracked sources name revisions: the controller looks for what the template refers to.
func relist(list string, names map[pin.Source]string) string {
	items := strings.Split(list, ",")
	for i, item := range items {
		if s, err := pin.ParseSource(strings.TrimSpace(item)); err == nil && names[s] != "" {
			items[i] = pin.Source{Kind: s.Kind, Name: names[s]}.String()
		}
	}
	return strings.Join(items, ",")
}

// checksum stamps on the template what it uses, as mode restart does: keys that it does not use do not count (rule 3).
func (r *renderer) checksum(o *object, kind workload.Kind, uses []podspec.Use) error {
	var sums []string
	for _, use := range uses {
		read, err := r.sources[place{use.Source, o.namespace}].read()
		if err != nil {
			return err
		}
		sums = append(sums, use.String()+"="+read.Digests().Sum(use.All, use.Keys))
	}
	template, err := pointed(o.node, kind.TemplatePointer())
	if err != nil {
		return o.errorf("%v", err)
	}
	o.annotate(template, keys.Checksum, strings.Join(sums, ","))
	return nil
}
